"""Tags of ids for two parties that trust each other with the key: HMAC-SHA-256 (RFC 2104) under a key of one night.

The key comes from an X25519 agreement of ephemeral keys, which the two nodes sign, and from the context (accord, run,
id rule). So tags do not link across nights, and a node key that leaks later opens no stored night. WHOEVER HOLDS THE
KEY CAN ENUMERATE A SMALL ID SPACE: both parties can test any id against the other's tags. Alignment by `align_rsa`
costs more and does not have this.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from base.errors import StateError
from crypto.agreement import frame, hkdf, x25519
from crypto.secret import Secret


class EphemeralKey(Secret):
    """One side of the agreement; sign `public` with the node key, use once, drop."""

    def __init__(self) -> None:
        """Draw a key from the operating system's generator."""
        self._private = X25519PrivateKey.generate()
        self._used = False
        self.public = self._private.public_key().public_bytes_raw()

    def agree(self, peer: bytes, context: bytes) -> TagKey:
        """Return the key that both sides derive, once; `CryptoError` for a peer's point of small order.

        `StateError` for a second agreement: a key that serves two contexts is a key of more than one night.
        """
        if self._used:
            raise StateError("an ephemeral key was used before", expected="a key of its own for each context")
        self._used = True
        both = sorted((self.public, peer))
        return TagKey(hkdf(x25519(self._private, peer), frame(b"accord keyed hash 1", context, *both)))


class TagKey(Secret):
    """The common key of one context."""

    def __init__(self, key: bytes) -> None:
        """Take 32 bytes from `EphemeralKey.agree`."""
        self._key = key

    def tags(self, ids: Sequence[str]) -> list[bytes]:
        """Return a tag of 32 bytes for each id, in the same order: sort or shuffle before sending."""
        return [hmac.digest(self._key, identifier.encode(), "sha256") for identifier in ids]
