"""A channel adds names, schemas, the message table, deadlines and the ledger to a carrier of bytes.

One channel serves one party in one attempt of one step. The n-th message of a name between two parties has number n at
both ends, so a message is neither lost nor read twice nor taken for another.
"""

from __future__ import annotations

import concurrent.futures
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

import pyarrow as pa

from base.errors import AccordError, DeadlinePassed, MessageRefused, PeerDown
from transport.body import decode, encode
from transport.chain import OUT
from transport.door import Roles
from transport.ledger import Ledger
from transport.message import Message, MessageKey
from transport.wire import Claim, Header, Marker, Parcel, Statement, count_slices

PATIENCE_SECONDS = 0.5  # how long a wait sleeps before it looks whether the step was cancelled


class Carrier(Protocol):
    """Moves bytes. Wrap one to see or to disturb what leaves a party before TLS."""

    def put(self, parcel: Parcel, seconds: float) -> Claim:
        """Deliver once within `seconds` and return the receiver's claim; `PeerDown` when it may be tried again."""

    def get(self, key: MessageKey, patience: float) -> bytes | None:
        """Return the body of `key`, waiting at most `patience` seconds; None when it has not come."""


@dataclass
class Channel:
    """What `ctx.send` and `ctx.recv` do."""

    party: str
    role: str
    roles: Roles
    run: str
    step: str
    attempt: int
    messages: tuple[Message, ...]
    carrier: Carrier
    ledger: Ledger
    deadline_seconds: float = 600.0
    cancelled: Callable[[], AccordError | None] = lambda: None
    _seq: Counter[tuple[str, str, str]] = field(default_factory=Counter, init=False, repr=False)
    _pool: ThreadPoolExecutor | None = field(default=None, init=False, repr=False)

    def send(self, name: str, table: pa.Table, to: str | None = None) -> None:
        """Send a declared message to `to`, or to every other party that may receive it, to all of them at once.

        Raises `MessageRefused` (undeclared, other schema, too large), the receiver's own error, or `DeadlinePassed`; of
        several receivers the error of the first that fails, and nobody is waited for any longer.
        """
        declared = self._declared(name, sends=True)
        found = {p: m for m in declared for p in self._others(m.receiver)}
        if not declared or to not in (None, *found):
            raise self._undeclared(name, f"to {to or 'all'}")
        bodies = {message.receiver: encode(table, message) for message in declared}
        receivers = sorted(found) if to is None else [to]
        # Recorded in the order of names before a byte leaves; then who is slow keeps nobody waiting.
        parcels = [
            self._record(found[party], table.num_rows, bodies[found[party].receiver], party) for party in receivers
        ]
        for parcel, claim in zip(parcels, self._put_all(parcels), strict=True):
            self.ledger.attach(OUT, _statement(parcel), claim)

    def recv(self, name: str, from_: str | None = None) -> pa.Table:
        """Wait for the next message of this name from `from_`, or from the only party that can send it.

        Raises `MessageRefused`, `DeadlinePassed` (who was awaited, for what, since when), or what `cancelled` says.
        """
        found = self._senders(name)
        party = from_ if from_ is not None else next(iter(found), "nobody")
        if party not in found or (from_ is None and len(found) != 1):
            raise self._undeclared(name, f"from {from_ or 'one of ' + ', '.join(sorted(found))}")
        key = self._key(name, party, self.party)
        wait = _Wait(self, key, party, self.cancelled)
        while True:
            body = self.carrier.get(key, min(PATIENCE_SECONDS, wait.remaining()))
            if body is not None:
                return decode(body, found[party])

    def recv_any(self, name: str, parties: Sequence[str], patience: float | None = None) -> tuple[str, pa.Table] | None:
        """Wait for the next message of this name from whichever of `parties` is first; return who, and the message.

        None when nothing came within `patience` seconds; without it, raises as `recv` does.
        """
        found = self._senders(name)
        if not parties or not set(parties) <= set(found):
            raise self._undeclared(name, f"from {', '.join(parties) or 'nobody'}")
        keys = {party: self._key(name, party, self.party, counts=False) for party in parties}
        wait, started = _Wait(self, keys[parties[0]], ", ".join(parties), self.cancelled), time.monotonic()
        while True:
            left = wait.remaining()
            for party, key in keys.items():
                if (body := self.carrier.get(key, 0)) is not None:
                    self._key(name, party, self.party)
                    return party, decode(body, found[party])
            waited = time.monotonic() - started
            if patience is not None and waited >= patience:
                return None
            time.sleep(min(max(0.002, waited / 20), PATIENCE_SECONDS, left, max(0.0, (patience or left) - waited)))

    def _record(self, message: Message, rows: int, body: bytes, party: str) -> Parcel:
        """Return what travels, recorded; the same bytes are sent until they are acknowledged."""
        key = self._key(message.name, self.party, party)
        digest = self.ledger.digest(key, message.protection, body)
        header = Header(
            **vars(key), schema=message.schema.digest, protection=str(message.protection), rows=rows, size=len(body)
        )
        statement = Statement(key, header.schema, header.protection, rows, len(body), digest)
        claim = self.ledger.claim(self.ledger.record(OUT, statement))
        return Parcel(
            header, body, Marker(slices=count_slices(len(body)), size=len(body), digest=digest, **vars(claim))
        )

    def _put_all(self, parcels: list[Parcel]) -> list[Claim]:
        """Return the receipts, in the order of the parcels."""
        failed = list[Exception]()

        def put(parcel: Parcel) -> Claim:
            try:
                return self._put(parcel, lambda: failed[0] if failed else self.cancelled())
            except Exception as error:
                failed.append(error)
                raise

        if len(parcels) == 1:
            return [put(parcels[0])]
        if self._pool is None:  # kept: a thread's first call of gRPC costs more than those after it
            self._pool = ThreadPoolExecutor(max(1, sum(map(len, self.roles.values()))))
        puts = [self._pool.submit(put, parcel) for parcel in parcels]
        concurrent.futures.wait(puts)
        if failed:
            raise failed[0]
        return [each.result() for each in puts]

    def _put(self, parcel: Parcel, cancelled: Callable[[], Exception | None]) -> Claim:
        wait, pause = _Wait(self, parcel.key, parcel.header.receiver, cancelled), 0.05
        while True:
            try:
                return self.carrier.put(parcel, wait.remaining())
            except PeerDown as error:
                wait.last = error
                time.sleep(min(pause, wait.remaining()))
                pause = min(2 * pause, PATIENCE_SECONDS)

    def _senders(self, name: str) -> dict[str, Message]:
        return {p: m for m in self._declared(name, sends=False) for p in self._others(m.sender)}

    def _declared(self, name: str, sends: bool) -> list[Message]:
        return [m for m in self.messages if m.name == name and self.role == (m.sender if sends else m.receiver)]

    def _others(self, role: str) -> list[str]:
        return [party for party in self.roles.get(role, ()) if party != self.party]

    def _key(self, name: str, sender: str, receiver: str, counts: bool = True) -> MessageKey:
        """Return the key of the next message between two parties; the one after it is another once this `counts`."""
        seq = self._seq[name, sender, receiver]
        self._seq[name, sender, receiver] += counts
        return MessageKey(self.run, self.step, self.attempt, name, sender, receiver, seq)

    def _undeclared(self, name: str, whom: str) -> MessageRefused:
        rows = ", ".join(f"{m.name} ({m.sender} to {m.receiver})" for m in self.messages)
        return MessageRefused(
            "a message is not in the component's table",
            expected=rows or "no message",
            found=f"{name} {whom} at role {self.role}",
            where=f"step {self.step}",
            party=self.party,
        )


class _Wait:
    """A wait that ends: at its deadline, or when somebody stops the step."""

    def __init__(
        self, channel: Channel, key: MessageKey, party: str, cancelled: Callable[[], Exception | None]
    ) -> None:
        self._channel, self._key, self._party, self._cancelled = channel, key, party, cancelled
        self._since = datetime.now(UTC)
        self._end = time.monotonic() + channel.deadline_seconds
        self.last: AccordError | None = None

    def remaining(self) -> float:
        """Return the seconds left, more than 0; raise when there are none or the step was stopped."""
        error = self._cancelled()
        if error is not None:
            raise error
        left = self._end - time.monotonic()
        if left <= 0:
            raise self._passed() from self.last
        return left

    def _passed(self) -> DeadlinePassed:
        key, channel = self._key, self._channel
        verb = "to take" if key.sender == channel.party else "for"
        return DeadlinePassed(
            f"{self._party} was awaited {verb} message {key.name} number {key.seq}"
            f" since {self._since.isoformat(timespec='seconds')}",
            expected=f"within {channel.deadline_seconds:g} seconds",
            found=self.last.what if self.last else "nothing came",
            where=f"run {key.run}, step {key.step}, attempt {key.attempt}",
            remedy=f"see whether the node of {self._party} runs and what its step says",
            party=channel.party,
        )


def _statement(parcel: Parcel) -> Statement:
    """Return what the ledgers of both ends say of it."""
    header = parcel.header
    return Statement(parcel.key, header.schema, header.protection, header.rows, header.size, parcel.marker.digest)
