"""NCF by whoever had all histories in one place, which the federated one is measured against: the arm *pooled*.

The same model, loss and optimiser as in `horizontal_ncf`, over all banks' people at once, without rounds: Adam keeps
its moments from the first epoch to the last. Given one bank's histories it is *bank alone* with settings of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from components.contract import Arrays
from components.horizontal_ncf import HorizontalNcfParams
from components.split_tables import as_array
from models import ncf, ncf_training, negatives
from models.histories import Histories


def fit(own: Sequence[Histories], params: HorizontalNcfParams, seed: int, catalogue: str) -> list[Arrays]:
    """Return each bank's part of the model of all banks' `own` histories, in the form of the component."""
    every, more = together(own), {"form": params.form.to_array(), "catalogue": as_array(catalogue)}
    model = _trained(every, params, np.random.default_rng([seed, 0x9CF]))
    ends = np.cumsum([h.users for h in own])
    shared = {"V": model.V, "V_own": np.zeros_like(model.V), "layers": model.θ}
    return [{**shared, "P": P, **more} for P in np.split(model.P, ends[:-1])]


def together(own: Sequence[Histories]) -> Histories:
    """Return the histories of all banks' people, one bank after the other."""
    first = np.cumsum([0, *(h.users for h in own)])
    user = np.concatenate([h.user + np.int32(n) for h, n in zip(own, first[:-1], strict=True)])
    return Histories(user, np.concatenate([h.item for h in own]), int(first[-1]), own[0].items)


def _trained(h: Histories, params: HorizontalNcfParams, rng: np.random.Generator) -> ncf.Model:
    """Return the model after as many epochs as the rounds have."""
    form = params.form
    V, P = (ncf.start_rows(rng, rows, form, params.start_deviation) for rows in (h.items, h.users))
    model = ncf.Model(form, ncf.start_layers(rng, form), V, P)
    adam = ncf_training.Adam((model.θ, model.V, model.P), params.learning_rate)
    for _ in range(params.rounds * params.local_epochs):
        order = rng.permutation(len(h))
        drawn = negatives.draw(rng, h, h.user[order], params.negatives)
        ncf_training.epoch(model, h, order, drawn, adam, params.loss, params.batch_size)
    return model
