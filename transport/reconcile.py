"""Two ends' ledgers of one run side by side, and both against the message tables of the plan.

Check each chain with `Ledger.verify` first: this module believes links, claims and heads and compares what they say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from base.errors import AccordError
from transport.chain import IN, OUT, Entry
from transport.door import Guard
from transport.message import MessageKey


class Kind(StrEnum):
    """What can be wrong between two ledgers."""

    DIFFERS = "differs"  # the two ends state another schema, protection, size or digest
    MISSING = "missing"  # an end signed for a message that its ledger does not hold
    REWRITTEN = "rewritten"  # an end holds the message at another place than it signed
    UNDECLARED = "undeclared"  # the plan has no such message, or with another schema or protection
    UNACKNOWLEDGED = "unacknowledged"  # recorded before sending, never confirmed: an attempt that ended early


@dataclass(frozen=True)
class Finding:
    """One message, and the party whose ledger it concerns."""

    kind: Kind
    key: MessageKey
    party: str


@dataclass(frozen=True)
class Reconciliation:
    """How many messages agree at both ends, and everything that does not."""

    matched: int
    findings: tuple[Finding, ...]

    @property
    def clean(self) -> bool:
        """Whether nothing but unacknowledged sends was found."""
        return all(finding.kind is Kind.UNACKNOWLEDGED for finding in self.findings)


def reconcile(a: str, a_chain: Sequence[Entry], b: str, b_chain: Sequence[Entry], guard: Guard) -> Reconciliation:
    """Compare the chains of parties `a` and `b` over the messages between them, and those with the plan's `guard`."""
    matched, findings = 0, []
    for sent, received in [*_pairs(a, a_chain, b, b_chain), *_pairs(b, b_chain, a, a_chain)]:
        found = [*_compare(sent, received), *_undeclared(sent, guard), *_undeclared(received, guard)]
        findings += found
        matched += not found
    return Reconciliation(matched, tuple(findings))


def _pairs(
    a: str, a_chain: Sequence[Entry], b: str, b_chain: Sequence[Entry]
) -> Iterator[tuple[Entry | None, Entry | None]]:
    """Yield what `a` sent to `b` as (entry at a, entry at b), in the order of `a`."""
    sent = {e.statement.key: e for e in a_chain if e.direction == OUT and e.peer == b}
    received = {e.statement.key: e for e in b_chain if e.direction == IN and e.peer == a}
    for key in dict.fromkeys([*sent, *received]):
        yield sent.get(key), received.get(key)


def _compare(sent: Entry | None, received: Entry | None) -> list[Finding]:
    if sent is None or received is None:
        present = sent or received
        assert present is not None
        signed = present.claim is not None
        return [Finding(Kind.MISSING if signed else Kind.UNACKNOWLEDGED, present.statement.key, present.peer)]
    if sent.statement != received.statement:
        return [Finding(Kind.DIFFERS, sent.statement.key, received.party)]
    ends = ((sent, received), (received, sent))
    return [Finding(Kind.REWRITTEN, own.statement.key, own.party) for own, other in ends if not _kept(own, other)]


def _kept(own: Entry, other: Entry) -> bool:
    """Tell whether `own` stands where its party signed to the other end that it stands."""
    return other.claim is None or (other.claim.index, other.claim.hash) == (own.index, own.hash)


def _undeclared(entry: Entry | None, guard: Guard) -> list[Finding]:
    if entry is None:
        return []
    statement = entry.statement
    try:
        message = guard.admit(statement.key.sender, statement.key)
        declared = (message.schema.digest, message.protection) == (statement.schema, statement.protection)
    except AccordError:
        declared = False
    return [] if declared else [Finding(Kind.UNDECLARED, statement.key, entry.party)]
