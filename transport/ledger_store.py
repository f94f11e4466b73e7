"""Where the chains of one party are kept: the protocol, and a store in memory; the node has one in SQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Lock
from typing import Protocol

from transport.chain import Entry, SignedHead
from transport.message import MessageKey
from transport.wire import Claim


class LedgerStore(Protocol):
    """Keeps the chains of one party."""

    def append(self, key: MessageKey, direction: str, make: Callable[[Entry | None], Entry]) -> Entry:
        """Return the entry of (key, direction); if there is none, store `make(last entry of key.run)` and return it.

        One writer at a time across processes: reading the last entry and storing the next is one transaction.
        """

    def attach(self, key: MessageKey, direction: str, claim: Claim) -> None:
        """Keep the peer's claim beside the entry of (key, direction)."""

    def entries(self, run: str) -> Sequence[Entry]:
        """Return the chain of a run in order."""

    def keep_head(self, signed: SignedHead) -> None:
        """Keep a peer's signature under this party's head, and this party's under a peer's."""

    def heads(self, run: str) -> Sequence[SignedHead]:
        """Return the signed heads of a run."""


class MemoryLedgerStore:
    """For simulations and tests: one party's chains in memory, safe for threads."""

    def __init__(self) -> None:
        """Start empty."""
        self._lock = Lock()
        self._chains: dict[str, list[Entry]] = {}
        self._places: dict[tuple[MessageKey, str], int] = {}  # (key, direction) -> index in the chain of its run
        self._heads: dict[str, list[SignedHead]] = {}

    def append(self, key: MessageKey, direction: str, make: Callable[[Entry | None], Entry]) -> Entry:
        """See `LedgerStore`."""
        with self._lock:
            chain = self._chains.setdefault(key.run, [])
            if (key, direction) not in self._places:
                chain.append(make(chain[-1] if chain else None))
                self._places[key, direction] = len(chain) - 1
            return chain[self._places[key, direction]]

    def attach(self, key: MessageKey, direction: str, claim: Claim) -> None:
        """See `LedgerStore`."""
        with self._lock:
            chain, place = self._chains[key.run], self._places[key, direction]
            chain[place] = replace(chain[place], claim=claim)

    def entries(self, run: str) -> Sequence[Entry]:
        """See `LedgerStore`."""
        with self._lock:
            return tuple(self._chains.get(run, ()))

    def keep_head(self, signed: SignedHead) -> None:
        """See `LedgerStore`."""
        with self._lock:
            self._heads.setdefault(signed.head.run, []).append(signed)

    def heads(self, run: str) -> Sequence[SignedHead]:
        """See `LedgerStore`."""
        with self._lock:
            return tuple(self._heads.get(run, ()))
