"""What the data sets of a party have spent of their privacy, over all accords, and what an accord lets them spend.

One budget belongs to one data set, whatever accord, run or step spends it: whoever reads two releases reads both. So
the store is the party's, the limit is the accord's, and a charge counts everything that any accord has charged before.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Protocol

from base.errors import ConsentError
from crypto.budget import Budget, Release

Entry = Mapping[str, Any]  # accord, what, day, release


class BudgetStore(Protocol):
    """Keeps the charges of each data set with a version, 0 before the first."""

    def read(self, data_set: str) -> tuple[int, list[Entry]]:
        """Return version and charges, oldest first."""

    def swap(self, data_set: str, version: int, entries: list[Entry]) -> bool:
        """Store `entries` if `version` still is the stored one, so that they outlast a loss of power; tell whether."""


@dataclass
class MemoryBudgets:
    """The store of a simulation or a test: it ends with the process."""

    _kept: dict[str, tuple[int, list[Entry]]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self, data_set: str) -> tuple[int, list[Entry]]:
        """See `BudgetStore`."""
        return self._kept.get(data_set, (0, []))

    def swap(self, data_set: str, version: int, entries: list[Entry]) -> bool:
        """See `BudgetStore`."""
        with self._lock:
            if self.read(data_set)[0] != version:
                return False
            self._kept[data_set] = version + 1, entries
            return True


@dataclass(frozen=True)
class Spending:
    """Charges releases of one accord to the budgets of one party."""

    accord: str
    limits: Mapping[str, Mapping[str, float]]  # the accord's: data set -> epsilon, delta
    store: BudgetStore

    def charge(self, data_set: str, release: Release, what: str) -> None:
        """Store that `release` is spent; `ConsentError` when it would exceed what the accord allows the data set."""
        limit = self.limits.get(data_set)
        if limit is None:
            raise ConsentError(
                "the accord lets this data set spend no privacy", expected=", ".join(self.limits) or "none",
                found=data_set, where=f"accord {self.accord}", remedy=f"privacy: {{{data_set}: ...}} in a new version",
            )  # fmt: skip
        while True:
            version, entries = self.store.read(data_set)
            Budget(limit["epsilon"], limit["delta"], releases(entries)).charge(release)
            if self.store.swap(data_set, version, _added(entries, self._entry(release, what))):
                return

    def _entry(self, release: Release, what: str) -> Entry:
        day = datetime.now(UTC).date().isoformat()
        return {"accord": self.accord, "what": what, "day": day, "release": asdict(release)}


def releases(entries: list[Entry]) -> tuple[Release, ...]:
    """Return what was charged; every release is checked again."""
    return tuple(Release(**entry["release"]) for entry in entries)


def _added(entries: list[Entry], new: Entry) -> list[Entry]:
    """Return the entries with one more; the same again, as the rounds of a step are, is counted in one entry."""
    if entries:
        *before, last = entries
        (one,), (other,) = releases([last]), releases([new])
        if replace(one, times=1) == other and {**last, "release": 0} == {**new, "release": 0}:
            return [*before, {**last, "release": asdict(replace(one, times=one.times + 1))}]
    return [*entries, new]
