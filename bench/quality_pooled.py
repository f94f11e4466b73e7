"""The models in float64 by whoever had all histories in one place: what the federated ones are measured against.

What the parameters withhold at a bank is withheld here too, so with thresholds these are the pooled models of the same
thresholded statistics; with least numbers of 1 they are the pooled models.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from base.canonical import digest_bytes
from bench.parties import streams
from components.contract import Arrays
from components.split_tables import as_array
from models import ease, ials, slist
from models.histories import Histories
from models.ials import Loss
from models.slist import Decays
from models.symmetric import Floats, enough_ridge
from models.thresholds import enough_pairs, enough_raters


def fit(kind: str, own: Sequence[Histories], params: Any, seed: int, catalogue: str) -> list[Arrays]:
    """Return each bank's part of the model of all banks' `own` histories, in the form of the kind's component."""
    kept, more = [enough_raters(h, params.min_raters) for h in own], {"catalogue": as_array(catalogue)}
    if kind == "ials":
        loss = Loss(params.unobserved, params.reg, params.frequency)
        Q = _items(kept, params, loss, seed)
        return [{"Q": Q, "Q_own": np.zeros_like(Q), "P": ials.user_step(h, Q, loss), **more} for h in own]
    if kind == "slist":
        more["input_decay"] = np.array(params.input_decay)
    B = {"ease": _ease, "slist": _slist}[kind](kept, params)
    return [{"B": B, "sum": as_array(digest_bytes(B.tobytes())), **more}] * len(own)


def _ease(kept: Sequence[Histories], params: Any) -> Floats:
    G = sum((enough_pairs(ease.statistics(h), params.min_pairs)[0] for h in kept), np.zeros(()))
    return ease.solve(G, enough_ridge(G, params.reg))


def _slist(kept: Sequence[Histories], params: Any) -> Floats:
    total = np.zeros((3, kept[0].items, kept[0].items))
    for h in kept:
        decays = Decays(params.past, params.future)
        G, SS, ST = slist.statistics(h, decays)
        total += enough_pairs(G, params.min_pairs, SS, ST * (slist.orders(h, decays) >= params.min_pairs))
    G, SS, ST = total
    reg = enough_ridge(params.alpha * G + (1 - params.alpha) * SS, params.reg)
    return slist.solve(G, SS, ST, reg, params.alpha)


def _items(kept: Sequence[Histories], params: Any, loss: Loss, seed: int) -> Floats:
    """Return Q (I, d) from the start that the run has, over all people at once."""
    first = np.cumsum([0, *(h.users for h in kept)])
    user = np.concatenate([h.user + np.int32(n) for h, n in zip(kept, first[:-1], strict=True)])
    every = Histories(user, np.concatenate([h.item for h in kept]), int(first[-1]), kept[0].items)
    shape = every.items, params.embedding_size
    Q = streams(seed).shared("Q").normal(0.0, params.start_deviation / np.sqrt(shape[1]), shape)
    for _ in range(params.sweeps):
        Q = ials.solve_items(ials.item_sums(every, ials.user_step(every, Q, loss)), params.embedding_size, loss)
    return Q
