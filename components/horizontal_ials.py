"""Banks with different customers and one catalogue train iALS factors: people stay, items' normal equations are summed.

Rendle et al. (2021, eq. 2-7, `models.ials`). A sweep: every bank solves its own people's factors P_j for the common Q,
then Q solves the normal equations of the items, which are sums over people. So after every secure sum, one a sweep, all
banks hold the Q that training in one place on the same thresholded histories would give, to fixed point.

Adversary: as in `secure_sum`; the item rule of `released_statistics` holds in every sweep. SECOND MOMENTS SAY MORE THAN
COUNTS OF PAIRS: p_u is a function of Q, which everybody knows, and of u's items. Σ p_u p_uᵀ of an item with less people
than d spans a space in which p of a guessed history lies or not; with d near I it shows which triples of items people
have, however few; and whoever knows the rest of a person's history tests one item more by pᵀ(Σppᵀ)⁺p. So an item needs
RANK·d own people and the catalogue RANK·d items: then the sum tells no more about one item than the model does, which
is still much. An accord has to say `second_moments: true`. What no bank lets out has no row in Q; with `complete` a
bank makes rows of its own for these items, from its own people, and keeps them (`Q_own`).

    Q  items (I, d), the same everywhere    P_j  people of party j (U_j, d)    Σ φ(p_u)  normal equations (I + 1, f)
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Gt, Le

from base.canonical import digest_bytes
from components.contract import Component, Context, Outputs
from components.released_statistics import NOT_PROTECTED, Own, ReleaseParams, release
from components.resume import first_round, keep_round
from components.secure_sum import ADVERSARY, MIN_PARTIES, open_total, relay, sum_messages
from components.split_tables import as_array
from crypto.packing import Lanes
from models import ials
from models.histories import Histories
from models.ials import Loss

MESSAGES = sum_messages("per sweep: normal equations of every item over all parties, Σ p pᵀ, Σ p and how many people")


RANK = 4  # people of an item, and items, for each dimension, at least: tests/attacks/test_item_sums.py


class HorizontalIalsParams(ReleaseParams):
    """Size and loss; found on validation items of MovieLens."""

    second_moments: bool = False  # the accord's: Σ p pᵀ of items may be summed
    min_raters: Annotated[int, Ge(2)] = 32  # own people behind an item, 4·d or more, or the bank leaves it out
    embedding_size: Annotated[int, Ge(1), Le(256)] = 8  # d
    sweeps: Annotated[int, Ge(1), Le(100)] = 8
    unobserved: Annotated[float, Gt(0)] = 0.3  # α₀, weight of a pair that was not observed
    reg: Annotated[float, Gt(0)] = 0.01  # λ
    frequency: Annotated[float, Ge(0), Le(1)] = 1.0  # ν: 0 regularises every row alike, 1 in proportion to its pairs
    start_deviation: Annotated[float, Gt(0)] = 0.1  # of √d·Q before the first sweep
    lane: Literal[24, 32, 64] = 32  # bits of a value
    fraction: Annotated[int, Ge(0), Le(40)] = 16  # bits after the point


def data_holder(ctx: Context, params: HorizontalIalsParams) -> Outputs:
    """Return this party's part of the model, and the control: the part of the own people alone."""
    # 1. Own histories, without items that few people are behind.
    _require_room(ctx, params)
    total, start = open_total(ctx, params), digest_bytes(ctx.shared_rng("Q").bytes(32))
    own, loss = release(ctx, params, "horizontal_ials", start), Loss(params.unobserved, params.reg, params.frequency)
    lanes = Lanes(params.lane, params.fraction, len(ctx.parties("data_holder")))
    kept = ctx.checkpoint.resume()
    Q = _start(ctx, params, own) if kept is None else kept[1]["Q"]
    for t in range(first_round(ctx), params.sweeps):
        # 2. Own people for the common Q, and what they add to the normal equations of the items.
        sums = ials.item_sums(own.kept, ials.user_step(own.kept, Q, loss))

        # 3. One secure sum, bound to that Q; everyone solves the same system.
        Σ = total(sums, lanes, t, own.bound(digest_bytes(np.ascontiguousarray(Q).tobytes())), "normal equations")
        Q = ials.solve_items(Σ.reshape(sums.shape), params.embedding_size, loss)
        ctx.checkpoint.save(t, {"Q": Q})
        ctx.progress(t + 1, params.sweeps, "sweeps")
    alone = _alone(own.histories, _start(ctx, params, own), params, loss)
    catalogue = {"catalogue": as_array(own.catalogue)}
    # 4. Rows of the own people for the items that nobody let out.
    rare = _own_rows(own.histories, Q, loss) if params.complete else np.zeros_like(Q)
    return {
        "model": _part(own.histories, Q, rare, loss) | catalogue,
        "alone": _part(own.histories, alone, np.zeros_like(Q), loss) | catalogue,
    }


def _require_room(ctx: Context, params: HorizontalIalsParams) -> None:
    d, items = params.embedding_size, ctx.inputs["ratings"]["items"].num_rows
    ctx.require(
        params.second_moments and params.min_raters >= RANK * d and items >= RANK * d,
        "second moments of so few people, or over so few items, show histories",
        expected=f"second_moments: true, min_raters and items {RANK * d} or more",
        found=f"second_moments: {str(params.second_moments).lower()}, min_raters {params.min_raters}, {items} items",
        remedy="a smaller embedding_size, or horizontal_ease or horizontal_slist, whose sums hold back pairs",
    )  # fmt: skip


def aggregator(ctx: Context, params: HorizontalIalsParams) -> Outputs:
    """Add the protected normal equations of every sweep."""
    # 3.
    relay(ctx, params, range(first_round(ctx), params.sweeps), keep_round(ctx))
    return {}


def _start(ctx: Context, params: HorizontalIalsParams, own: Own) -> np.ndarray:
    shape = own.histories.items, params.embedding_size
    return ctx.shared_rng("Q").normal(0.0, params.start_deviation / np.sqrt(shape[1]), shape)


def _alone(h: Histories, Q: np.ndarray, params: HorizontalIalsParams, loss: Loss) -> np.ndarray:
    for _ in range(params.sweeps):
        Q = ials.solve_items(ials.item_sums(h, ials.user_step(h, Q, loss)), params.embedding_size, loss)
    return Q


def _own_rows(h: Histories, Q: np.ndarray, loss: Loss) -> np.ndarray:
    """Return what the own people make of the items without a shared row (I, d), 0 for the others."""
    rows = ials.solve_items(ials.item_sums(h, ials.user_step(h, Q, loss)), Q.shape[1], loss)
    return np.where((Q == 0).all(axis=1, keepdims=True), rows, 0.0)


def _part(h: Histories, Q: np.ndarray, Q_own: np.ndarray, loss: Loss) -> dict[str, np.ndarray]:
    return {"Q": Q, "Q_own": Q_own, "P": ials.user_step(h, Q + Q_own, loss)}


COMPONENT = Component(
    name="horizontal_ials",
    roles={"data_holder": data_holder, "aggregator": aggregator},
    params=HorizontalIalsParams,
    messages=MESSAGES,
    inputs={"ratings": "ratings split by split_leave_one_out"},
    optional_inputs=("ratings",),  # the aggregator has none
    outputs={
        "model": "Q: the same at every data_holder; P, Q_own: this party's own, Q_own for items that nobody let out",
        "alone": "the same of the own people alone, nothing exchanged",
    },
    min_parties={"data_holder": MIN_PARTIES, "aggregator": 1},
    adversary=ADVERSARY
    + NOT_PROTECTED
    + "\nSecond moments of people per item: whoever knows nearly all items of a person tests the "
    "rest better than by chance; pairs are not thresholded.",
)
