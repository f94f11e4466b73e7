"""How many local steps a party takes: a slow one takes fewer, so that a round lasts as long as at the middle party.

Speed is measured by the party and told as one mark in a histogram of seconds an epoch, which travels in the vector of
the round: everybody learns how many parties are how fast, and not which. FedNova (Wang et al. 2020) divides by each
party's steps; here its weight is rows times steps, which the divisor of every row accounts for (`round_average`).

The model then depends on the clock. What a party decided for a round is kept, for a later attempt may repeat a round
only with the values that it had before.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from components.contract import Context

MARKS, PER_OCTAVE, FASTEST = 192, 8, 2.0**-12  # marks of the histogram, and seconds of its first
LEAST = 1 / 16  # epochs


@dataclass
class Pace:
    """The own speed and the middle one; `on` is the step's `speed`."""

    on: bool
    middle: int | None = None  # mark of the middle party in the round before
    own_mark: int = 0

    def epochs(self, ctx: Context, t: int, most: int) -> float:
        """Return how many epochs to train in round t."""
        if not self.on or self.middle is None:
            return float(most)
        slower = max(0, self.own_mark - self.middle)
        wanted = max(LEAST, most * 2.0 ** (-slower / PER_OCTAVE))
        return float(np.frombuffer(_kept(ctx, f"epochs.{t}", np.float64(wanted).tobytes()), np.float64)[0])

    @contextmanager
    def timed(self, ctx: Context, t: int, epochs: float) -> Iterator[None]:
        """Measure what runs inside as `epochs` epochs."""
        started = time.monotonic()
        yield
        if self.on:
            seconds = (time.monotonic() - started) / epochs
            mark = int(np.clip(round(PER_OCTAVE * np.log2(max(seconds, FASTEST) / FASTEST)), 0, MARKS - 1))
            self.own_mark = int.from_bytes(_kept(ctx, f"mark.{t}", mark.to_bytes(2, "big")), "big")

    def own(self) -> np.ndarray:
        """Return the own mark in an empty histogram."""
        return (np.arange(MARKS) == self.own_mark).astype(np.int64) if self.on else np.empty(0, np.int64)

    def take(self, total: np.ndarray) -> None:
        """Find the middle party, the faster one of two."""
        if self.on:
            self.middle = int(np.searchsorted(np.cumsum(total), (total.sum() + 1) // 2))


def _kept(ctx: Context, name: str, value: bytes) -> bytes:
    return ctx.keys.keep(f"pace.{ctx.run}.{ctx.step}.{name}", lambda: value)
