"""The sum before the first round: how many people stand behind each item's row, and where the training starts.

    w, W    raters of each item, own and of all parties (I,)        n, N    training rows

With `warm_start`, banks that hold a part of an earlier model add its item side to the vector, so that a bank that joins
gets it: all start from the mean over those that hold it. Each of these compares the mean with what it holds, and banks
that hold different models stop.

So a roster changes between trainings, each of which may be one round long: who leaves is not in the next one, who joins
starts from the model that the others share. Joining shows the earlier item side to the bank that joins, and how many
banks hold it to all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Protocol

import numpy as np
from annotated_types import Ge

from base.errors import SpecMismatch
from components.contract import Arrays, Context
from components.declared import Label
from components.epoch_counts import counts_of_epoch
from components.round_average import Shared
from components.secure_sum import SumParams, Total
from crypto.packing import Lanes

LANE = 32  # bits: wide enough for the rows of any party
UNIT = 2.0**16  # of the item side on its way


class FirstParams(SumParams):
    """What the first sum is about."""

    min_raters_per_item: Annotated[int, Ge(2)] = 10  # own people behind a row; a row with fewer is withheld
    min_count: Annotated[int, Ge(2)] = 20  # own held-out rows behind a loss
    epoch: Label = ""  # the accord's: counts of raters are those of its first training
    early_stopping: bool = False  # on the loss over all parties' held-out rows
    warm_start: bool = False  # go on from the model of input `start` at the parties that have one


class Beginner(Protocol):
    """The learner, as far as the first sum needs it."""

    w: np.ndarray  # own raters of each item (I,), 0 where withheld
    n: int  # training rows
    held_out: int  # validation rows
    warm: bool  # it holds a part of an earlier model
    kind: str  # of model: each has counts of its own, over its own split
    catalogue: str  # digest of the sorted item ids
    about: str  # digest of what must be alike at all parties: the catalogue, μ

    def start(self) -> Shared:
        """Return the start: the earlier model's, or what all draw alike."""


@dataclass(frozen=True)
class Counts:
    """Counts of this epoch, and the start."""

    own: np.ndarray  # w, n, held-out rows (I + 2,)
    every: np.ndarray  # of all parties
    start: Shared

    def to_arrays(self) -> Arrays:
        """Return what a checkpoint holds; the start is in the state of the round."""
        return {"own": self.own, "every": self.every}


def first_sum(ctx: Context, params: FirstParams, learner: Beginner, total: Total) -> Counts:
    """Return the counts and the start of all; `SpecMismatch` when banks hold different models to go on from."""
    ctx.require(
        params.warm_start or "start" not in ctx.inputs, "a model to go on from is given and not asked for",
        expected="warm_start: true", found="false", remedy="warm_start: true, or no input `start`",
    )  # fmt: skip
    own, start = own_counts(ctx, params, learner), learner.start()
    side = np.rint(UNIT * np.concatenate([start.V.ravel(), start.θ])).astype(np.int64)
    more = np.append(side, 1) * learner.warm if params.warm_start else np.empty(0, np.int64)
    lanes = Lanes(LANE, 0, summands=len(ctx.parties("data_holder")))
    Σ = total(np.concatenate([own, more]), lanes, 0, bytes.fromhex(learner.about), "counts")
    every, sides = np.split(Σ, [len(own)])
    return Counts(own, every, _mean(ctx, learner, start, side, sides))


def own_counts(ctx: Context, params: FirstParams, learner: Beginner) -> np.ndarray:
    """Return [w, n, held-out rows] of this party in this epoch, (I + 2,)."""
    ctx.require(
        not params.early_stopping or learner.held_out >= params.min_count, "too few held-out rows behind a loss",
        expected=f"at least {params.min_count}", found="fewer", remedy="a larger `validation` in the split",
    )  # fmt: skip
    counts = np.append(learner.w, [learner.n, learner.held_out]).astype(np.int64)
    return counts_of_epoch(ctx, params.epoch, f"{learner.kind}.{learner.catalogue}", params.min_raters_per_item, counts)


def _mean(ctx: Context, learner: Beginner, start: Shared, side: np.ndarray, total: np.ndarray) -> Shared:
    """Return the start of all from the sum over those that hold one; the common draw when nobody does."""
    if not total.size or not total[-1]:
        return start
    if learner.warm and not np.array_equal(total[:-1], side * total[-1]):
        raise SpecMismatch(
            "the parties go on from different models", expected="one manifest", found="others at some party",
            where=f"{ctx.party}, step {ctx.step}", remedy="name the manifest in load_model instead of `latest`",
        )  # fmt: skip
    V, θ = np.split(total[:-1] / total[-1] / UNIT, [start.V.size])
    return Shared(V.reshape(start.V.shape), θ)
