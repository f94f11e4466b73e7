"""A hash-chained list of messages, its links and its head: what a ledger consists of.

An entry binds all before it. Nothing here needs a key; what parties sign about entries and heads is in
`transport.ledger`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from base.canonical import digest
from base.errors import CryptoError
from transport.wire import Claim, Document, Statement

OUT, IN = "out", "in"


@dataclass(frozen=True)
class Entry:
    """One link of the chain of (party, run); the peer's claim stands beside it, guarded by its own signature."""

    party: str  # whose chain
    index: int  # 0, 1, ...
    previous: str  # hash of the entry before, or of the chain's name
    at: str  # UTC, ISO 8601
    direction: str  # OUT or IN
    statement: Statement
    claim: Claim | None = None  # the other end's, about its own entry

    @property
    def peer(self) -> str:
        """The other end."""
        return self.statement.key.receiver if self.direction == OUT else self.statement.key.sender

    @property
    def hash(self) -> str:
        """SHA-256 over everything but the claim; binds all earlier entries."""
        return digest(self._chained())

    def to_document(self) -> dict[str, Any]:
        """Return JSON for a store, a report or the other end."""
        return {**self._chained(), "claim": None if self.claim is None else vars(self.claim) | {}}

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Entry:
        """Rebuild an entry; nothing in it is believed before `verify_chain`."""
        rest = dict(document)
        claim = rest.pop("claim")
        statement = Statement.from_document(rest.pop("statement"))
        return cls(**rest, statement=statement, claim=None if claim is None else Claim.from_dict(claim))

    def _chained(self) -> dict[str, Any]:
        names = ("party", "index", "previous", "at", "direction")
        return {**{name: getattr(self, name) for name in names}, "statement": self.statement.document()}


@dataclass(frozen=True)
class Head(Document):
    """How far a chain goes."""

    title: ClassVar[str] = "ledger head"
    party: str  # whose chain
    run: str
    length: int
    hash: str  # of the last entry


@dataclass(frozen=True)
class SignedHead:
    """A party's signature under a head: another party's, or its own when it tells it."""

    head: Head
    signer: str
    signature: str  # hex


def verify_chain(entries: Sequence[Entry], party: str, run: str) -> None:
    """Raise `CryptoError` at the first entry that does not follow from the one before it."""
    previous = chain_start(party, run)
    for index, entry in enumerate(entries):
        same = (entry.party, entry.statement.key.run, entry.index, entry.previous) == (party, run, index, previous)
        ends = entry.statement.key.sender if entry.direction == OUT else entry.statement.key.receiver
        if not same or ends != party or entry.direction not in (OUT, IN):
            raise CryptoError(
                f"the ledger of {party} is broken at entry {index}",
                expected=f"the successor of {previous[:16]}",
                found=f"{entry.previous[:16]}, index {entry.index}",
                where=f"run {run}",
                remedy="compare with the other end's ledger: accord audit verify",
            )
        previous = entry.hash


def verify_head(entries: Sequence[Entry], head: Head) -> None:
    """Raise `CryptoError` unless the chain contains the signed head."""
    known = head_of(entries[: head.length], head.party, head.run)
    if known != head:
        raise CryptoError(
            f"the ledger of {head.party} does not reach its signed head",
            expected=f"{head.length} entries ending in {head.hash[:16]}",
            found=f"{known.length} entries ending in {known.hash[:16]}",
            where=f"run {head.run}",
            remedy="entries were removed or changed after the run: restore the node's database",
        )


def head_of(entries: Sequence[Entry], party: str, run: str) -> Head:
    """Return the head of a chain; an empty chain ends in its start."""
    return Head(party, run, len(entries), entries[-1].hash if entries else chain_start(party, run))


def chain_start(party: str, run: str) -> str:
    """Return what the first entry's `previous` is: the chain's name."""
    return digest(["accord ledger", party, run])
