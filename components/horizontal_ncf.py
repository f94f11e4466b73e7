"""Banks with different customers and one catalogue train GMF, MLP or NeuMF together; a person's row never leaves.

Neural collaborative filtering (`models.ncf`) under federated averaging (`averaging`), as Perifanis and Efraimidis
(2022, "Federated Neural Collaborative Filtering", arXiv 2106.04405, section 4.2): item rows are averaged over the banks
that trained them, layers by training rows. Every data_holder ends with the same item rows V and layers θ, with the rows
P of its own people, and with its own rows of the items that nobody shares. The aggregator ends with nothing.

Negatives of a bank's people are drawn from its private stream, of all items that the person did not have in training:
what is held out is among them. Moments of Adam stay at the bank and begin anew in every round.

Adversary: as in `averaging`. Beside it: the layers carry gradients of every training row of a bank, also of rows about
withheld items, and are seen in sums over banks alone; all banks but one together see the last one's. A bank's row of an
item moves by the item's own people and by whoever met it as a negative; with fewer own raters than
`min_raters_per_item` none of that leaves, be the row touched by ever so many negatives.

    V  item rows (I, c)      P_j  rows of people (U_j, c)      w_j  raters of each item, or 0  (I,)
    θ  layers, flat (D,)     V_own  rows of items with Σw = 0  n_j  training rows
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Gt, Le, MinLen

from components.averaging import ADVERSARY, MESSAGES, AveragingParams, aggregate, train
from components.contract import Arrays, Component, Context, Outputs
from components.id_keys import part_keys, require_start, rows_before
from components.round_average import Shared
from components.secure_sum import MIN_PARTIES, open_total
from components.split_tables import as_array, catalogue_digest, histories, private_streams
from features.indexing import rating_columns
from models import ncf, ncf_training, negatives
from models.ncf import Form
from models.row_average import row_weights

Width = Annotated[int, Ge(1), Le(1024)]


class HorizontalNcfParams(AveragingParams):
    """Size of the model and how it learns. The defaults were found on validation items."""

    local_epochs: Annotated[int, Ge(1), Le(100)] = 1  # E: passes over the party's own rows in a round
    kind: Literal["gmf", "mlp", "neumf"] = "neumf"  # which parts of the model there are
    factors: Annotated[int, Ge(1), Le(256)] = 16  # columns of GMF
    embedding_size: Annotated[int, Ge(1), Le(256)] = 32  # columns of MLP, of a person and of an item
    layers: Annotated[tuple[Width, ...], MinLen(1)] = (32, 16, 8)  # widths of MLP above the two rows side by side
    loss: Literal["bce", "bpr"] = "bce"  # each pair by itself, or a positive before each of its negatives
    negatives: Annotated[int, Ge(1), Le(100)] = 4  # drawn for each positive in each epoch
    learning_rate: Annotated[float, Gt(0)] = 0.005  # of Adam
    batch_size: Annotated[int, Ge(1)] = 256  # positives, each with its negatives
    start_deviation: Annotated[float, Gt(0)] = 0.05  # of V and P before the first round

    @property
    def form(self) -> Form:
        """Return the sizes of the model."""
        gmf, mlp = self.kind != "mlp", self.kind != "gmf"
        return Form(self.factors * gmf, self.embedding_size * mlp, self.layers if mlp else ())


def data_holder(ctx: Context, params: HorizontalNcfParams) -> Outputs:
    """Return this party's part of the model, and the control: the part of the own people alone."""
    # Own rows and the weights of their items are checked before anything is sent.
    learner, alone = Learner(ctx, params), Learner(ctx, params.model_copy(update={"warm_start": False}))
    total = open_total(ctx, params)
    state = train(ctx, params, learner, total, lambda: total.contributed)
    for t in range(state.t):
        alone.learn(t + 1, params.local_epochs)
    return {"model": {**learner.part(), **state.schedule}, "alone": alone.part()}


def aggregator(ctx: Context, params: HorizontalNcfParams) -> Outputs:
    """Add the protected contributions of every round."""
    return aggregate(ctx, params)


class Learner:
    """One bank's model (`averaging.Learner`)."""

    kind = "ncf"

    def __init__(self, ctx: Context, params: HorizontalNcfParams) -> None:
        """Take the split."""
        tables = ctx.inputs["ratings"]
        self._ctx, self._params = ctx, params
        self.catalogue = self.about = catalogue_digest(tables)
        self.data, self._validation = histories(tables), tables["validation"]
        ctx.require(len(self.data) > 0, "no training rows", expected="some", found=0)
        self.n, self.held_out = len(self.data), self._validation.num_rows
        users, items, σ = self.data.users, self.data.items, params.start_deviation
        self.w = row_weights(self.data.user, self.data.item, items, params.min_raters_per_item)
        self.W = np.zeros(items, np.int64)  # of who shares with nobody
        self.private = private_streams(ctx.private_rng, tables)
        θ = ncf.start_layers(ctx.shared_rng("layers"), params.form)
        V = ncf.start_rows(ctx.shared_rng("V"), items, params.form, σ)
        self.model = ncf.Model(params.form, θ, V, ncf.start_rows(self.private("P"), users, params.form, σ))
        self._keys = part_keys(ctx, tables)
        self.warm = params.warm_start and "start" in ctx.inputs
        if self.warm:
            self._go_on_from(ctx.inputs["start"])

    def _go_on_from(self, start: Arrays) -> None:
        """Take what an earlier model says of the people and items that are still here; the new ones start anew."""
        require_start(self._ctx, start, "horizontal_ncf", "form", self.model.form, lambda: Form.of(start["form"]))
        trained = np.flatnonzero(start["V"].any(axis=1))
        items, old = rows_before(self._keys["item_keys"], start["item_keys"][trained])
        self.model.V[items], self.model.θ[:] = start["V"][trained[old]], start["layers"]
        users, old = rows_before(self._keys["user_keys"], start["user_keys"])
        self.model.P[users] = start["P"][old]

    def start(self) -> Shared:
        """Return the start, which all have alike."""
        return self.now()

    def counted(self, W: np.ndarray) -> None:
        """Learn which rows are shared."""
        self.W = W

    def take(self, shared: Shared, rows: np.ndarray) -> None:
        """Put these rows, and the layers, into the own model."""
        self.model.V[rows], self.model.θ[:] = shared.V[rows], shared.θ

    def learn(self, t: int, epochs: float) -> Mapping[str, float]:
        """Train on the own rows; an epoch that is not whole takes part of them."""
        p, n, m = self._params, self.n, self.model
        order, against = (self.private(f"{name} of round {t}") for name in ("order", "negatives"))
        adam, loss = ncf_training.Adam((m.θ, m.V, m.P), p.learning_rate), 0.0
        for e in range(int(np.ceil(epochs))):
            some = order.permutation(n)[: max(1, round(min(1.0, epochs - e) * n))]
            drawn = negatives.draw(against, self.data, self.data.user[some], p.negatives)
            loss = ncf_training.epoch(m, self.data, some, drawn, adam, p.loss, p.batch_size)
        return {"train_loss": loss}

    def now(self) -> Shared:
        """Return item rows and layers."""
        return Shared(self.model.V.copy(), self.model.θ.copy())

    def loss(self) -> float:
        """Return the loss, summed over the held-out items, each against the same negatives in every round."""
        user, item, _ = rating_columns(self._validation)
        drawn = negatives.draw(self.private("held-out negatives"), self.data, user, self._params.negatives)
        return ncf_training.mean_loss(self.model, user, np.column_stack([item, drawn]), self._params.loss) * len(user)

    def to_arrays(self) -> Arrays:
        """Return the own copy of the model."""
        return {"V": self.model.V, "layers": self.model.θ, "P": self.model.P}

    def restore(self, arrays: Arrays) -> None:
        """Take it back."""
        self.model = ncf.Model(self.model.form, arrays["layers"], arrays["V"], arrays["P"])

    def part(self) -> Arrays:
        """Return the part that is registered; where W = 0 the shared side is 0 and the party's own rows stand in."""
        m, shared = self.model, (self.W > 0)[:, None]
        return {
            "V": np.where(shared, m.V, 0.0), "layers": m.θ, "V_own": m.V * ~shared, "P": m.P, "form": m.form.to_array(),
            "catalogue": as_array(self.catalogue), **self._keys,
        }  # fmt: skip


COMPONENT = Component(
    name="horizontal_ncf",
    roles={"data_holder": data_holder, "aggregator": aggregator},
    params=HorizontalNcfParams,
    messages=MESSAGES,
    inputs={
        "ratings": "ratings split by split_leave_one_out",
        "start": "the part of an earlier model to go on from",
    },
    optional_inputs=("ratings", "start"),  # the aggregator has none
    outputs={
        "model": "V, layers, form: the same at every data_holder; P, V_own: this party's own",
        "alone": "the same of the own people alone, nothing exchanged",
    },
    min_parties={"data_holder": MIN_PARTIES, "aggregator": 1},
    adversary=ADVERSARY + "\nLayers carry the gradients of all rows of a bank, withheld items' too, and are seen in "
    "sums over banks alone.",
)
