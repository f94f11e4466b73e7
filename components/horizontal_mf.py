"""Banks with different customers and one catalogue train item factors together; a customer's parameters never leave.

Biased matrix factorisation (`models.mf`) under federated averaging (`averaging`). Every data_holder ends with the same
item side V = [b_i ; q_i], its own user side, and its own rows of the items that nobody shares: what the catalogue says
of them, mapped to a row (`models.attribute_map`), and its own people's bias. The aggregator ends with nothing.

Chai et al. (2021, arXiv 1906.05108) encrypt each user's gradient; here a party holds many users and sends one vector.

Adversary and what is not protected: as in `averaging`, or with `dp` as in `private_rounds`.

    μ        mean rating                     ()         V    item side, shared          (I, k+1)
    P, b_u   user side, local                (U_j, k)   w_j  raters of each item, or 0  (I,)
    Q_own, b_own  rows of items with Σw = 0, local      W    Σ_j w_j                    (I,)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Annotated

import numpy as np
import pyarrow as pa
from annotated_types import Ge, Gt, Le

from base.canonical import digest
from components import private_rounds
from components.averaging import ADVERSARY, MESSAGES, AveragingParams, aggregate, train
from components.contract import Arrays, Component, Context, Outputs
from components.id_keys import part_keys, require_start, rows_before
from components.private_rounds import RoundsDp
from components.round_average import Shared
from components.secure_sum import MIN_PARTIES, open_total
from components.split_tables import as_array, catalogue_digest, private_streams
from features.indexing import rating_columns
from models import mf
from models.attribute_map import mapped_rows, standardised
from models.metrics import squared_error
from models.row_average import row_weights
from models.user_updates import user_changes


class HorizontalMfParams(AveragingParams):
    """Size of the model and how it learns. The defaults were found on validation ratings."""

    dp: RoundsDp = None  # noise for whole people in every round (`private_rounds`), paid by a budget
    embedding_size: Annotated[int, Ge(1), Le(256)] = 16  # k
    learning_rate: Annotated[float, Gt(0)] = 0.01  # for one rating, whatever the batch size
    reg: Annotated[float, Ge(0)] = 0.12  # λ, for each rating
    batch_size: Annotated[int, Ge(1)] = 1000  # ratings
    start_deviation: Annotated[float, Gt(0)] = 0.03  # of Q and P before the first round
    rare_prior: Annotated[float, Ge(0)] = 20.0  # ratings' worth of further λ on rows that nobody shares
    rare_ridge: Annotated[float, Gt(0)] = 5.0  # ratings' worth of pull of b_own to the mean of such items
    attribute_ridge: Annotated[float, Gt(0)] = 50.0  # λ of the map from an item's attributes to its row, in raters


def data_holder(ctx: Context, params: HorizontalMfParams) -> Outputs:
    """Return this party's part of the model."""
    # Own ratings and the weights of their items are checked before anything is sent.
    learner = Learner(ctx, params)
    if params.dp is not None:
        private_rounds.train(ctx, params, params.dp, learner, open_total(ctx, params, paid=True))
        return {"model": learner.part()}
    total = open_total(ctx, params)
    state = train(ctx, params, learner, total, lambda: total.contributed)
    return {"model": {**learner.part(), **state.schedule}}


def aggregator(ctx: Context, params: HorizontalMfParams) -> Outputs:
    """Add the protected contributions of every round."""
    return aggregate(ctx, params)


class Learner:
    """One bank's model (`averaging.Learner`)."""

    kind = "mf"

    def __init__(self, ctx: Context, params: HorizontalMfParams) -> None:
        """Take the split; `DataError` when its catalogue is not the one of the statistics."""
        tables, statistics = ctx.inputs["ratings"], ctx.inputs["statistics"]
        self._ctx, self._params = ctx, params
        self.catalogue = _one_catalogue(ctx, catalogue_digest(tables), statistics["catalogue"])
        self.data, self._validation = _ratings(tables["train"]), _ratings(tables["validation"])
        ctx.require(len(self.data) > 0, "no training ratings", expected="some", found=0)
        self.n, self.held_out = len(self.data), len(self._validation)
        users, items, k = tables["users"].num_rows, tables["items"].num_rows, params.embedding_size
        self._count = np.bincount(self.data.item, minlength=items)
        self.w = row_weights(self.data.user, self.data.item, items, params.min_raters_per_item)
        self.W, self._attributes = self.w, standardised(_attributes(tables["items"]))
        mu = float(statistics["mean"])
        self.about = digest([self.catalogue, mu.hex()])
        Q = mf.start_factors(ctx.shared_rng("Q"), items, k, params.start_deviation)
        self.private = private_streams(ctx.private_rng, tables)
        P = mf.start_factors(self.private("P"), users, k, params.start_deviation)
        self.model = mf.Factors(mu, Q, np.zeros(items), P, np.zeros(users))
        self._keys = part_keys(ctx, tables)
        self.warm = params.warm_start and "start" in ctx.inputs
        if self.warm:
            self._go_on_from(ctx.inputs["start"])

    def _go_on_from(self, start: Arrays) -> None:
        """Take what an earlier model says of the people and items that are still here; the new ones start anew."""
        k = self._params.embedding_size
        require_start(self._ctx, start, "horizontal_mf", "b_item", k, lambda: start["Q"].shape[1])
        trained = np.flatnonzero(start["b_item"] != 0)
        items, old = rows_before(self._keys["item_keys"], start["item_keys"][trained])
        self.model.Q[items], self.model.b_item[items] = start["Q"][trained[old]], start["b_item"][trained[old]]
        users, old = rows_before(self._keys["user_keys"], start["user_keys"])
        self.model.P[users], self.model.b_user[users] = start["P"][old], start["b_user"][old]

    def start(self) -> Shared:
        """Return the start, which all have alike."""
        return self.now()

    def counted(self, W: np.ndarray) -> None:
        """Learn which rows are shared."""
        self.W = W

    def take(self, shared: Shared, rows: np.ndarray) -> None:
        """Put these rows into the own model."""
        self.model.Q[rows], self.model.b_item[rows] = shared.V[rows, 1:], shared.V[rows, 0]

    def learn(self, t: int, epochs: float) -> Mapping[str, float]:
        """Train on the own ratings; an epoch that is not whole takes part of them."""
        p, n = self._params, len(self.data)
        order = self.private(f"order of round {t}")
        λ = np.where(self.W > 0, p.reg, mf.with_prior(p.reg, self._count, p.rare_prior))
        mse = 0.0
        for e in range(int(np.ceil(epochs))):
            some = order.permutation(n)[: max(1, round(min(1.0, epochs - e) * n))]
            mse = mf.epoch(self.model, self.data, some, p.learning_rate, p.reg, λ, p.batch_size)
        return {"train_rmse": mse**0.5}

    def now(self) -> Shared:
        """Return V = [b_i ; q_i]; there are no layers."""
        return Shared(np.column_stack([self.model.b_item, self.model.Q]), np.empty(0))

    def changes(self) -> np.ndarray:
        """Let each person train alone from the V received (`private_rounds`): ΔV of each rating, by person."""
        p = self._params
        found, mse = user_changes(self.model, self._by_person, p.local_epochs, p.learning_rate, p.reg)
        self._ctx.metric("train_rmse", mse**0.5)
        return found

    @property
    def people(self) -> np.ndarray:
        """Return the person of each rating, ascending."""
        return self._by_person.user

    @property
    def rated(self) -> np.ndarray:
        """Return the item of each rating, in that order."""
        return self._by_person.item.astype(np.int64)

    @cached_property
    def _by_person(self) -> mf.Ratings:
        return self.data.take(np.argsort(self.data.user, kind="stable"))

    def loss(self) -> float:
        """Return Σe² on the validation ratings."""
        v = self._validation
        return squared_error(v.rating, mf.predict(self.model, v.user, v.item))

    def to_arrays(self) -> Arrays:
        """Return the own copy of the model."""
        m = self.model
        return {"Q": m.Q, "b_item": m.b_item, "P": m.P, "b_user": m.b_user}

    def restore(self, arrays: Arrays) -> None:
        """Take it back."""
        self.model = mf.Factors(self.model.mu, *(arrays[name] for name in ("Q", "b_item", "P", "b_user")))

    def part(self) -> Arrays:
        """Return the part that is registered; where W = 0 the shared side is 0 and the party's own rows stand in."""
        m, rare = self.model, self.W == 0
        V = np.where(rare[:, None], 0.0, self.now().V)  # not a product: −0.0 would be another model
        V_own = mapped_rows(V, self.W, self._attributes, self._params.attribute_ridge) * rare[:, None]
        d = self.data.take(np.flatnonzero(rare[self.data.item]))
        e = d.rating - mf.predict(replace(m, Q=V_own[:, 1:], b_item=V_own[:, 0]), d.user, d.item)
        centre = float(e.mean()) if len(e) else 0.0
        b_own = V_own[:, 0] + mf.shrunken_means(d.item, e, len(rare), self._params.rare_ridge, centre) * rare
        return {
            "mu": np.array(m.mu), "Q": V[:, 1:].copy(), "b_item": V[:, 0].copy(), "Q_own": V_own[:, 1:].copy(),
            "b_own": b_own, "P": m.P, "b_user": m.b_user, "catalogue": as_array(self.catalogue),
            **self._keys,
        }  # fmt: skip


def _one_catalogue(ctx: Context, own: str, agreed: str) -> str:
    ctx.require(
        own == agreed, "the catalogue of the split is not the one of the statistics",
        expected=agreed[:16], found=own[:16], remedy="run the steps before training again",
    )  # fmt: skip
    return own


def _ratings(table: pa.Table) -> mf.Ratings:
    user, item, rating = rating_columns(table)
    return mf.Ratings(user, item, rating.astype(np.float64))


def _attributes(items: pa.Table) -> np.ndarray:
    """Return the numeric columns of the items (I, d), d may be 0; NaN where a value is missing."""
    columns = [items[name].to_numpy().astype(np.float64) for name in items.column_names if name != "item_id"]
    return np.array(columns).reshape(len(columns), items.num_rows).T


COMPONENT = Component(
    name="horizontal_mf",
    roles={"data_holder": data_holder, "aggregator": aggregator},
    params=HorizontalMfParams,
    messages=MESSAGES,
    inputs={
        "ratings": "split ratings",
        "statistics": "μ and the catalogue digest of all parties",
        "start": "the part of an earlier model to go on from",
    },
    optional_inputs=("ratings", "statistics", "start"),  # the aggregator has none
    outputs={"model": "mu, Q, b_item: the same at every data_holder; P, b_user, Q_own, b_own: this party's own"},
    min_parties={"data_holder": MIN_PARTIES, "aggregator": 1},
    adversary=ADVERSARY
    + " With dp: noise for one person at one party in counts and in every round, as the budget allows.",
)
