"""How our side of `accord bench crypto` is measured: how much, and in CPU seconds of everything that works.

CPU seconds are those of all threads of this process and of the processes that the work starts and ends.
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from base.errors import StateError

BITS = 2048

Result = TypeVar("Result")


@dataclass(frozen=True)
class Sizes:
    """How much is done for one figure; chosen so that five repetitions take minutes on two cores."""

    ciphertexts: int = 300
    additions: int = 30_000
    packed: int = 400 * 63
    one_by_one: int = 200
    people: int = 6_040
    columns: int = 8
    masked: int = 1_000_000
    curve_ids: int = 2_000
    transfer_ids: int = 50_000
    rsa_ids: int = 200
    peer_rows: int = 250  # rows of X that peers sum over; their cost for an entry does not depend on it
    peer_columns: int = 2


class Meter:
    """Sizes, a random generator, and where bytes for each value or id are put, under "case: library"."""

    def __init__(self, sizes: Sizes, sent: dict[str, float]) -> None:
        """Take both."""
        self._sizes, self._sent, self._draw = sizes, sent, np.random.default_rng(1)

    def _rate(self, count: int, work: Callable[[], object]) -> float:
        return self._timed(count, work)[0]

    def _timed(self, count: int, work: Callable[[], Result]) -> tuple[float, Result]:
        start = cpu()
        result = work()
        return count / (cpu() - start), result


def cpu() -> float:
    """Return CPU seconds of this process, all threads, and of the processes that it started and that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def check(holds: bool) -> None:
    """Raise `StateError` unless a result is right: a wrong one has no rate."""
    if not holds:
        raise StateError("a measured result is wrong", expected="the right sum or intersection")
