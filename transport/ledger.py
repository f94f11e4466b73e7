"""The hash-chained ledger at each end (protocols.md §5): which bytes moved, provable to the other end and an auditor.

A sender records a message before the first byte leaves, a receiver before anybody can read it. Each end sends the other
a signed `Claim` ("entry i of my chain, with this hash, holds this statement"), so removing or changing an entry later
contradicts a signature that somebody else keeps. At the end of a run each end signs the other's head, else a cut tail
after the last claim would be invisible. The ledger proves which bytes moved, not that they are what a component says.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from datetime import UTC, datetime

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from base.canonical import canonical_bytes
from base.errors import CryptoError, MessageRefused
from transport.chain import OUT, Entry, Head, SignedHead, chain_start, head_of, verify_chain, verify_head
from transport.ledger_store import LedgerStore
from transport.message import MessageKey, Protection
from transport.signer import Signer
from transport.wire import Claim, Statement

# Uniform for whoever lacks the key, so a plain hash tells nothing; everything else could be guessed from its SHA-256.
_CIPHERTEXTS = {Protection.PAILLIER, Protection.PAILLIER_ANSWER, Protection.WRAPPED, Protection.BLINDED}


class Ledger:
    """One party's ledger: records messages, makes and keeps claims, signs and checks heads."""

    def __init__(self, signer: Signer, store: LedgerStore) -> None:
        """Write with the party's keys into its store."""
        self.signer = signer
        self.store = store
        self._pair_keys: dict[tuple[str, str], bytes] = {}  # by peer and run; a run has thousands of messages

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
        if (peer, key.run) not in self._pair_keys:
            self._pair_keys[peer, key.run] = self.signer.pair_key(peer, key.run)
        return hkdf.derive(self._pair_keys[peer, key.run])

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


def _claimed(party: str, index: int, entry_hash: str, statement: Statement) -> bytes:
    return canonical_bytes(["accord ledger claim", party, index, entry_hash, statement.document()])


def _headed(head: Head) -> bytes:
    return canonical_bytes(["accord ledger head", head.party, head.run, head.length, head.hash])


def _unhex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise CryptoError("a signature is not hexadecimal", expected="128 hex digits") from None
