"""Federated averaging in rounds: what all models have in common that banks with different customers train by SGD.

McMahan et al. (2017, algorithm 1), item row by item row (`round_average`). Round 0 sums the counts: raters of each item
at the banks that have enough of them, training rows, held-out rows. Then in every round each bank

    1. puts the rows that were averaged last into its own model
    2. trains it for E local epochs, or for the part of them that its speed allows (`pace`)
    3. sends ONE protected vector about the rows of this round (`models.coordinates`)
    4. averages as everybody does

so every bank ends with the same V and θ, and the difference of two sums never shows a party.

Adversary: as in `secure_sum`. Not protected: what the totals say, round by round; an item's total may come from one
party alone, with at least `min_raters_per_item` people behind it. Not differentially private.

    V    item side, shared            (I, c)     w_j  raters of each item, 0 where fewer than
    θ    weights of layers, shared    (D,)            `min_raters_per_item` are the bank's own  (I,)
    W    Σ_j w_j                      (I,)       n_j  training rows, N = Σ_j n_j
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Literal, Protocol, Self

import numpy as np
import pyarrow as pa
from annotated_types import Ge, Gt, Le
from pydantic import model_validator

from base.canonical import digest, digest_bytes
from components.adaptation import Adaptation
from components.contract import Arrays, Context, Outputs
from components.first_sum import Beginner, Counts, FirstParams, first_sum
from components.held_out import HeldOut
from components.pace import Pace
from components.resume import first_round, keep_round
from components.round_average import RoundAverage, Shared
from components.secure_sum import ADVERSARY as SUMS
from components.secure_sum import Total, relay, sum_messages
from crypto.packing import Lanes
from models.coordinates import rows_in_turn
from transport.message import Message, Protection, WireSchema

GO_ON = WireSchema("go_on", {"more": pa.bool_()})
MESSAGES = (
    *sum_messages(
        "first: raters of every item at the parties that have enough, training and held-out rows of all, with "
        "warm_start the item side of the earlier model; then per round: Σ w/W·ΔV of item rows, Σ n/N·Δθ of layers; of "
        "an item that only one other party trains, that party's row; with early_stopping the loss on all held-out "
        "rows; with speed how many parties are how fast; with adapt how long exchanges take beside training"
    ),
    Message(
        "go_on", "data_holder", "aggregator", GO_ON, Protection.PUBLIC, "whether another round follows",
        only_if=(("early_stopping", True),),
    ),
)  # fmt: skip
ADVERSARY = (
    SUMS + "Not protected: the totals of every round; an item's total may be one party's, of min_raters_per_item "
    "people or more. Not differentially private."
)


class AveragingParams(FirstParams):
    """How often parties meet, what a party withholds, and what travels."""

    rounds: Annotated[int, Ge(1), Le(1000)] = 15
    local_epochs: Annotated[int, Ge(1), Le(100)] = 8  # E: passes over the party's own ratings in a round
    lane: Literal[8, 10, 16, 24, 32] = 16  # bits of a lane; values of few bits are rounded at random, the mean kept
    row_share: Annotated[float, Gt(0), Le(1)] = 1.0  # of the shared rows in a round, in turn
    patience: Annotated[int, Ge(1)] = 3  # rounds without a better loss before training stops
    adapt: bool = False  # less travels while exchanging takes longer than training: depends on the clock
    speed: bool = False  # slow parties take fewer local steps: the model then depends on the clock

    @model_validator(mode="after")
    def _whole_losses(self) -> Self:
        if self.early_stopping and self.on_dropout == "continue":
            raise ValueError("early_stopping needs the loss of all parties, so on_dropout: stop")
        return self


class Learner(Beginner, Protocol):
    """A party's model, as the rounds see it."""

    def private(self, name: str) -> np.random.Generator:
        """Return the party's own stream, another one when its rows change (`split_tables.private_streams`)."""

    def counted(self, W: np.ndarray) -> None:
        """Learn which rows are shared: those with W > 0."""

    def take(self, shared: Shared, rows: np.ndarray) -> None:
        """Put these rows of V, and θ, into the own model."""

    def learn(self, t: int, epochs: float) -> Mapping[str, float]:
        """Train for `epochs` passes in an order that no peer can predict; return metrics."""

    def now(self) -> Shared:
        """Return the own V and θ as they are."""

    def loss(self) -> float:
        """Return the loss, summed over the held-out rows, of the model as it is."""

    def to_arrays(self) -> Arrays:
        """Return all that changes."""

    def restore(self, arrays: Arrays) -> None:
        """Take back what `to_arrays` gave."""


class Kept(Protocol):
    """What a checkpoint holds beside the model."""

    def to_arrays(self) -> Arrays:
        """Return all that changes."""


def train(
    ctx: Context,
    params: AveragingParams,
    learner: Learner,
    total: Total,
    contributed: Callable[[], bool] = lambda: True,
) -> RoundAverage:
    """Train with `total` as the secure sum; return the shared side. The learner then holds this party's own side.

    `contributed` tells whether the own vector was in time for the last sum (`on_dropout: continue`).
    """
    state, held_out, pace, link = _begin(ctx, params, learner, total)
    order = ctx.shared_rng("order of rows").permutation(np.flatnonzero(state.W > 0))
    while state.t < params.rounds:
        t = state.t + 1
        if not _go_on(ctx, params, held_out.waited < params.patience):
            break
        # 1. The rows that were averaged last, and the own ones of the others; by them the held-out rows are judged.
        learner.take(state.resumed(learner.now()), order)
        loss = held_out.own(learner.loss, lambda: _arrays(state, learner))

        # 2. Local epochs.
        with pace.timed(ctx, t) as epochs, link.training():
            told, weight = learner.learn(t, epochs), pace.weight()

        # 3. One protected vector, bound to the model received and to the selection of rows.
        bound, rounding = _bound(learner, state), learner.private(f"rounding of round {t}")
        share, lane = link.next()
        lanes, rows = _lanes(ctx, lane), rows_in_turn(order, share, t)
        parts = [state.own(learner.now(), rows, weight, lanes.limit, rounding), loss, pace.own(), link.own()]
        with link.exchange(ctx, t):
            Σ = total(np.concatenate(parts), lanes, t, bound, "values of a round")

        # 4. Everyone averages alike; what came too late goes into the next contribution.
        averages, losses, paces, ratios = np.split(Σ, np.cumsum([len(part) for part in parts[:-1]]))
        state.take(averages, t)
        state.settle(contributed())
        judged = held_out.take(losses)
        pace.take(paces)
        link.take(ratios)
        _keep(ctx, state, learner, {"held_out": held_out, "pace": pace, "link": link})
        _tell(ctx, params, t, {**told, **judged, "saturated": state.saturated, "shared_rows": len(order)})
    if held_out.waited:
        _restore(held_out.best, state, learner)
    learner.take(state.shared, order)
    state.schedule = link.schedule()
    return state


def aggregate(ctx: Context, params: AveragingParams) -> Outputs:
    """Add the protected contributions of every round; the aggregator ends with nothing."""
    relay(ctx, params, _rounds(ctx, params), keep_round(ctx))
    return {}


def _rounds(ctx: Context, params: AveragingParams) -> Iterator[int]:
    """Yield the numbers of the sums; with early stopping the first data_holder says before each whether it follows."""
    for t in range(first_round(ctx), params.rounds + 1):
        if params.early_stopping and not ctx.recv("go_on", from_=ctx.parties("data_holder")[0])["more"][0].as_py():
            return
        yield t


def _begin(
    ctx: Context, params: AveragingParams, learner: Learner, total: Total
) -> tuple[RoundAverage, HeldOut, Pace, Adaptation]:
    """Sum the counts, or go on at the round that all parties hold."""
    kept = ctx.checkpoint.resume()
    if kept is None:
        _go_on(ctx, params, True)
        counts = first_sum(ctx, params, learner, total)
    else:
        counts = Counts(kept[1]["counts.own"], kept[1]["counts.every"], learner.start())
    (n, _), (N, held_out) = counts.own[-2:].tolist(), counts.every[-2:].tolist()
    learner.counted(counts.every[:-2])
    # A row that has lost its people since the counts were made is withheld.
    w = np.where(learner.w > 0, counts.own[:-2], 0)
    state = RoundAverage(counts.start, counts.every[:-2], w, n, N, counts=counts.to_arrays())
    judge = HeldOut(params.early_stopping, _lanes(ctx, 8 if params.adapt else params.lane).limit + 1, held_out)
    pace, link = Pace(params.speed, params.local_epochs), Adaptation(params.adapt, (params.row_share, params.lane))
    if kept is None:
        learner.take(state.shared, np.arange(len(w)))
    else:
        _restore(_part(kept[1], "own"), state, learner)
        judge.restore(_part(kept[1], "held_out"))
        pace.restore(_part(kept[1], "pace"))
        link.restore(_part(kept[1], "link"))
    return state, judge, pace, link


def _go_on(ctx: Context, params: AveragingParams, more: bool) -> bool:
    """Tell the aggregator whether another sum follows, if this is the party that does and training may end early."""
    if params.early_stopping and ctx.party == ctx.parties("data_holder")[0]:
        ctx.send("go_on", pa.table({"more": [more]}))
    return more


def _lanes(ctx: Context, lane: int) -> Lanes:
    return Lanes(lane, 0, summands=len(ctx.parties("data_holder")))


def _bound(learner: Learner, state: RoundAverage) -> bytes:
    """Digest of what a round depends on: what all have alike, the model received, how it is scaled."""
    arrays = (state.shared.V, state.shared.θ, state.W, state.largest)
    return bytes.fromhex(digest([learner.about, *(digest_bytes(a.tobytes()) for a in arrays)]))


def _keep(ctx: Context, state: RoundAverage, learner: Learner, others: Mapping[str, Kept]) -> None:
    """Keep the state after a round; the counts too, for they are not summed twice."""
    parts = {"counts": state.counts, "own": _arrays(state, learner)}
    parts |= {name: other.to_arrays() for name, other in others.items()}
    named = [_named(name, arrays) for name, arrays in parts.items()]
    ctx.checkpoint.save(state.t, {key: array for part in named for key, array in part.items()})


def _arrays(state: RoundAverage, learner: Learner) -> Arrays:
    return {**_named("shared", state.to_arrays()), **_named("learner", learner.to_arrays())}


def _restore(arrays: Arrays, state: RoundAverage, learner: Learner) -> None:
    state.restore(_part(arrays, "shared"))
    learner.restore(_part(arrays, "learner"))


def _named(name: str, arrays: Arrays) -> dict[str, np.ndarray]:
    return {f"{name}.{key}": array for key, array in arrays.items()}


def _part(arrays: Arrays, name: str) -> dict[str, np.ndarray]:
    return {key.removeprefix(f"{name}."): a.copy() for key, a in arrays.items() if key.startswith(f"{name}.")}


def _tell(ctx: Context, params: AveragingParams, t: int, numbers: Mapping[str, float]) -> None:
    for name, value in numbers.items():
        ctx.metric(name, value, t)
    ctx.progress(t, params.rounds, "rounds")
