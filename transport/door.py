"""The receiving end, whatever carried the bytes: authorise, bound, collect, check, record, then publish.

Default deny: the guard must name the message before a byte of the body is looked at. Nothing is kept until the end
marker fits; a message is in the ledger before a reader can see it; a repeat gets the same receipt and is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Protocol

from base.errors import ConsentError, MessageRefused, PeerForeign, SpecMismatch
from transport.body import decode, too_large
from transport.chain import IN
from transport.ledger import Ledger
from transport.message import Message, MessageKey
from transport.wire import SLICE_BYTES, Claim, Header, Marker, Statement

ATTEMPT_BYTES = 16 * 2**30  # on the receiver's disk until the attempt ends
_ATTEMPTS = 16  # whose bytes are counted; a node has one at a time
Roles = Mapping[str, tuple[str, ...]]  # role -> parties


class Guard(Protocol):
    """The node's door policy."""

    def admit(self, peer: str, key: MessageKey) -> Message:
        """Return the declared message that the authenticated `peer` may deliver under `key`.

        Raises `ConsentError` (unknown run, not this party's step, revoked), `StateError` (attempt over) or
        `MessageRefused` (not in the component's table, wrong role). Whoever is not named is refused.
        """


class Inbox(Protocol):
    """Where accepted bodies wait for their reader."""

    def put(self, key: MessageKey, body: bytes) -> None:
        """Publish a body at once; a key that is there already stays as it is."""

    def get(self, key: MessageKey, patience: float) -> bytes | None:
        """Return the body of `key`, waiting at most `patience` seconds; None when it has not come."""


@dataclass(frozen=True)
class PlanGuard:
    """Admits what the steps of one run declare: step -> (message table, roles)."""

    run: str
    steps: Mapping[str, tuple[tuple[Message, ...], Roles]]

    def admit(self, peer: str, key: MessageKey) -> Message:
        """See `Guard`."""
        if key.run != self.run or key.step not in self.steps:
            raise ConsentError("a message belongs to no step of the run", found=f"{key.run}/{key.step}")
        table, roles = self.steps[key.step]
        return admit_by_table(table, roles, key)


def admit_by_table(table: tuple[Message, ...], roles: Roles, key: MessageKey) -> Message:
    """Return the row of the table that fits name, sender's role and receiver's role, or raise `MessageRefused`."""
    for message in table:
        senders, receivers = roles.get(message.sender, ()), roles.get(message.receiver, ())
        if key.name == message.name and key.sender in senders and key.receiver in receivers:
            return message
    raise MessageRefused(
        f"message {key.name} is not declared from {key.sender} to {key.receiver}",
        expected=", ".join(f"{m.name} ({m.sender} to {m.receiver})" for m in table) or "no message",
        where=f"step {key.step}",
        remedy="both ends must run the same component version",
    )


@dataclass
class _Taken:
    total: int = 0
    sizes: dict[MessageKey, int] = field(default_factory=dict)


class _Budget:
    """Bytes that came for an attempt; a repeat of a message costs nothing more."""

    def __init__(self, limit: int) -> None:
        self._limit, self._lock = limit, Lock()
        self._attempts: dict[tuple[str, str, int], _Taken] = {}  # oldest first

    def take(self, key: MessageKey, size: int) -> None:
        """Count what is announced, or raise `MessageRefused`."""
        with self._lock:
            taken = self._attempts.setdefault((key.run, key.step, key.attempt), _Taken())
            if len(self._attempts) > _ATTEMPTS:
                del self._attempts[next(iter(self._attempts))]
            used = taken.total + size - taken.sizes.get(key, 0)
            if used > self._limit:
                raise MessageRefused(
                    "an attempt's messages are too large together", expected=f"at most {self._limit} bytes",
                    found=f"{used} bytes", where=f"step {key.step}",
                )  # fmt: skip
            taken.total, taken.sizes[key] = used, size


class Door:
    """Accepts messages for one party."""

    def __init__(self, guard: Guard, ledger: Ledger, inbox: Inbox, attempt_bytes: int = ATTEMPT_BYTES) -> None:
        """Admit by `guard`, record in `ledger`, publish in `inbox`; at most `attempt_bytes` for one attempt."""
        self.guard = guard
        self.ledger = ledger
        self.inbox = inbox
        self._budget = _Budget(attempt_bytes)

    @property
    def party(self) -> str:
        """Whose door this is."""
        return self.ledger.signer.party

    def open(self, peer: str, header: bytes) -> Reception:
        """Authorise what the authenticated `peer` announces; nothing of the body has been read."""
        announced = Header.from_bytes(header)
        key = announced.key
        if (key.sender, key.receiver) != (peer, self.party):
            raise PeerForeign(
                "a message names other ends than the connection has",
                expected=f"{peer} to {self.party}",
                found=f"{key.sender} to {key.receiver}",
            )
        message = self.guard.admit(peer, key)
        if (announced.schema, announced.protection) != (message.schema.digest, message.protection):
            raise SpecMismatch(
                f"{peer} declares message {key.name} with another schema or protection",
                expected=f"{message.schema.name} {message.schema.digest[:16]}, {message.protection}",
                found=f"{announced.schema[:16]}, {announced.protection[:32]}",
                remedy="both ends must run the same component version",
            )
        if announced.size > message.max_bytes:
            raise too_large(message, announced.size)
        # Numbers of messages are 0, 1, ..., so the number of this one bounds how many there can be.
        if key.seq >= message.max_count:
            raise MessageRefused(
                f"{peer} sends message {key.name} too often", expected=f"at most {message.max_count} in an attempt",
                found=f"number {key.seq + 1}", where=f"step {key.step}",
            )  # fmt: skip
        self._budget.take(key, announced.size)
        return Reception(self, announced, message)


class Reception:
    """One message while it arrives; dropped without a trace unless `close` is reached."""

    def __init__(self, door: Door, header: Header, message: Message) -> None:
        """Start with nothing."""
        self._door, self._header, self._message = door, header, message
        self._body = bytearray()
        self._slices = 0

    def add(self, part: memoryview | bytes) -> None:
        """Take the next slice; refused as soon as more comes than the header announced."""
        if not 0 < len(part) <= SLICE_BYTES or len(self._body) + len(part) > self._header.size:
            raise MessageRefused(
                f"message {self._header.name} does not keep to its header",
                expected=f"{self._header.size} bytes in slices of 1 to {SLICE_BYTES}",
                found=f"{len(self._body)} bytes, then a slice of {len(part)}",
            )
        self._body += part
        self._slices += 1

    def close(self, marker: bytes) -> Claim:
        """Check the whole message against its end marker, record it, publish it, and return the signed receipt."""
        end = Marker.from_bytes(marker)
        body = bytes(self._body)
        statement = self._check(end, body)
        rows = decode(body, self._message).num_rows
        if rows != self._header.rows:
            raise MessageRefused(f"{self._header.name} has other rows", expected=self._header.rows, found=rows)
        ledger = self._door.ledger
        ledger.check_claim(self._header.sender, statement, end.claim)
        entry = ledger.record(IN, statement)
        ledger.attach(IN, statement, end.claim)
        self._door.inbox.put(statement.key, body)
        return ledger.claim(entry)

    def _check(self, end: Marker, body: bytes) -> Statement:
        header = self._header
        digest = self._door.ledger.digest(header.key, header.protection, body)
        expected = (end.slices, end.size, header.size, end.digest)
        found = (self._slices, len(body), len(body), digest)
        if expected != found:
            raise MessageRefused(
                f"message {header.name} did not arrive whole",
                expected=f"{end.slices} slices, {end.size} bytes, digest {end.digest[:16]}",
                found=f"{self._slices} slices, {len(body)} bytes, digest {digest[:16]}",
            )
        return Statement(header.key, header.schema, header.protection, header.rows, header.size, digest)
