"""phe (python-paillier), value by value: it has no packing. A fixed precision spares it aligning exponents."""

from __future__ import annotations

import random
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from serve import Clock, Operation, check, serve

BITS = 2048
PRECISION = 1e-6
ROWS = 100


class Phe:
    """A key, and rows that are encrypted once and used in every turn."""

    def __init__(self) -> None:
        """Import phe."""
        import phe
        from phe.util import HAVE_GMP

        self.versions = {"phe": version("phe"), "gmpy2": version("gmpy2") if HAVE_GMP else "not used"}
        self._public, self._secret = phe.generate_paillier_keypair(n_length=BITS)
        self._draw = random.Random(1)
        self._kept: list[Any] = []

    def _rows(self, n: int) -> list[Any]:
        while len(self._kept) < n:
            self._kept.append(self._public.encrypt(self._draw.gauss(0, 1), precision=PRECISION))
        return self._kept[:n]

    def _values(self, n: int) -> list[float]:
        return [self._draw.gauss(0, 1) for _ in range(n)]

    def encrypt(self, n: int) -> Mapping[str, Any]:
        """Encrypt n values."""
        plain = self._values(n)
        with Clock() as clock:
            for v in plain:
                self._public.encrypt(v, precision=PRECISION)
        return {"count": n, "cpu": clock.seconds}

    def decrypt(self, n: int) -> Mapping[str, Any]:
        """Decrypt n values."""
        rows = self._rows(n)
        with Clock() as clock:
            for c in rows:
                self._secret.decrypt(c)
        return {"count": n, "cpu": clock.seconds}

    def add(self, n: int) -> Mapping[str, Any]:
        """Add n times."""
        a, b = self._rows(2)
        with Clock() as clock:
            for _ in range(n):
                a + b
        return {"count": n, "cpu": clock.seconds}

    def end_to_end(self, n: int) -> Mapping[str, Any]:
        """Encrypt n values twice, add, decrypt."""
        x, y = self._values(n), self._values(n)
        with Clock() as clock:
            first = [self._public.encrypt(v, precision=PRECISION) for v in x]
            second = [self._public.encrypt(v, precision=PRECISION) for v in y]
            found = [self._secret.decrypt(a + b) for a, b in zip(first, second, strict=True)]
        check(all(abs(f - a - b) < 1e-5 for f, a, b in zip(found, x, y, strict=True)), "sums")
        size = sum((c.ciphertext().bit_length() + 7) // 8 for c in first)
        return {"count": n, "cpu": clock.seconds, "bytes": size / n}

    def matvec(self, m: int, d: int) -> Mapping[str, Any]:
        """Sum rows times 16-bit entries, column by column."""
        rows = self._rows(m)
        X = [[self._draw.randint(-32767, 32767) for _ in range(m)] for _ in range(d)]
        with Clock() as clock:
            for column in X:
                total = rows[0] * column[0]
                for c, x in zip(rows[1:], column[1:], strict=True):
                    total = total + c * x
        return {"count": m * d, "cpu": clock.seconds}

    def one_hot(self, n: int, segments: int) -> Mapping[str, Any]:
        """Add rows into segments."""
        rows = self._rows(ROWS)
        ids = [self._draw.randrange(segments) for _ in range(n)]
        sums: dict[int, Any] = {}
        with Clock() as clock:
            for i, s in enumerate(ids):
                c = rows[i % ROWS]
                sums[s] = sums[s] + c if s in sums else c
        return {"count": n, "cpu": clock.seconds}


def load() -> tuple[Mapping[str, str], Mapping[str, Operation]]:
    """Return versions and operations."""
    peer = Phe()
    operations = (peer.encrypt, peer.decrypt, peer.add, peer.end_to_end, peer.matvec, peer.one_hot)
    return peer.versions, {operation.__name__: operation for operation in operations}


if __name__ == "__main__":
    serve(load)
