"""The hash-chained ledger at each end (protocols.md §5): which bytes moved, provable to the other end and an auditor.

A sender records a message before the first byte leaves, a receiver before anybody can read it. Each end sends the other
a signed `Claim` ("entry i of my chain, with this hash, holds this statement"), so removing or changing an entry later
contradicts a signature that somebody else keeps. At the end of a run each end signs the other's head, else a cut tail
after the last claim would be invisible. The ledger proves which bytes moved, not that they are what a component says.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from threading import Lock
from typing import Any, ClassVar, Protocol

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from base.canonical import canonical_bytes, digest
from base.errors import CryptoError, MessageRefused
from transport.message import MessageKey, Protection
from transport.wire import Claim, Document, Statement

OUT, IN = "out", "in"
# Uniform for whoever lacks the key, so a plain hash tells nothing; everything else could be guessed from its SHA-256.
_CIPHERTEXTS = {Protection.PAILLIER, Protection.PAILLIER_ANSWER, Protection.WRAPPED, Protection.BLINDED}


class Signer(Protocol):
    """The node's keys as transport uses them."""

    @property
    def party(self) -> str:
        """The party whose keys these are."""

    def sign(self, data: bytes) -> bytes:
        """Sign with the party's Ed25519 key (64 bytes)."""

    def verify(self, party: str, data: bytes, signature: bytes) -> None:
        """Raise `PeerForeign` unless `party` signed `data`."""

    def pair_key(self, party: str, run: str) -> bytes:
        """Return the secret that only this party and `party` share in `run` (32 bytes, the same at both ends)."""


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


class LedgerStore(Protocol):
    """Keeps the chains of one party; `MemoryLedgerStore` here, SQL in the node."""

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
        self._heads: dict[str, list[SignedHead]] = {}

    def append(self, key: MessageKey, direction: str, make: Callable[[Entry | None], Entry]) -> Entry:
        """See `LedgerStore`."""
        with self._lock:
            chain = self._chains.setdefault(key.run, [])
            position = _position(chain, key, direction)
            if position is None:
                chain.append(make(chain[-1] if chain else None))
            return chain[-1 if position is None else position]

    def attach(self, key: MessageKey, direction: str, claim: Claim) -> None:
        """See `LedgerStore`."""
        with self._lock:
            chain = self._chains[key.run]
            position = _position(chain, key, direction)
            assert position is not None
            chain[position] = replace(chain[position], claim=claim)

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


class Ledger:
    """One party's ledger: records messages, makes and keeps claims, signs and checks heads."""

    def __init__(self, signer: Signer, store: LedgerStore) -> None:
        """Write with the party's keys into its store."""
        self.signer = signer
        self.store = store

    def digest(self, key: MessageKey, protection: str, body: bytes) -> str:
        """Return the digest that both ends write: HMAC under the message's own key, or SHA-256 of ciphertexts.

        A small plaintext cannot be guessed from the HMAC; an auditor gets the key of one message (`message_key`).
        """
        if protection in _CIPHERTEXTS:
            return hashlib.sha256(body).hexdigest()
        return hmac.digest(self.message_key(key), body, "sha256").hex()

    def message_key(self, key: MessageKey) -> bytes:
        """Return k_msg = HKDF-SHA256(pair key of the run, message key), 32 bytes."""
        peer = key.receiver if key.sender == self.signer.party else key.sender
        hkdf = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"accord ledger message\0" + str(key).encode())
        return hkdf.derive(self.signer.pair_key(peer, key.run))

    def record(self, direction: str, statement: Statement) -> Entry:
        """Return the entry of a message, appended on first sight; a repeat with another statement is refused."""

        def make(last: Entry | None) -> Entry:
            previous = last.hash if last else chain_start(self.signer.party, statement.key.run)
            at = datetime.now(UTC).isoformat(timespec="milliseconds")
            return Entry(self.signer.party, last.index + 1 if last else 0, previous, at, direction, statement)

        entry = self.store.append(statement.key, direction, make)
        if entry.statement != statement:
            raise MessageRefused(
                f"message {statement.key.name} was delivered before with other bytes",
                expected=f"digest {entry.statement.digest}",
                found=f"digest {statement.digest}",
                where=str(statement.key),
                remedy="a repeat is byte-identical; a new content needs a new attempt",
            )
        return entry

    def claim(self, entry: Entry) -> Claim:
        """Sign that this party's chain holds the entry's statement."""
        signature = self.signer.sign(_claimed(self.signer.party, entry.index, entry.hash, entry.statement))
        return Claim(entry.index, entry.hash, signature.hex())

    def check_claim(self, party: str, statement: Statement, claim: Claim) -> None:
        """Raise `PeerForeign` unless `party` signed the claim about this statement."""
        data = _claimed(party, claim.index, claim.hash, statement)
        self.signer.verify(party, data, _unhex(claim.signature))

    def attach(self, direction: str, statement: Statement, claim: Claim) -> None:
        """Check the peer's claim and keep it beside the entry."""
        self.check_claim(statement.key.receiver if direction == OUT else statement.key.sender, statement, claim)
        self.store.attach(statement.key, direction, claim)

    def head(self, run: str) -> Head:
        """Return how far this party's chain of the run goes."""
        return head_of(self.store.entries(run), self.signer.party, run)

    def own_head(self, run: str) -> SignedHead:
        """Return this party's head with its signature, for the others to countersign."""
        head = self.head(run)
        return SignedHead(head, self.signer.party, self.signer.sign(_headed(head)).hex())

    def countersign(self, own: SignedHead) -> SignedHead:
        """Sign a head that its owner has signed: whoever passes it on cannot make up another."""
        self.signer.verify(own.head.party, _headed(own.head), _unhex(own.signature))
        return self.sign_head(own.head)

    def sign_head(self, head: Head) -> SignedHead:
        """Sign another party's head, and keep it too: that party cannot cut its tail afterwards.

        A chain only grows: `CryptoError` for a head that contradicts the one that was signed before.
        """
        for known in self.store.heads(head.run):
            if (known.head.party, known.signer) == (head.party, self.signer.party):
                shorter = head.length < known.head.length
                if shorter or (head.length == known.head.length and head.hash != known.head.hash):
                    raise CryptoError(
                        f"the ledger of {head.party} has gone back behind its signed head",
                        expected=f"{known.head.length} entries ending in {known.head.hash[:16]}, or more",
                        found=f"{head.length} entries ending in {head.hash[:16]}",
                        where=f"run {head.run}",
                    )
        signed = SignedHead(head, self.signer.party, self.signer.sign(_headed(head)).hex())
        self.store.keep_head(signed)
        return signed

    def keep_head(self, signed: SignedHead) -> None:
        """Check a peer's signature under this party's head, and keep it."""
        self.signer.verify(signed.signer, _headed(signed.head), _unhex(signed.signature))
        verify_head(self.store.entries(signed.head.run), signed.head)
        self.store.keep_head(signed)

    def verify(self, run: str, party: str, entries: Sequence[Entry], heads: Sequence[SignedHead]) -> None:
        """Check a chain (this party's or another's): links, the claims kept in it, and the heads signed by others.

        Raises `CryptoError` or `PeerForeign` naming the entry. Heads of other chains among `heads` are passed over.
        """
        verify_chain(entries, party, run)
        for entry in entries:
            if entry.claim is not None:
                self.check_claim(entry.peer, entry.statement, entry.claim)
        for signed in heads:
            if signed.head.party == party and signed.head.run == run:
                self.signer.verify(signed.signer, _headed(signed.head), _unhex(signed.signature))
                verify_head(entries, signed.head)


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


def _claimed(party: str, index: int, entry_hash: str, statement: Statement) -> bytes:
    return canonical_bytes(["accord ledger claim", party, index, entry_hash, statement.document()])


def _headed(head: Head) -> bytes:
    return canonical_bytes(["accord ledger head", head.party, head.run, head.length, head.hash])


def _position(chain: Sequence[Entry], key: MessageKey, direction: str) -> int | None:
    fits = (i for i, entry in enumerate(chain) if entry.direction == direction and entry.statement.key == key)
    return next(fits, None)


def _unhex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise CryptoError("a signature is not hexadecimal", expected="128 hex digits") from None
