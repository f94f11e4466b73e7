"""Banks with different customers and one catalogue solve one EASE model from the sum of their co-occurrence counts.

Steck (2019, eq. 8, `models.ease`): B depends on the people through G = XᵀX alone, and G is a sum over people. So one
secure sum gives every bank the model that all their thresholded histories would give in one place, to the last bit.
With `complete` a bank then puts what it had left out back into its own copy, which it alone solves.

Adversary: as in `secure_sum`; what leaves is thresholded and leaves once in an epoch (`released_statistics`).

    X_j  histories of party j, 0 and 1  (U_j, I)    G = Σ_j X_jᵀX_j  (I, I)    B  weights from item to item (I, I)
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from annotated_types import Gt

from base.canonical import digest_bytes
from components.contract import Component, Context, Outputs
from components.released_statistics import NOT_PROTECTED, PairParams, as_arrays, own_copy, release
from components.secure_sum import ADVERSARY, MIN_PARTIES, add_once, open_total, sum_messages
from components.split_tables import as_array
from crypto.packing import Lanes
from models import ease
from models.symmetric import enough_ridge, from_upper, upper
from models.thresholds import enough_pairs

MESSAGES = sum_messages("G over all parties: how many people have both of two items, where a party has enough of them")


class HorizontalEaseParams(PairParams):
    """The one parameter of the model, and how wide a count may be."""

    reg: Annotated[float, Gt(0)] = 500.0  # λ, in people; doubled until thresholded sums have a solution
    lane: Literal[16, 24, 32, 64] = 32  # bits of a count


def data_holder(ctx: Context, params: HorizontalEaseParams) -> Outputs:
    """Return the model, and the control: the model of the own people alone."""
    # 1. Own counts, and those with enough people behind them.
    add, own = open_total(ctx, params), release(ctx, params, "horizontal_ease")
    G = ease.statistics(own.histories)
    (R,) = enough_pairs(ease.statistics(own.kept), params.min_pairs)

    # 2. One secure sum of them, with the number of people.
    lanes, users = Lanes(params.lane, 0, len(ctx.parties("data_holder"))), own.histories.users
    Σ = add(np.append(upper(R), users), lanes, 0, own.bound(), "G").astype(np.float64)
    share = users / Σ[-1]

    # 3. Everyone solves the same system, or its own copy of it; and the control.
    (total,) = own_copy(params, (from_upper(Σ[:-1], len(G)),), (G,), (R,), share)
    reg = enough_ridge(total, params.reg)
    ctx.metric("reg", reg)
    ctx.progress(1, 2, "models")
    model, alone = ease.solve(total, reg), ease.solve(G, params.reg * share)
    ctx.progress(2, 2, "models")
    catalogue = {"catalogue": as_array(own.catalogue)}
    return {
        "model": {"B": model, "sum": as_array(digest_bytes(Σ.tobytes())), **as_arrays(own.histories), **catalogue},
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
        "model": "B: the same at every data_holder, unless complete puts back what the bank left out; "
        "sum: digest of the total; history, start: this party's own people",
        "alone": "B of the own people alone, nothing exchanged",
    },
    min_parties={"data_holder": MIN_PARTIES, "aggregator": 1},
    adversary=ADVERSARY + NOT_PROTECTED,
)
