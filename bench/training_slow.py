"""What one slow party costs: banks as threads of one process, sums in the open, one of them at a fifth of its speed.

The slow one sleeps four times as long as each of its local steps took, so it is slow in time and not in CPU. Round 1
has no speeds to go by and is left out.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from bench.frame import Case
from bench.sets import BANKS
from bench.training_open import Split, rmse, run
from components.horizontal_mf import Learner

TIMES_SLOWER = 5
SETTINGS: Mapping[str, Any] = {"rounds": 12, "speed": True}
LIMIT = 1.1


class Slow(Learner):
    """A bank at a fifth of its speed."""

    def learn(self, t: int, epochs: float) -> Mapping[str, float]:
        """Train, then wait."""
        start = time.monotonic()
        told = super().learn(t, epochs)
        time.sleep((TIMES_SLOWER - 1) * (time.monotonic() - start))
        return told


@dataclass
class Paces:
    """The trainings, and what was found."""

    split: Split
    params: Mapping[str, Any] = field(default_factory=lambda: SETTINGS)
    documents: list[dict[str, Any]] = field(default_factory=list)

    def round_seconds(self, slow: bool, **others: Any) -> float:
        """Return the median seconds of a round of a training of its own."""
        kind = {BANKS[-1]: Slow if slow else Learner}
        judges, _ = run(self.split, {**self.params, **others}, 1, lambda ctx, p: kind.get(ctx.party, Learner)(ctx, p))
        ends = judges[BANKS[0]].ends
        seconds = statistics.median(b - a for a, b in pairwise(ends))
        found = {"slow": slow, "speed": {**self.params, **others}["speed"], "round": seconds}
        self.documents.append({**found, "test rmse": rmse(judges, "test")[-1]})
        return seconds

    def error(self, slow: bool, speed: bool) -> float:
        """Return the test RMSE of the last such training."""
        found = [d for d in self.documents if d["slow"] == slow and d["speed"] == speed]
        return float(found[-1]["test rmse"])


def paces(found: Paces, data: str) -> Iterator[Case]:
    """Yield the cases."""
    none, one, waiting = (
        lambda: found.round_seconds(False), lambda: found.round_seconds(True),
        lambda: found.round_seconds(True, speed=False),
    )  # fmt: skip
    name = f"{data}: a round with one bank of three at a fifth of the speed"
    yield Case(f"{name}, speed: true", "without a slow bank", "s", one, none, f"<= {LIMIT}")
    yield Case(f"{name}, speed: false", "without a slow bank", "s", waiting, none, once=True)
    yield Case(
        f"{data}: test RMSE with such a bank, speed: true", "without a slow bank", "RMSE",
        lambda: found.error(True, True), lambda: found.error(False, True),
    )  # fmt: skip
