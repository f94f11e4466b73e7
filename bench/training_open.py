"""Training as the component does it, with sums that are added in the open: how a sum is protected changes no bit.

Bytes follow from the sizes of the vectors and their lanes; `bench.training_run` counts those that really travel.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

import numpy as np
import pyarrow as pa

from base.canonical import digest
from bench.parties import run_step
from bench.sets import BANKS, banks
from components import horizontal_mf, split_ratings
from components.averaging import train
from components.contract import Arrays, Context, Outputs
from components.horizontal_mf import HorizontalMfParams, Learner
from components.round_average import Shared
from crypto.packing import Lanes
from features.indexing import rating_columns
from models import mf
from models.metrics import root_mean, squared_error
from models.scoring import whole

ROLES = {"data_holder": BANKS, "aggregator": ("bureau",)}
PARTS = ("validation", "test")
WAIT = 600  # seconds that a bank waits for the slowest
FLOAT32 = 4  # bytes
TOP = 0.025  # of the values, that a bank sends with their indices


@dataclass(frozen=True)
class Split:
    """Split ratings of the banks (the form of `split_ratings`) and the statistics that training starts from."""

    tables: Mapping[str, Mapping[str, pa.Table]]
    statistics: Mapping[str, Any]


@dataclass(frozen=True)
class Curve:
    """RMSE after rounds 1, 2, ..., by part, and bytes up to there of all banks, both ways."""

    rmse: Mapping[str, list[float]]
    bytes: list[int]
    a_round: int  # bytes of a round, without the first sum of counts
    values: int  # of item rows that are shared
    shared: int  # items
    items: int
    at_limit: int  # values at the largest that their lanes hold, in all rounds, of all banks

    @property
    def dense(self) -> dict[str, int]:
        """Bytes of a round of float32: of all items, and of the shared ones alone."""
        one = 2 * len(BANKS) * FLOAT32
        return {"all": one * self.values // self.shared * self.items, "shared": one * self.values}

    def document(self) -> dict[str, Any]:
        """Return what the JSON file holds of it."""
        return asdict(self)


class TopK(Learner):
    """A bank that sends its own largest changes, and the rest when it has grown (Lin et al. 2018).

    For comparison alone: the indices tell which items moved at which bank.
    """

    def __init__(self, ctx: Context, params: HorizontalMfParams) -> None:
        """Start with nothing left over."""
        super().__init__(ctx, params)
        self._left = self._base = np.zeros_like(self.now().V)

    def take(self, shared: Shared, rows: np.ndarray) -> None:
        """Take the rows, and keep what changes are counted from."""
        super().take(shared, rows)
        self._base = self.now().V

    def learn(self, t: int, epochs: float) -> Mapping[str, float]:
        """Train, then show only the largest changes of shared rows."""
        told, rows = super().learn(t, epochs), np.flatnonzero(self.W > 0)
        change = self.now().V + self._left - self._base
        size = np.abs(change[rows])
        sent = np.where(size >= np.partition(size.ravel(), -top(size.size))[-top(size.size)], change[rows], 0.0)
        self._left[rows] = change[rows] - sent
        self.model.b_item[rows], self.model.Q[rows] = (self._base[rows] + sent)[:, 0], (self._base[rows] + sent)[:, 1:]
        return told


def top(values: int) -> int:
    """Return how many of the values a bank sends."""
    return max(1, round(TOP * values))


def split(data: str, seed: int) -> Split:
    """Return the random split of a data set below ACCORD_DATA that `horizontal_mf` is judged on."""
    given = {bank: {"tables": found} for bank, found in banks(data, seed).items()}
    done = run_step(split_ratings.COMPONENT, {"data_holder": BANKS}, given, {}, seed=seed).outputs
    tables: dict[str, Any] = {bank: done[bank]["ratings"] for bank in BANKS}
    rating = np.concatenate([tables[bank]["train"]["rating"].to_numpy() for bank in BANKS])
    items = tables[BANKS[0]]["items"]["item_id"].to_pylist()
    return Split(tables, {"mean": float(rating.astype(np.float64).mean()), "catalogue": digest(items)})


def trained(found: Split, params: Mapping[str, Any], seed: int, own_top: bool = False) -> Curve:
    """Train once; with `own_top` each bank sends its own largest changes as float32 with an index of 32 bits."""
    kind = TopK if own_top else Learner
    judges, add = run(found, params, seed, kind)
    learner = judges[BANKS[0]].learner
    values = int((learner.W > 0).sum()) * learner.now().V.shape[1]
    first, each = add.sizes[0], add.sizes[1]
    if own_top:  # up each bank's own, down those of all
        each = top(values) * (FLOAT32 + 4) * (1 + len(BANKS)) // 2
    both = 2 * len(BANKS)
    rounds = len(judges[BANKS[0]].errors)
    return Curve(
        {part: rmse(judges, part) for part in PARTS},
        [both * (first + t * each) for t in range(1, rounds + 1)], both * each, values,
        int((learner.W > 0).sum()), len(learner.W), add.at_limit,
    )  # fmt: skip


def run(
    found: Split, params: Mapping[str, Any], seed: int, learner_of: Callable[[Context, HorizontalMfParams], Learner]
) -> tuple[dict[str, Judge], Sums]:
    """Train once; return what was judged at each bank, and the sums."""
    add, judges = Sums(), dict[str, Judge]()

    def bank(ctx: Context, p: HorizontalMfParams) -> Outputs:
        learner = learner_of(ctx, p)
        judge = judges[ctx.party] = Judge(learner, ctx.inputs["ratings"])

        def total(
            values: np.ndarray, lanes: Lanes, round_number: int, bound: bytes, name: str = "vector"
        ) -> np.ndarray:
            return add.total(ctx.party, values, lanes, round_number)

        train(replace(cast(Any, ctx), checkpoint=judge), p, learner, total)
        return {"model": learner.part()}

    inputs = {bank: {"ratings": found.tables[bank], "statistics": found.statistics} for bank in BANKS}
    functions: dict[str, Any] = {"data_holder": bank, "aggregator": lambda ctx, p: {}}
    run_step(horizontal_mf.COMPONENT, ROLES, inputs, params, functions, seed=seed)
    return judges, add


class Judge:
    """Stands where checkpoints are kept: judges the model that a bank would register after the round."""

    def __init__(self, learner: Learner, tables: Mapping[str, pa.Table]) -> None:
        """Take the held-out ratings of `tables`."""
        self.learner, self.errors, self.ends = learner, list[dict[str, float]](), list[float]()
        self.parts = {part: _ratings(tables[part]) for part in PARTS}

    def resume(self) -> None:
        """Start at the first round."""

    def save(self, round_number: int, state: Arrays) -> None:
        """Judge the model after the round, and note the time."""
        self.ends.append(time.monotonic())
        learner, own = self.learner, self.learner.model
        learner.model = own.copy()
        Learner.take(learner, Shared(state["own.shared.V"], np.empty(0)), np.flatnonzero(learner.W > 0))
        model, (lowest, highest) = whole(learner.part()), (learner.data.rating.min(), learner.data.rating.max())
        learner.model = own
        self.errors.append({
            part: squared_error(d.rating, np.clip(mf.predict(model, d.user, d.item), lowest, highest))
            for part, d in self.parts.items()
        })  # fmt: skip


class Sums:
    """The sums of one run."""

    def __init__(self) -> None:
        """Start with nothing sent."""
        self._seen, self._barrier = dict[tuple[int, str], np.ndarray](), threading.Barrier(len(BANKS))
        self.sizes, self.at_limit = dict[int, int](), 0  # bytes of one vector by round

    def total(self, party: str, values: np.ndarray, lanes: Lanes, t: int) -> np.ndarray:
        """Return Σ over the banks."""
        self._seen[t, party] = lanes.quantise(values)
        self._barrier.wait(WAIT)
        parts = [self._seen[t, bank] for bank in BANKS]
        if party == BANKS[0]:
            self.sizes[t] = -(-values.size * lanes.lane // 8)
            self.at_limit += sum(int(np.count_nonzero(np.abs(q) == lanes.limit)) for q in parts)
        return np.asarray(np.sum(parts, axis=0))


def rmse(judges: Mapping[str, Judge], part: str) -> list[float]:
    """Return the RMSE of a part after each round, over all banks."""
    every = judges.values()
    n = sum(len(judge.parts[part]) for judge in every)
    return [root_mean(sum(e[part] for e in each), n) for each in zip(*(j.errors for j in every), strict=True)]


def _ratings(table: pa.Table) -> mf.Ratings:
    user, item, rating = rating_columns(table)
    return mf.Ratings(user, item, rating.astype(np.float64))
