"""Banks with different customers and one catalogue train item factors together; a customer's parameters never leave.

Every data_holder ends with the same item side V = [b_i ; q_i], its own user side, and its own rows of the items that
nobody shares: what the catalogue says of them, mapped to a row (`models.attribute_map`), and its own people's bias.
The aggregator ends with nothing.

Biased matrix factorisation (`models.mf`) under federated averaging (McMahan et al. 2017, algorithm 1), row by row
(`models.row_average`). One round = E local epochs; then w·ΔV and w travel in ONE protected vector (`secure_sum`),
so a difference of two sums never shows a party. Chai et al. (2021, arXiv 1906.05108) encrypt each
user's gradient; here a party holds many users, and an item with fewer than `min_raters_per_item` of them is withheld.

Adversary: as in `secure_sum`. Not protected: what the totals say, round by round; an item's total may come from one
party alone, with at least `min_raters_per_item` people behind it. Not differentially private.

    μ        mean rating                     ()         V    item side, shared          (I, k+1)
    P, b_u   user side, local                (U_j, k)   w_j  raters of each item, or 0  (I,)
    Q_own, b_own  rows of items with Σw = 0, local      W    Σ_j w_j                    (I,)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
import pyarrow as pa
from annotated_types import Ge, Gt, Le

from base.canonical import digest, digest_bytes
from components.contract import Arrays, Component, Context, Outputs
from components.resume import first_round, keep_round
from components.secure_sum import ADVERSARY, MIN_PARTIES, SumParams, Total, open_total, relay, sum_messages
from components.split_tables import as_array, catalogue_digest
from crypto.packing import Lanes
from features.indexing import rating_columns
from models import mf
from models.attribute_map import mapped_rows, standardised
from models.row_average import averaged, contribution, from_digits, row_weights, to_digits

MESSAGES = sum_messages(
    "per round: Σ w·ΔQ, Σ w·Δb and Σ w (raters of an item at the parties that have enough); "
    "of an item that only one other party trains, that party's row"
)


class HorizontalMfParams(SumParams):
    """Size of the model, how it learns, and what a party withholds. The defaults were found on validation ratings."""

    embedding_size: Annotated[int, Ge(1), Le(256)] = 16  # k
    rounds: Annotated[int, Ge(1), Le(1000)] = 15
    local_epochs: Annotated[int, Ge(1), Le(100)] = 8  # E: passes over the party's own ratings in a round
    learning_rate: Annotated[float, Gt(0)] = 0.01  # for one rating, whatever the batch size
    reg: Annotated[float, Ge(0)] = 0.12  # λ, for each rating
    batch_size: Annotated[int, Ge(1)] = 1000  # ratings
    start_deviation: Annotated[float, Gt(0)] = 0.03  # of Q and P before the first round
    min_raters_per_item: Annotated[int, Ge(2)] = 10  # own people behind a row; a row with fewer is withheld
    rare_prior: Annotated[float, Ge(0)] = 20.0  # ratings' worth of further λ on rows that nobody shares
    rare_ridge: Annotated[float, Gt(0)] = 5.0  # ratings' worth of pull of b_own to the mean of such items
    attribute_ridge: Annotated[float, Gt(0)] = 50.0  # λ of the map from an item's attributes to its row, in raters
    lane: Literal[16, 24, 32, 64] = 16  # bits of a lane; a weight takes two
    fraction: Annotated[int, Ge(0), Le(30)] = 6  # bits after the point of w·ΔV: 1/64 of a star and rater


def data_holder(ctx: Context, params: HorizontalMfParams) -> Outputs:
    """Return this party's part of the model."""
    # 1. Own ratings and the weights of their items, checked before anything is sent.
    own = load(ctx, params)
    return train(ctx, params, own, open_total(ctx, params))


def aggregator(ctx: Context, params: HorizontalMfParams) -> Outputs:
    """Add the protected contributions of every round."""
    first = first_round(ctx)
    # 4.
    relay(ctx, params, params.rounds - first, keep_round(ctx))
    return {}


def train(ctx: Context, params: HorizontalMfParams, own: Own, total: Total) -> Outputs:
    """Train with `total` as the secure sum, and return this party's part of the model."""
    state = _start(ctx, params, own)
    for t in range(first_round(ctx), params.rounds):
        # 2. The shared rows that this round is about; after the first round those that somebody trains.
        rows = np.flatnonzero(state.W > 0)
        state.model.Q[rows], state.model.b_item[rows] = state.V[rows, 1:], state.V[rows, 0]

        # 3. E local epochs, in an order that no peer can predict.
        order = ctx.private_rng(f"order of round {t}")
        λ = np.where(state.W > 0, params.reg, mf.with_prior(params.reg, own.count, params.rare_prior))
        for _ in range(params.local_epochs):
            shuffled = order.permutation(len(own.data))
            mse = mf.epoch(state.model, own.data, shuffled, params.learning_rate, params.reg, λ, params.batch_size)

        # 4. w·ΔV and w in one protected vector, bound to the model received and to the selection of rows.
        V = item_side(state.model)
        vector, saturated = encode(own.w[rows], V[rows] - state.V[rows], _lanes(ctx, params))
        Σ = total(vector, _lanes(ctx, params), t, _bound(own, state.V, rows), "w·ΔV and w")

        # 5. Everyone averages alike.
        state.V[rows], state.W[rows] = decode(Σ, state.V[rows], _lanes(ctx, params))
        state.V[state.W == 0] = 0.0
        ctx.checkpoint.save(t, state.to_arrays())
        _tell(ctx, params, t, {"train_rmse": mse**0.5, "saturated": saturated, "shared_rows": int((state.W > 0).sum())})
    return {"model": _model(state, own, params)}


def encode(w: np.ndarray, change: np.ndarray, lanes: Lanes) -> tuple[np.ndarray, int]:
    """Return [w·ΔV, digits of w] as one vector in units of the lanes, and how many values were clipped."""
    values, saturated = lanes.clip(contribution(w, change), "w·ΔV")
    return np.concatenate([values, np.ldexp(to_digits(w, lanes.limit + 1).astype(float), -lanes.fraction)]), saturated


def decode(total: np.ndarray, V: np.ndarray, lanes: Lanes) -> tuple[np.ndarray, np.ndarray]:
    """Return the averaged rows (rows, k+1) and W (rows,) of a total over the parties."""
    weighted, digits = np.split(total, [V.size])
    W = from_digits(np.rint(np.ldexp(digits, lanes.fraction)).astype(np.int64), lanes.limit + 1)
    return averaged(V, weighted, W), W


def item_side(model: mf.Factors) -> np.ndarray:
    """Return V = [b_i ; q_i], (I, k+1)."""
    return np.column_stack([model.b_item, model.Q])


@dataclass(frozen=True)
class Own:
    """What a party brings."""

    data: mf.Ratings
    users: int
    items: int
    count: np.ndarray  # ratings of each item (I,)
    w: np.ndarray  # (I,)
    mu: float
    catalogue: str  # digest of the sorted item ids
    attributes: np.ndarray  # of the items, standardised (I, d)


@dataclass
class _State:
    """What a round changes."""

    V: np.ndarray  # shared
    W: np.ndarray  # of the last round; 1 for all before the first, when nobody knows
    model: mf.Factors  # the party's working copy

    def to_arrays(self) -> Arrays:
        m = self.model
        return {"V": self.V, "W": self.W, "Q": m.Q, "b_item": m.b_item, "P": m.P, "b_user": m.b_user}


def load(ctx: Context, params: HorizontalMfParams) -> Own:
    """Return what this party brings; `DataError` when its catalogue is not the one of the statistics."""
    tables, statistics = ctx.inputs["ratings"], ctx.inputs["statistics"]
    catalogue = catalogue_digest(tables)
    ctx.require(
        catalogue == statistics["catalogue"], "the catalogue of the split is not the one of the statistics",
        expected=statistics["catalogue"][:16], found=catalogue[:16], remedy="run the steps before training again",
    )  # fmt: skip
    user, item, rating = rating_columns(tables["train"])
    ctx.require(len(rating) > 0, "no training ratings", expected="some", found=0)
    users, items = tables["users"].num_rows, tables["items"].num_rows
    return Own(
        mf.Ratings(user, item, rating.astype(np.float64)), users, items, np.bincount(item, minlength=items),
        row_weights(user, item, items, params.min_raters_per_item), float(statistics["mean"]), catalogue,
        standardised(_attributes(tables["items"])),
    )  # fmt: skip


def _attributes(items: pa.Table) -> np.ndarray:
    """Return the numeric columns of the items (I, d), d may be 0; NaN where a value is missing."""
    columns = [items[name].to_numpy().astype(np.float64) for name in items.column_names if name != "item_id"]
    return np.array(columns).reshape(len(columns), items.num_rows).T


def _start(ctx: Context, params: HorizontalMfParams, own: Own) -> _State:
    kept = ctx.checkpoint.resume()
    if kept is not None:
        a = {name: array.copy() for name, array in kept[1].items()}
        return _State(a["V"], a["W"], mf.Factors(own.mu, a["Q"], a["b_item"], a["P"], a["b_user"]))
    k, σ = params.embedding_size, params.start_deviation
    Q = mf.start_factors(ctx.shared_rng("Q"), own.items, k, σ)
    P = mf.start_factors(ctx.private_rng("P"), own.users, k, σ)
    model = mf.Factors(own.mu, Q, np.zeros(own.items), P, np.zeros(own.users))
    return _State(item_side(model), np.ones(own.items, np.int64), model)


def _lanes(ctx: Context, params: HorizontalMfParams) -> Lanes:
    return Lanes(params.lane, params.fraction, summands=len(ctx.parties("data_holder")))


def _bound(own: Own, V: np.ndarray, rows: np.ndarray) -> bytes:
    """Digest of what a round depends on: catalogue, μ, the model received, the selection of rows."""
    parts = [own.catalogue, own.mu.hex(), digest_bytes(V.tobytes()), digest_bytes(rows.tobytes())]
    return bytes.fromhex(digest(parts))


def _tell(ctx: Context, params: HorizontalMfParams, t: int, numbers: dict[str, float]) -> None:
    for name, value in numbers.items():
        ctx.metric(name, value, t)
    ctx.progress(t + 1, params.rounds, "rounds")


def _model(state: _State, own: Own, params: HorizontalMfParams) -> Arrays:
    """Return the part that is registered; where Σw = 0 the shared side is 0 and the party's own rows stand in."""
    rare = state.W == 0
    V_own = mapped_rows(state.V, state.W, own.attributes, params.attribute_ridge) * rare[:, None]
    d = own.data.take(np.flatnonzero(rare[own.data.item]))
    e = d.rating - mf.predict(replace(state.model, Q=V_own[:, 1:], b_item=V_own[:, 0]), d.user, d.item)
    centre = float(e.mean()) if len(e) else 0.0
    b_own = V_own[:, 0] + mf.shrunken_means(d.item, e, own.items, params.rare_ridge, centre) * rare
    return {
        "mu": np.array(own.mu), "Q": state.V[:, 1:].copy(), "b_item": state.V[:, 0].copy(),
        "Q_own": V_own[:, 1:].copy(), "b_own": b_own, "P": state.model.P, "b_user": state.model.b_user,
        "catalogue": as_array(own.catalogue),
    }  # fmt: skip


COMPONENT = Component(
    name="horizontal_mf",
    roles={"data_holder": data_holder, "aggregator": aggregator},
    params=HorizontalMfParams,
    messages=MESSAGES,
    inputs={"ratings": "split ratings", "statistics": "μ and the catalogue digest of all parties"},
    optional_inputs=("ratings", "statistics"),  # the aggregator has none
    outputs={"model": "mu, Q, b_item: the same at every data_holder; P, b_user, Q_own, b_own: this party's own"},
    min_parties={"data_holder": MIN_PARTIES, "aggregator": 1},
    adversary=ADVERSARY
    + "Not protected: the totals of every round; an item's total may be one party's, of min_raters_per_item people or "
    "more. Not differentially private.",
)
