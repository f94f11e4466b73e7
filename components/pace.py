"""How many local steps a party takes: a slow one takes fewer, so that a round lasts as long as at the middle party.

Speed is measured by the party and told as one mark in a histogram of seconds an epoch, which travels in the vector of
the round: everybody learns how many parties are how fast, and not which. So all know every s_j, the part of the local
steps that a party takes, and their mean, by which weights of rows times steps are divided (`round_average`).

The model then depends on the clock. What a party measured in a round is kept, for a later attempt may repeat a round
only with the values that it had before.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from components.contract import Arrays, Context
from components.resume import first_measured

MARKS, PER_OCTAVE, FASTEST = 192, 8, 2.0**-12  # marks of the histogram, and seconds of its first
LEAST = 1 / 16  # epochs


@dataclass
class Pace:
    """The own speed and everybody's; `on` is the step's `speed`."""

    on: bool
    most: int  # epochs of a party that is not slow
    marks: np.ndarray = field(default_factory=lambda: np.zeros(MARKS, np.int64))  # parties by speed, the round before
    own_mark: int = 0

    def epochs(self) -> float:
        """Return how many epochs to train."""
        return float(self._epochs(np.array([self.own_mark]))[0])

    def weight(self) -> float:
        """Return s_j/s: the own epochs over the mean of all parties'."""
        parties = self.marks.sum()
        return self.epochs() / float(self._epochs(np.arange(MARKS)) @ self.marks / parties) if parties else 1.0

    @contextmanager
    def timed(self, ctx: Context, t: int) -> Iterator[float]:
        """Measure what runs inside, which is as many epochs as this gives."""
        epochs, started = self.epochs(), time.monotonic()
        yield epochs
        if self.on:
            seconds = (time.monotonic() - started) / epochs
            mark = int(np.clip(round(PER_OCTAVE * np.log2(max(seconds, FASTEST) / FASTEST)), 0, MARKS - 1))
            self.own_mark = first_measured(ctx, f"pace.{t}", bytes([mark]))[0]

    def own(self) -> np.ndarray:
        """Return the own mark in an empty histogram."""
        return (np.arange(MARKS) == self.own_mark).astype(np.int64) if self.on else np.empty(0, np.int64)

    def take(self, total: np.ndarray) -> None:
        """Take in everybody's marks."""
        if self.on:
            self.marks = total

    def to_arrays(self) -> Arrays:
        """Return what a checkpoint holds."""
        return {"marks": self.marks, "own_mark": np.array(self.own_mark)}

    def restore(self, arrays: Arrays) -> None:
        """Take back what `to_arrays` gave."""
        self.marks, self.own_mark = arrays["marks"], int(arrays["own_mark"])

    def _epochs(self, marks: np.ndarray) -> np.ndarray:
        """Return the epochs of parties with these marks: as long as those of the middle party, the faster of two."""
        if not self.marks.any():
            return np.full(len(marks), float(self.most))
        middle = np.searchsorted(np.cumsum(self.marks), (self.marks.sum() + 1) // 2)
        return np.asarray(np.maximum(LEAST, self.most * 2.0 ** (-np.maximum(0, marks - middle) / PER_OCTAVE)))
