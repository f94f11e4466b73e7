"""Who had which item, in the order of time: what models of implicit feedback learn from.

X  (U, I)  1 where user u had item i, else 0
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from base.errors import DataError

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Histories:
    """Rows sorted by user, and those of one user from the oldest to the newest; `DataError` for other rows.

    user (n,) in 0..users-1 and item (n,) in 0..items-1, int32; no user has an item twice.
    """

    user: NDArray[np.int32]
    item: NDArray[np.int32]
    users: int
    items: int

    def __post_init__(self) -> None:
        _require(len(self.user) == len(self.item), "as many users as items", "columns of different lengths")
        _require(bool(np.all(self.user[1:] >= self.user[:-1])), "rows sorted by user", "another order")
        for rows, size in ((self.user, self.users), (self.item, self.items)):
            _require(len(rows) == 0 or (rows.min() >= 0 and rows.max() < size), f"indices below {size}", "others")
        pairs = np.sort(self.user.astype(np.int64) * self.items + self.item)
        _require(bool(np.all(pairs[1:] > pairs[:-1])), "each item once in a history", "an item again")

    def __len__(self) -> int:
        return len(self.user)

    @cached_property
    def start(self) -> Counts:
        """First row of each user, and behind the last user the number of rows, (users + 1,)."""
        return np.searchsorted(self.user, np.arange(self.users + 1))

    @cached_property
    def age(self) -> Counts:
        """How many items the user had after each row's, (n,): 0 for the newest."""
        return self.start[1:][self.user] - 1 - np.arange(len(self))

    @property
    def raters(self) -> Counts:
        """Users of each item, (items,)."""
        return np.bincount(self.item, minlength=self.items)

    def matrix(self, weight: NDArray[np.float64] | None = None) -> Any:
        """Return X as scipy csr (users, items), with each row's `weight` (n,) in place of 1 if given."""
        values = np.ones(len(self)) if weight is None else weight
        return sparse.csr_matrix((values, self.item, self.start), shape=(self.users, self.items))

    def take(self, users: Counts) -> Histories:
        """Return the histories of the given users (k,), numbered 0..k-1 in that order."""
        length = self.start[users + 1] - self.start[users]
        user = np.repeat(np.arange(len(users), dtype=np.int32), length)
        return Histories(user, self.item[runs(self.start[users], length)], len(users), self.items)

    def lists(self) -> Iterator[NDArray[np.int32]]:
        """Yield the items of each user, from the oldest to the newest."""
        for first, last in pairwise(self.start):
            yield self.item[first:last]

    def by_item(self) -> list[Counts]:
        """Return the rows of each item, ascending: a list of `items` arrays."""
        return np.split(np.argsort(self.item, kind="stable"), np.cumsum(self.raters)[:-1])


def runs(first: Counts, length: Counts) -> Counts:
    """Return first, first + 1, ..., `length` numbers, for each run, one run after the other: (Σ length,)."""
    begin = np.cumsum(length) - length
    return np.asarray(np.arange(length.sum()) + np.repeat(first - begin, length))


def _require(holds: bool, expected: str, found: str) -> None:
    if not holds:
        raise DataError("histories are not in their form", expected=expected, found=found, where="a party's own rows")
