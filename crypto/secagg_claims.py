"""What a party of secure aggregation remembers for ever: no pad serves twice, no sum comes again over less or more.

The store outlives the process and must not be part of what a restored snapshot brings back (`secagg`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol

from base.errors import StateError
from crypto.secagg_public import Terms, sha


class Store(Protocol):
    """Keeps records durably."""

    def keep(self, name: str, make: Callable[[], bytes]) -> bytes:
        """Return what is stored under `name`; when nothing is, store `make()` durably first."""


class Claims:
    """The records of one attempt."""

    def __init__(self, terms: Terms, store: Store) -> None:
        """Claim in `store` for the attempt of `terms`."""
        self._terms, self._store = terms, store

    def attempt(self) -> None:
        """Claim the attempt and all lower numbers: it never goes back. `StateError` when it was started before."""
        for attempt in range(1, self._terms.attempt + 1):
            self._once("attempt", attempt, ours=attempt == self._terms.attempt)

    def over(self, what: str, number: int, record: bytes) -> None:
        """Claim a round for this attempt, over `record`, for ever: `StateError` when it was over something else.

        One durable record where no earlier attempt came as far, as in every first attempt; two where one did.
        """
        ours = record + self._terms.attempt.to_bytes(8, "big")
        own = ours + os.urandom(32)
        kept = self._store.keep(self._name(what, number), lambda: own)
        if not kept.startswith(record):
            raise StateError(
                "a second sum of one round over something else would show a party's part",
                expected="the same roster, survivors, model, rows and values", found=f"round {number} differs",
                remedy="start a new run",
            )  # fmt: skip
        if kept.startswith(ours) and kept != own:
            raise self._again(what, number)
        if kept != own:
            self._once(what, self._terms.attempt, number)

    def of(self, values: bytes, listed: bytes) -> None:
        """Keep of whom a sum with these own `values` is, in whatever run: over others too it would show who differs."""
        if self._store.keep(f"secagg.list.{values.hex()}", lambda: listed) != listed:
            raise StateError(
                "the same values were in a sum of other parties before", expected="the parties of that sum",
                found="others", remedy="another seed, or run again when the data have changed",
            )  # fmt: skip

    def _once(self, *what: object, ours: bool = True) -> None:
        """Claim a number for ever; `StateError` when it was claimed before (by this process or an earlier life)."""
        token = os.urandom(32)
        if self._store.keep(self._name(*what), lambda: token) != token and ours:
            raise self._again(*what)

    @staticmethod
    def _again(*what: object) -> StateError:
        return StateError(
            f"a second {what[0]} of one number would use a pad twice", expected="numbers that never come back",
            found=f"{what[0]} {what[1:]} again", remedy="start a new attempt",
        )  # fmt: skip

    def _name(self, *what: object) -> str:
        return "secagg." + sha(self._terms.run.encode(), repr(what).encode()).hex()
