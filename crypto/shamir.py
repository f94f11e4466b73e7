"""Secret sharing: any t of n shares give the secret, t − 1 say nothing about it.

Shamir, "How to share a secret", CACM 22(11), 1979. The secret is f(0) of a random polynomial f of degree t − 1 over a
prime field, a share is (x, f(x)) with x ≠ 0. Perfect against t − 1 holders: no assumption but the random generator's.
Who deals is trusted; who returns a share is not, once more than t come back: then all must lie on one polynomial. With
exactly t a false share gives a false secret, which the caller notices (a public key that does not fit, masks that do
not cancel).

    p  2^256 + 297, the least prime above 2^256: every seed of 32 bytes is an element, and a share is one byte longer
       (2^521 − 1 would double it)
    t  threshold; any t shares reconstruct
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from base.errors import CryptoError
from crypto.secret import Secret

P = 2**256 + 297
SEED_BYTES = 32
SHARE_BYTES = 1 + 33


@dataclass(frozen=True, repr=False)
class Share(Secret):
    """One point of the polynomial: x in 1..255, y in 0..p−1."""

    x: int
    y: int

    def __post_init__(self) -> None:
        """Refuse x = 0, where the secret stands, and what is no element of the field."""
        if not (0 < self.x < 256 and 0 <= self.y < P):
            raise CryptoError("a share is not a point of its field", expected="x in 1..255, y below p")

    def to_bytes(self) -> bytes:
        """Return 34 bytes: x, then y, big-endian."""
        return bytes([self.x]) + self.y.to_bytes(SHARE_BYTES - 1, "big")

    @classmethod
    def from_bytes(cls, data: bytes) -> Share:
        """Read what `to_bytes` wrote; `CryptoError` for another length or a number outside the field."""
        if len(data) != SHARE_BYTES:
            raise CryptoError("a share has another length", expected=f"{SHARE_BYTES} bytes", found=len(data))
        return cls(data[0], int.from_bytes(data[1:], "big"))


def share(secret: bytes, n: int, t: int) -> list[Share]:
    """Return the shares at x = 1..n of a secret of 32 bytes."""
    if len(secret) != SEED_BYTES or not 1 < t <= n < 256:
        raise CryptoError("a secret cannot be shared so", expected="32 bytes, 1 < t <= n < 256", found=f"{t} of {n}")
    f = polynomial(int.from_bytes(secret, "big"), t)
    return [Share(x, evaluate(f, x)) for x in range(1, n + 1)]


def reconstruct(shares: Sequence[Share], t: int) -> bytes:
    """Return the secret; `CryptoError` for fewer than t shares, an x twice, or shares that are not of one secret."""
    if len(shares) < t or len({s.x for s in shares}) != len(shares):
        raise CryptoError("a secret needs more shares", expected=f"{t} with different x", found=len(shares))
    first = shares[:t]
    secret = interpolate(first, 0)
    if secret >= 1 << 256 or any(interpolate(first, s.x) != s.y for s in shares[t:]):
        raise CryptoError(
            "shares are not of one secret", expected=f"all on one polynomial of degree {t - 1}",
            remedy="a holder returned another share than it was given",
        )  # fmt: skip
    return secret.to_bytes(SEED_BYTES, "big")


def polynomial(secret: int, t: int, p: int = P) -> list[int]:
    """Return f, lowest coefficient first: the secret, then t − 1 uniform in 0..p−1."""
    return [secret, *(secrets.randbelow(p) for _ in range(t - 1))]


def evaluate(f: Sequence[int], x: int, p: int = P) -> int:
    """Return f(x) mod p by Horner's rule."""
    y = 0
    for coefficient in reversed(f):
        y = (y * x + coefficient) % p
    return y


def interpolate(shares: Sequence[Share], at: int, p: int = P) -> int:
    """Return f(at) of the polynomial of degree len(shares) − 1 through all shares (Lagrange)."""
    weights = _weights(tuple(one.x for one in shares), at, p)
    return sum(one.y * weight for one, weight in zip(shares, weights, strict=True)) % p


@lru_cache(maxsize=256)  # the secrets of a round are rebuilt from the same holders; their places are public
def _weights(xs: tuple[int, ...], at: int, p: int) -> tuple[int, ...]:
    """Return Π_{j≠i} (at − x_j) / (x_i − x_j) for each i."""
    found = []
    for i, x in enumerate(xs):
        others = xs[:i] + xs[i + 1 :]
        numerator, denominator = prod(at - other for other in others) % p, prod(x - other for other in others) % p
        found.append(numerator * pow(denominator, -1, p) % p)
    return tuple(found)
