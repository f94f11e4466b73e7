"""The keys of a party node: Ed25519 signs, X25519 seals for a peer, and for the node itself, and derives pair keys.

Sealing is authenticated: the sender's static key takes part, as in the Auth mode of HPKE (RFC 9180, §5.1.3), so whoever
opens knows which party sealed. Pair keys are static-static: whoever has a node's key file can derive them again, which
is why they protect digests in the ledger and never data.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from base.canonical import digest_bytes
from base.errors import CryptoError, PeerForeign
from crypto.agreement import frame, hkdf, x25519
from crypto.secret import Secret

_NONCE = bytes(12)  # every sealing key is used once: its ephemeral half is fresh
_LARGEST = (1 << 31) - 1 - 16  # bytes that one call of AES-GCM takes
FILES = ("signing.pem", "agreement.pem")


@dataclass(frozen=True)
class NodePublicKeys:
    """What a peer knows of a node: two raw public keys of 32 bytes."""

    signing: bytes
    agreement: bytes

    def __post_init__(self) -> None:
        """Refuse anything but 32 bytes each."""
        if len(self.signing) != 32 or len(self.agreement) != 32:
            raise CryptoError("a node's public keys have another length", expected="32 and 32 bytes")

    @property
    def fingerprint(self) -> str:
        """SHA-256 of both keys, in hex: what two administrators read to each other."""
        return digest_bytes(b"accord node keys 1" + self.signing + self.agreement)

    def verify(self, party: str, data: bytes, signature: bytes) -> None:
        """Raise `PeerForeign`, naming `party`, unless this node signed `data`."""
        try:
            Ed25519PublicKey.from_public_bytes(self.signing).verify(signature, data)
        except (InvalidSignature, ValueError):
            raise PeerForeign(f"a signature of {party} does not verify", expected=f"key {self.fingerprint}") from None

    def to_document(self) -> dict[str, str]:
        """Return the keys as JSON."""
        return {"signing": self.signing.hex(), "agreement": self.agreement.hex()}

    @classmethod
    def from_document(cls, document: dict[str, str]) -> NodePublicKeys:
        """Rebuild the keys from `to_document`; `CryptoError` when they are malformed."""
        try:
            return cls(bytes.fromhex(document["signing"]), bytes.fromhex(document["agreement"]))
        except (KeyError, TypeError, ValueError):
            raise CryptoError("a node's public keys are malformed", expected="signing and agreement in hex") from None


class NodeKeys(Secret):
    """The private keys of one node."""

    def __init__(self, signing: Ed25519PrivateKey, agreement: X25519PrivateKey) -> None:
        """Take both private keys; see `generate` and `load`."""
        self._signing = signing
        self._agreement = agreement
        self.public = NodePublicKeys(signing.public_key().public_bytes_raw(), agreement.public_key().public_bytes_raw())

    @classmethod
    def generate(cls) -> NodeKeys:
        """Return new keys from the operating system's generator."""
        return cls(Ed25519PrivateKey.generate(), X25519PrivateKey.generate())

    def save(self, directory: Path) -> None:
        """Write `signing.pem` and `agreement.pem` (PKCS #8) with mode 0600; an existing file is an error."""
        form = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        for name, pem in zip(
            FILES, (self._signing.private_bytes(*form), self._agreement.private_bytes(*form)), strict=True
        ):
            with os.fdopen(os.open(directory / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(pem)

    @classmethod
    def load(cls, directory: Path) -> NodeKeys:
        """Read what `save` wrote; `CryptoError` when a file is readable by others or holds another kind of key."""
        signing, agreement = (_read(directory / name) for name in FILES)
        if not isinstance(signing, Ed25519PrivateKey) or not isinstance(agreement, X25519PrivateKey):
            raise CryptoError(
                "a key file holds another kind of key", expected="Ed25519 and X25519", where=str(directory)
            )
        return cls(signing, agreement)

    def sign(self, data: bytes) -> bytes:
        """Return the Ed25519 signature (64 bytes)."""
        return self._signing.sign(data)

    def wrap(self, peer: NodePublicKeys, secret: bytes, context: bytes) -> bytes:
        """Seal `secret` for `peer` (AES-256-GCM, 48 bytes longer); `context` must be the same when it is opened."""
        ephemeral = X25519PrivateKey.generate()
        point = ephemeral.public_key().public_bytes_raw()
        shared = x25519(ephemeral, peer.agreement) + x25519(self._agreement, peer.agreement)
        key = _sealing_key(shared, point, self.public.agreement, peer.agreement)
        return point + AESGCM(key).encrypt(_NONCE, secret, context)

    def unwrap(self, peer: NodePublicKeys, sealed: bytes, context: bytes) -> bytes:
        """Open what `peer` sealed for this node; `CryptoError` for another peer, context or a changed byte."""
        point, body = sealed[:32], sealed[32:]
        shared = x25519(self._agreement, point) + x25519(self._agreement, peer.agreement)
        key = _sealing_key(shared, point, peer.agreement, self.public.agreement)
        try:
            return AESGCM(key).decrypt(_NONCE, body, context)
        except (InvalidTag, ValueError):
            raise CryptoError(
                "a sealed secret does not open", expected="sealed by this peer, for this context"
            ) from None

    def seal(self, data: bytes, name: str) -> bytearray:
        """Seal `data` for this node alone (AES-256-GCM, 28 bytes longer); a second copy in memory and no third.

        Every name has its own key (HKDF of the node's secret key) and every call a random nonce, so a name may be
        sealed anew 2^32 times (SP 800-38D, 8.3). ASSUMPTION: whoever can read the node's key file can open it. An older
        seal of the same name opens too: what must not go back needs a count that is written once (components/quota).
        """
        if len(data) > _LARGEST:
            raise CryptoError("data to seal are too large", expected=f"up to {_LARGEST}", found=len(data), where=name)
        nonce, sealed = os.urandom(12), bytearray(len(data) + 28)
        sealed[:12] = nonce
        AESGCM(self._own_key(name)).encrypt_into(nonce, data, name.encode(), memoryview(sealed)[12:])
        return sealed

    def open(self, sealed: bytes, name: str) -> bytes:
        """Open what this node sealed as `name`; `CryptoError` for another node, another name or a changed byte."""
        view = memoryview(sealed)
        try:
            return AESGCM(self._own_key(name)).decrypt(view[:12], view[12:], name.encode())
        except (InvalidTag, ValueError):
            raise CryptoError("a sealed file does not open", expected="sealed by this node, as this name") from None

    def _own_key(self, name: str) -> bytes:
        return hkdf(self._agreement.private_bytes_raw(), frame(b"accord own seal 1", name.encode()))

    def pair_key(self, peer: NodePublicKeys, run: str) -> bytes:
        """Return the 32 bytes that this node and `peer`, and nobody else, derive for `run`: the same at both."""
        both = sorted((self.public.agreement, peer.agreement))
        return hkdf(x25519(self._agreement, peer.agreement), frame(b"accord pair key 1", run.encode(), *both))


def _sealing_key(shared: bytes, point: bytes, sender: bytes, receiver: bytes) -> bytes:
    return hkdf(shared, frame(b"accord seal 1", point, sender, receiver))


def _read(path: Path) -> object:
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        if os.fstat(file.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise CryptoError("a private key file is open to others", where=str(path), remedy=f"chmod 600 {path}")
        return load_pem_private_key(file.read(), password=None)
