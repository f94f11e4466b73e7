"""How much travels in a round, adapted to the link: fewer rows and bits while exchanging takes longer than training.

Each party tells how long its last exchange took beside its training, as one mark in a histogram of ratios that travels
in the vector of the round. Who comes last hardly waits for others, so the least ratio is that of the link. Above 1 the
next round is a level shorter, below a quarter a level longer. Everybody learns the ratios, and not whose they are.

The model then depends on the clock; the levels of all rounds that were run are in the model as `schedule`, which a
manifest can name.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from components.contract import Arrays, Context
from components.resume import first_measured

MARKS, PER_OCTAVE, EVEN = 65, 4, 32  # marks of the histogram; the one of a ratio of 1
Lane = Literal[8, 10, 16, 24, 32]
SHORTER: tuple[tuple[float, Lane], ...] = ((1.0, 10), (0.3, 10), (0.3, 8))  # (row_share, lane) below what was asked for


@dataclass
class Adaptation:
    """The level of the next round; `on` is the step's `adapt`."""

    on: bool
    asked: tuple[float, Lane]  # row_share and lane of level 0
    level: int = 0
    own_mark: int = EVEN
    levels: list[int] = field(default_factory=list)  # of all rounds so far
    _training: float = 0.0

    def next(self) -> tuple[float, Lane]:
        """Return row_share and lane of the next round."""
        share, lane = ((1.0, 32), *SHORTER)[self.level]
        return min(share, self.asked[0]), min(lane, self.asked[1])

    @contextmanager
    def training(self) -> Iterator[None]:
        """Measure local training."""
        started = time.monotonic()
        yield
        self._training = time.monotonic() - started

    @contextmanager
    def exchange(self, ctx: Context, t: int) -> Iterator[None]:
        """Measure an exchange; what is measured is kept, for a later attempt may repeat a round only as it was."""
        started = time.monotonic()
        yield
        if self.on:
            ratio = np.log2((time.monotonic() - started) / max(self._training, 1e-6))
            mark = int(np.clip(EVEN + round(PER_OCTAVE * ratio), 0, MARKS - 1))
            self.own_mark = first_measured(ctx, f"link.{t}", bytes([mark]))[0]

    def own(self) -> np.ndarray:
        """Return the own mark in an empty histogram; of the first round, one of equal times."""
        return (np.arange(MARKS) == self.own_mark).astype(np.int64) if self.on else np.empty(0, np.int64)

    def take(self, total: np.ndarray) -> None:
        """Take in everybody's marks of the round before."""
        if not self.on:
            return
        self.levels.append(self.level)
        least = (int(np.flatnonzero(total)[0]) - EVEN) / PER_OCTAVE
        if self.levels[1:]:  # the first round has nothing to judge by
            self.level = int(np.clip(self.level + (least > 0) - (least < -2), 0, len(SHORTER)))

    def to_arrays(self) -> Arrays:
        """Return what a checkpoint holds."""
        return {"level": np.array(self.level), "own_mark": np.array(self.own_mark), **self.schedule()}

    def restore(self, arrays: Arrays) -> None:
        """Take back what `to_arrays` gave."""
        self.level, self.own_mark = int(arrays["level"]), int(arrays["own_mark"])
        self.levels = arrays["schedule"].tolist() if "schedule" in arrays else []

    def schedule(self) -> Arrays:
        """Return the level of every round, for the model; nothing where it did not change with the clock."""
        return {"schedule": np.array(self.levels, np.int64)} if self.on else {}
