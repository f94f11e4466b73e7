"""Banks with different customers and one catalogue solve one EASE model from the sum of their co-occurrence counts.

Steck (2019, eq. 8, `models.ease`): B depends on the people through G = XᵀX alone, and G is a sum over people. So one
secure sum gives every bank the model that all their thresholded histories would give in one place, to the last bit.
With `complete` a bank then solves a copy of its own: its own counts are exact in it, and for what the others withheld
stands what is to be expected of them (`models.thresholds.expected_counts`). Nothing more crosses for that.

Adversary: as in `secure_sum`; what leaves is thresholded and leaves once in an epoch (`released_statistics`), or with
`dp` has noise (`private_items`).

    X_j  histories of party j, 0 and 1  (U_j, I)    G = Σ_j X_jᵀX_j  (I, I)    B  weights from item to item (I, I)
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from annotated_types import Gt

from base.canonical import digest_bytes
from components.contract import Component, Context, Outputs
from components.private_items import Copy, noisy_statistics
from components.private_sum import Privacy
from components.released_statistics import NOT_PROTECTED, Own, PairParams, as_arrays, release
from components.secure_sum import ADVERSARY, MIN_PARTIES, OpenTotal, add_once, open_total, sum_messages
from components.split_tables import as_array
from crypto.packing import Lanes
from models import ease
from models.symmetric import Floats, enough_ridge, from_upper, upper
from models.thresholds import enough_pairs, expected_counts

MESSAGES = sum_messages("G over all parties: how many people have both of two items, where a party has enough of them")


NOISE_FRACTION = 8  # bits after the point under `dp`, where a person may weigh less than 1


class HorizontalEaseParams(PairParams):
    """The one parameter of the model, and how wide a count may be."""

    reg: Annotated[float, Gt(0)] = 500.0  # λ, in people; doubled until thresholded sums have a solution
    lane: Literal[16, 24, 32, 64] = 32  # bits of a count


def data_holder(ctx: Context, params: HorizontalEaseParams) -> Outputs:
    """Return the model, and the control: the model of the own people alone."""
    # 1. Own counts, and those with enough people behind them.
    add = open_total(ctx, params, paid=params.dp is not None)
    own = release(ctx, params, "horizontal_ease")
    G = ease.statistics(own.histories)
    if params.dp is not None:
        copy = _noisy(ctx, params, params.dp, add, own, G)
        return _solved(ctx, params, own, G, copy)
    (R,) = enough_pairs(ease.statistics(own.kept), params.min_pairs)

    # 2. One secure sum of them, with the number of people.
    lanes, users = Lanes(params.lane, 0, len(ctx.parties("data_holder"))), own.histories.users
    Σ = add(np.append(upper(R), users), lanes, 0, own.bound(), "G").astype(np.float64)
    share, total, others = users / Σ[-1], from_upper(Σ[:-1], len(G)), len(ctx.parties("data_holder")) - 1
    if params.complete:
        total = expected_counts(total, G, R, share, others, params.min_pairs)
    return _solved(ctx, params, own, G, Copy((total,), Σ, share))


def _noisy(ctx: Context, params: HorizontalEaseParams, privacy: Privacy, add: OpenTotal, own: Own, G: Floats) -> Copy:
    """2. with noise: whole people, clipped, instead of what has enough of them behind it."""
    lanes, n = Lanes(params.lane, NOISE_FRACTION, len(ctx.parties("data_holder"))), len(G)
    people, size = ease.contributions(own.histories), n * (n + 1) // 2
    return noisy_statistics(ctx, params, privacy, add, own, people, (G,), lanes, lambda v: (from_upper(v, n),), size)


def _solved(ctx: Context, params: HorizontalEaseParams, own: Own, G: Floats, copy: Copy) -> Outputs:
    # 3. Everyone solves the same system, or its own copy of it; and the control.
    (total,), share = copy.statistics, copy.share
    reg = enough_ridge(total, params.reg)
    ctx.metric("reg", reg)
    ctx.progress(1, 2, "models")
    model, alone = ease.solve(total, reg), ease.solve(G, params.reg * share)
    ctx.progress(2, 2, "models")
    catalogue = {"catalogue": as_array(own.catalogue)}
    return {
        "model": {
            "B": model,
            "sum": as_array(digest_bytes(copy.total.tobytes())),
            **as_arrays(own.histories),
            **catalogue,
        },
        "alone": {"B": alone, **catalogue},
    }


COMPONENT = Component(
    name="horizontal_ease",
    roles={"data_holder": data_holder, "aggregator": add_once},
    params=HorizontalEaseParams,
    messages=MESSAGES,
    inputs={"ratings": "ratings split by split_leave_one_out"},
    optional_inputs=("ratings",),  # the aggregator has none
    outputs={
        "model": "B: the same at every data_holder, unless complete puts back what is left out; "
        "sum: digest of the total; history, start: this party's own people",
        "alone": "B of the own people alone, nothing exchanged",
    },
    min_parties={"data_holder": MIN_PARTIES, "aggregator": 1},
    adversary=ADVERSARY + NOT_PROTECTED,
)
