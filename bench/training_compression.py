"""Fewer bytes a round: what short lanes and rows in turn cost in RMSE, beside dense float32 and dense lanes of 16 bits.

Every arm trains the same split from the same start. Settings were chosen on validation ratings; test ratings report.
Dense float32 is counted, not trained: of *all items*, as frameworks send a layer, and of *the same rows*, those that
have enough people behind them to be shared at all. Until an RMSE, it is given the rounds of the dense arm.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

from bench.frame import Case, Figure
from bench.training_open import Curve, Split, split, trained

DENSE, TOP = "dense, 16 bits", "each bank's own largest values (leaks which)"
SHORT = "30% of rows in turn, 10 bits"
MORE = "60% of rows in turn, 10 bits"
ARMS: Mapping[str, dict[str, Any]] = {
    DENSE: {},
    "dense, 10 bits": {"lane": 10},
    MORE: {"row_share": 0.6, "lane": 10},
    SHORT: {"row_share": 0.3, "lane": 10},
    "30% of rows in turn, 8 bits": {"row_share": 0.3, "lane": 8},
    "20% of rows in turn, 10 bits": {"row_share": 0.2, "lane": 10},
    TOP: {"lane": 32},
}
UNTIL = 0.914  # RMSE on test ratings
MB = 1e6


@dataclass(frozen=True)
class Plan:
    """What is trained."""

    data: str
    seeds: tuple[int, ...]
    rounds: int
    arms: tuple[str, ...]
    judged: tuple[str, ...]
    loss: float  # of RMSE that a judged arm may cost
    until: float | None = None


PLANS = (
    Plan("ml-100k", (1, 2, 3), 20, tuple(ARMS), (MORE, SHORT), 0.002, UNTIL),
    Plan("ml-1m", (1,), 10, (DENSE, MORE, SHORT), (SHORT,), 0.005),
)
SPLITS = cache(split)
Key = tuple[str, str, int]  # data, arm, seed


@dataclass
class Curves:
    """The trainings, each made when it is first asked for; `found` may hold those of an earlier run."""

    split: Callable[[str, int], Split] = SPLITS
    found: dict[Key, Curve] = field(default_factory=dict)
    documents: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Tell of those that are there."""
        for key in sorted(self.found):
            self._tell(key)

    def of(self, plan: Plan, arm: str, seed: int) -> Curve:
        """Return one training."""
        key = plan.data, arm, seed
        if key not in self.found:
            params = {"rounds": plan.rounds, **ARMS[arm]}
            self.found[key] = trained(self.split(plan.data, seed), params, seed, own_top=arm == TOP)
            self._tell(key)
        return self.found[key]

    def all(self, plan: Plan, arm: str) -> list[Curve]:
        """Return those of all seeds."""
        return [self.of(plan, arm, seed) for seed in plan.seeds]

    def _tell(self, key: Key) -> None:
        data, arm, seed = key
        told = {"data": data, "arm": arm, "seed": seed, "params": ARMS[arm]}
        self.documents.append({**told, **self.found[key].document()})


def earlier(documents: Iterable[Mapping[str, Any]]) -> dict[Key, Curve]:
    """Return the trainings of a JSON file; those of another setting are not taken."""
    names = Curve.__dataclass_fields__
    return {(d["data"], d["arm"], d["seed"]): Curve(**{name: d[name] for name in names})
            for d in documents if ARMS.get(d["arm"]) == d["params"]}  # fmt: skip


def compression(curves: Curves, plans: Iterable[Plan] = PLANS) -> Iterator[Case]:
    """Yield the cases."""
    for plan in plans:
        for arm in plan.arms:
            yield from _arm(curves, plan, arm)


def rmse(curve: Curve, part: str = "test") -> float:
    """Return the RMSE after the last round."""
    return curve.rmse[part][-1]


def until(curves: Curves, plan: Plan, arm: str, float32: bool) -> float:
    """Return mean MB until the test RMSE is `plan.until`, over the seeds whose dense arm gets there; inf if never."""
    spent = []
    for seed in plan.seeds:
        dense, mine = _round(curves.of(plan, DENSE, seed), plan.until), curves.of(plan, arm, seed)
        if dense is None:
            continue
        reached = dense if float32 else _round(mine, plan.until)
        if reached is None:
            return math.inf
        spent.append((reached + 1) * mine.dense["shared"] if float32 else mine.bytes[reached])
    return statistics.mean(spent) / MB if spent else math.inf


def _arm(curves: Curves, plan: Plan, arm: str) -> Iterator[Case]:
    name, judged = f"{plan.data}, {arm}", arm in plan.judged
    yield _once(f"{name}: test RMSE", "dense, 16 bits", "RMSE", _mean(curves, plan, arm, rmse),
                _mean(curves, plan, DENSE, rmse))  # fmt: skip
    a_round = _mean(curves, plan, arm, lambda curve: curve.a_round / MB)
    for of, rows in (("all", "all items"), ("shared", "the same rows")):
        dense = _mean(curves, plan, arm, partial(_dense, of))
        yield _once(f"{name}: a round", f"float32, {rows}", "MB", a_round, dense, "<= 0.1" if judged else None)
    if arm == DENSE:
        return
    yield _once(f"{name}: RMSE above dense, 16 bits", f"limit of {plan.loss}", "RMSE",
                partial(_above, curves, plan, arm), lambda: plan.loss, "<= 1" if judged else None)  # fmt: skip
    if plan.until is not None and judged:
        yield _once(f"{name}: until RMSE {plan.until}", "float32, the same rows", "MB",
                    partial(until, curves, plan, arm, False), partial(until, curves, plan, arm, True),
                    "<= 0.2")  # fmt: skip
        yield _once(f"{name}: until RMSE {plan.until}", "dense, 16 bits", "MB",
                    partial(until, curves, plan, arm, False), partial(until, curves, plan, DENSE, False))  # fmt: skip


def _once(name: str, peer: str, unit: str, ours: Figure, theirs: Figure, target: str | None = None) -> Case:
    return Case(name, peer, unit, ours, theirs, target, once=True)


def _mean(curves: Curves, plan: Plan, arm: str, of: Callable[[Curve], float]) -> Figure:
    return lambda: statistics.mean(of(curve) for curve in curves.all(plan, arm))


def _above(curves: Curves, plan: Plan, arm: str) -> float:
    pairs = zip(curves.all(plan, arm), curves.all(plan, DENSE), strict=True)
    return statistics.mean(rmse(mine) - rmse(dense) for mine, dense in pairs)


def _dense(of: str, curve: Curve) -> float:
    return curve.dense[of] / MB


def _round(curve: Curve, limit: float | None) -> int | None:
    """Return the first round, from 0, whose test RMSE is within `limit`."""
    return next((t for t, found in enumerate(curve.rmse["test"]) if limit is not None and found <= limit), None)
