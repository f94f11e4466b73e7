"""HKDF-SHA256 (RFC 5869) and X25519 (RFC 7748): the two primitives under every key that two nodes share."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from base.errors import CryptoError


def hkdf(secret: bytes, info: bytes, *, salt: bytes = b"", length: int = 32) -> bytes:
    """Return `length` bytes derived from `secret`; `info` names the purpose and the parties."""
    return HKDF(SHA256(), length=length, salt=salt or None, info=info).derive(secret)


def frame(*parts: bytes) -> bytes:
    """Return the parts as one byte string that no other parts have: each after its length in 4 bytes."""
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def x25519(private: X25519PrivateKey, public: bytes) -> bytes:
    """Return the shared secret (32 bytes); `CryptoError` for a point of small order, whose secret is all zeros."""
    try:
        return private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise CryptoError("an X25519 public key is not usable", expected="32 bytes, not of small order") from None
