"""Banks with different customers and one catalogue solve one SLIST model, which knows the order of time, from sums.

Choi et al. (2021, section 4, `models.slist`): B depends on the people through G = XᵀX, SS = SᵀS and ST = SᵀT alone, and
these are sums over people. So one secure sum gives every bank the model that all their thresholded statistics would
give in one place, to the fixed point of the lanes. With `complete` a bank then puts what it had left out back into its
own copy, which it alone solves.

Adversary: as in `secure_sum`; what leaves is thresholded, pairs alike in all three, and leaves once in an epoch
(`released_statistics`), or with `dp` has noise (`private_items`).

    G       people with both items           (I, I)    B  weights from item to item (I, I)
    SS, ST  decayed pasts and futures, summed over all splits of every history  (I, I)
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Gt, Le

from base.canonical import digest_bytes
from components.contract import Component, Context, Outputs
from components.private_items import Copy, noisy_statistics
from components.released_statistics import NOT_PROTECTED, Own, PairParams, as_arrays, release
from components.secure_sum import ADVERSARY, MIN_PARTIES, add_once, open_total, sum_messages
from components.split_tables import as_array
from crypto.packing import Lanes
from models import slist
from models.slist import Decays
from models.symmetric import Floats, enough_ridge, from_upper, upper
from models.thresholds import completed, enough_pairs

MESSAGES = sum_messages("G, SS and ST over all parties: how often, and in which order, people have two items")


Three = tuple[Floats, Floats, Floats]  # G, SS, ST


class HorizontalSlistParams(PairParams):
    """Weights of the model; found on validation items of MovieLens."""

    reg: Annotated[float, Gt(0)] = 800.0  # λ, in people; doubled until thresholded sums have a solution
    alpha: Annotated[float, Ge(0), Le(1)] = 0.5  # α: 1 forgets the order
    past: Annotated[float, Gt(0)] = 5.0  # δ_past, in items of a history
    future: Annotated[float, Gt(0)] = 3.0  # δ_future
    input_decay: Annotated[float, Gt(0)] = 8.0  # δ of the history that is scored
    lane: Literal[24, 32, 64] = 32  # bits of a value
    fraction: Annotated[int, Ge(0), Le(40)] = 16  # bits after the point


def data_holder(ctx: Context, params: HorizontalSlistParams) -> Outputs:
    """Return the model, and the control: the model of the own people alone."""
    # 1. Own statistics, and those with enough people behind them: pairs alike in all three, in ST also of one order.
    add, decays = open_total(ctx, params, paid=params.dp is not None), Decays(params.past, params.future)
    own = release(ctx, params, "horizontal_slist")
    all_own = slist.statistics(own.histories, decays)
    lanes, users = Lanes(params.lane, params.fraction, len(ctx.parties("data_holder"))), own.histories.users
    n, half = len(all_own[0]), len(all_own[0]) * (len(all_own[0]) + 1) // 2

    def unpacked(v: Floats) -> Three:
        return from_upper(v[:half], n), from_upper(v[half : 2 * half], n), v[2 * half : 2 * half + n * n].reshape(n, n)

    if params.dp is not None:
        people, size = slist.contributions(own.histories, decays), 2 * half + n * n
        copy = noisy_statistics(ctx, params, params.dp, add, own, people, all_own, lanes, unpacked, size)
        return _solved(ctx, params, own, all_own, copy)
    G, SS, ST = slist.statistics(own.kept, decays)
    ST = ST * (slist.orders(own.kept, decays) >= params.min_pairs)  # else an order may be one person's
    G, SS, ST = R = enough_pairs(G, params.min_pairs, SS, ST)

    # 2. One secure sum of them, with the number of people.
    Σ = add(np.concatenate([upper(G), upper(SS), ST.ravel(), [users]]), lanes, 0, own.bound(), "G, SS, ST")
    share = users / Σ[-1]
    total = completed(unpacked(Σ), all_own, R, share) if params.complete else unpacked(Σ)
    return _solved(ctx, params, own, all_own, Copy(total, Σ, share))


def _solved(ctx: Context, params: HorizontalSlistParams, own: Own, all_own: Three, copy: Copy) -> Outputs:
    # 3. Everyone solves the same system, or its own copy of it; and the control.
    (G, SS, ST), share = copy.statistics, copy.share
    reg = enough_ridge(params.alpha * G + (1 - params.alpha) * SS, params.reg)
    ctx.metric("reg", reg)
    ctx.progress(1, 2, "models")
    model = slist.solve(G, SS, ST, reg, params.alpha)
    alone = slist.solve(*all_own, params.reg * share, params.alpha)
    ctx.progress(2, 2, "models")
    every = {"input_decay": np.array(params.input_decay), "catalogue": as_array(own.catalogue)}
    return {
        "model": {"B": model, "sum": as_array(digest_bytes(copy.total.tobytes())), **as_arrays(own.histories), **every},
        "alone": {"B": alone, **every},
    }


COMPONENT = Component(
    name="horizontal_slist",
    roles={"data_holder": data_holder, "aggregator": add_once},
    params=HorizontalSlistParams,
    messages=MESSAGES,
    inputs={"ratings": "ratings split by split_leave_one_out"},
    optional_inputs=("ratings",),  # the aggregator has none
    outputs={
        "model": "B: the same at every data_holder, unless complete puts back what the bank left out; input_decay; "
        "sum: digest of the total; history, start: this party's own people",
        "alone": "the same of the own people alone, nothing exchanged",
    },
    min_parties={"data_holder": MIN_PARTIES, "aggregator": 1},
    adversary=ADVERSARY + NOT_PROTECTED,
)
