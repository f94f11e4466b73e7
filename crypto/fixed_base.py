"""Powers of one base, by table: a product of one entry per byte of the exponent, and no squaring.

Brickell, Gordon, McCurley and Wilson (1992), §2, with base 256 and every multiple stored. A table for 1,536-bit
exponents modulo a 6,144-bit number takes 38 MB and about 49,000 multiplications; it pays off after some 25 powers.
"""

from __future__ import annotations

from gmpy2 import mpz

from crypto import backend
from crypto.secret import Secret


class FixedBase(Secret):
    """All base^(d·256^i) mod modulus for bytes d and i < `digits`; secret, since a modulus may be p²."""

    def __init__(self, base: mpz, modulus: mpz, digits: int) -> None:
        """Build the table."""
        self._modulus = modulus
        self._rows: list[list[mpz]] = []
        for _ in range(digits):
            self._rows.append(backend.multiples(base, 256, modulus))
            base = self._rows[-1][-1] * base % modulus

    def power(self, exponent: bytes) -> mpz:
        """Return base^exponent mod modulus; the exponent is little-endian, 1 to `digits` bytes long."""
        return backend.by_digits(self._rows, exponent, self._modulus)
