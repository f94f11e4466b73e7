"""Push-sum: nodes without a centre learn the average of all their vectors by passing on shares of what they hold.

Kempe, Dobra and Gehrke (2003), "Gossip-based computation of aggregate information" (FOCS), protocol Push-Sum, with
equal shares for one receiver (their half) or for several. A node holds mass (s, w). In a step it cuts both into equal
shares, keeps one and pushes the others; s/w tends to Σs/Σw, because values and weights travel together.

Mass is conserved to the last unit, whatever the network does: shares are integers; a pushed share stays with its
sender, who sends the same again until a receipt comes; a receiver counts a share once. So each share under way is
somewhere exactly once, and a loss delays the average and does not move it.

    K  nodes     s  vector (n,) int64, in units of 2^-14 of a digit     w  weight, an integer, 2^30 at the start
    c  parts of every node's first mass that one node holds (K,), Σc = 1; 1/K each when all have the average
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Schedule = tuple[tuple[int, ...], ...]  # of each step: node k pushes to k + r modulo K for each r

DIGIT = 16  # bits of a digit: digits of any vector fit into 32 bits with their guard bits
GUARD = 14  # bits after the point while shares are cut
WEIGHT = 1 << 30


@dataclass(frozen=True)
class Parcel:
    """A share under way; (sender, receiver, number) names it for ever."""

    sender: int
    receiver: int
    number: int
    s: Integers
    w: int

    @property
    def key(self) -> tuple[int, int, int]:
        """Return what a receipt names."""
        return self.sender, self.receiver, self.number


@dataclass
class Node:
    """What one node holds, and what it has pushed and not yet seen a receipt for."""

    name: int
    s: Integers
    w: int = WEIGHT
    unconfirmed: dict[tuple[int, int, int], Parcel] = field(default_factory=dict)  # to be sent again
    _taken: set[tuple[int, int, int]] = field(default_factory=set)
    _pushed: int = 0

    def push(self, receivers: Sequence[int]) -> list[Parcel]:
        """Cut the mass into equal shares, keep one (and what does not divide), return one for each receiver."""
        s, w = self.s // (len(receivers) + 1), self.w // (len(receivers) + 1)
        parcels = []
        for receiver in receivers:
            parcels.append(Parcel(self.name, receiver, self._pushed, s, w))
            self._pushed += 1
        self.s, self.w = self.s - len(parcels) * s, self.w - len(parcels) * w
        self.unconfirmed |= {parcel.key: parcel for parcel in parcels}
        return parcels

    def take(self, parcel: Parcel) -> tuple[int, int, int]:
        """Add a share, unless it came before, and return its receipt."""
        if not self.has_taken(parcel.key):
            self._taken.add(parcel.key)
            self.s, self.w = self.s + parcel.s, self.w + parcel.w
        return parcel.key

    def has_taken(self, key: tuple[int, int, int]) -> bool:
        """Tell whether a share was counted here."""
        return key in self._taken

    def confirm(self, receipt: tuple[int, int, int]) -> None:
        """Forget a share that has arrived; a receipt may come twice."""
        self.unconfirmed.pop(receipt, None)

    def average(self) -> NDArray[np.float64]:
        """Return s/w, the estimate of Σs/Σw, in digits."""
        return np.ldexp(self.s / self.w * WEIGHT, -GUARD)


def schedule(nodes: int, rng: np.random.Generator) -> Schedule:
    """Return steps after which every node has the sum of all digits, surely, when no share is late.

    `rng` is public: halves go to a neighbour that it draws, and everybody sees beforehand when they have mixed enough.
    Where that takes as many pushes as telling everyone, equal shares go to everyone in one step.
    """
    steps = list[tuple[int, ...]]()
    c = np.eye(1, nodes)[0]  # of node 0; a step is the same shift for all, so the others' are this one, shifted
    while _error(c, len(steps)) >= 0.5:
        if len(steps) + 1 >= nodes - 1:
            return (tuple(range(1, nodes)),)
        steps.append((int(rng.integers(1, nodes)),))
        c = (c + np.roll(c, steps[-1][0])) / 2
    return tuple(steps)


def _error(c: NDArray[np.float64], steps: int) -> float:
    """Return a bound of |K·s/w − Σ| in digits: what has not mixed, and a unit of rounding a step."""
    return len(c) * float(np.abs(c - 1 / len(c)).sum() * 2.0**DIGIT + steps * 2.0**-GUARD)


def to_digits(values: Integers, bits: int) -> Integers:
    """Return the digits (digits·n,) of values of `bits` bits as a node holds them: lowest first, the top one signed."""
    places = -(-bits // DIGIT)
    low = [values >> DIGIT * place & (1 << DIGIT) - 1 for place in range(places - 1)]
    return np.concatenate([*low, values >> DIGIT * (places - 1)]) << GUARD


def total_of(average: NDArray[np.float64], nodes: int, bits: int) -> Integers:
    """Return the sum (n,) of what `nodes` nodes began with, modulo 2^64, from the average of their digits."""
    digits = np.rint(nodes * average).astype(np.int64).reshape(-(-bits // DIGIT), -1)
    places = DIGIT * np.arange(len(digits), dtype=np.int64)[:, None]
    return np.asarray((digits << places).sum(axis=0))
