"""One secret scalar times many points of Curve25519.

X25519 of `cryptography` (OpenSSL; RFC 7748, section 5) is constant time in the scalar and clamps it: the result lies in
the subgroup of prime order. It keeps the interpreter's lock, so a large batch is spread over processes.
"""

from __future__ import annotations

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from base.errors import CryptoError
from crypto.parallel import spread

WIDTH = 32  # bytes of a u coordinate, little-endian
_PRODUCTS = 10  # a ladder takes as long as so many products of Paillier's scheme


def as_points(data: bytes) -> np.ndarray:
    """Return n u coordinates (n·32 bytes) as an array (n, 32) uint8 over the same memory, read-only."""
    return np.frombuffer(data, np.uint8).reshape(-1, WIDTH)


def multiply(key: X25519PrivateKey, points: np.ndarray) -> np.ndarray:
    """Return scalar·point for points (n, 32) uint8, in the same order; `CryptoError` for points of small order."""
    found: list[bytes] = spread(_multiply, points, _PRODUCTS * len(points), key.private_bytes_raw())
    return as_points(b"".join(found))


def _multiply(points: np.ndarray, scalar: bytes) -> list[bytes]:
    exchange, load, data = (
        X25519PrivateKey.from_private_bytes(scalar).exchange,
        X25519PublicKey.from_public_bytes,
        points.tobytes(),
    )
    try:
        return [exchange(load(data[i : i + WIDTH])) for i in range(0, len(data), WIDTH)]
    except ValueError:
        raise CryptoError("a multiple of a point is zero", expected="no points of small order") from None
