"""One prime's half of a Paillier secret key: everything modulo p², joined with the other half by CRT."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from functools import cached_property

import gmpy2
from gmpy2 import mpz

from crypto import backend
from crypto.fixed_base import FixedBase
from crypto.primes import find_generator, random_unit
from crypto.secret import Secret


class Half(Secret):
    """p, and how to encrypt and decrypt modulo p²; n = p·q."""

    def __init__(self, p: mpz, q: mpz, cofactor: mpz) -> None:
        """Take this half's prime, the other one, and this prime's cofactor (0 when p − 1 is not known in factors)."""
        self.p, self.cofactor = p, cofactor
        self.pp = p * p
        self._q = q
        self._blind = mpz(0)

    def blinder(self) -> mpz:
        """Return a uniform n-th residue modulo p²: an element of the subgroup of order p − 1."""
        if not self.cofactor:
            return gmpy2.powmod(random_unit(self.p), self.p, self.pp)
        exponent = secrets.randbelow(int(self.p - 1))
        return self._table.power(exponent.to_bytes(self._digits, "little"))

    def decrypt(self, ciphertexts: Sequence[mpz]) -> list[mpz]:
        """Return the plaintexts modulo p.

        A peer chooses the ciphertexts, and powmod's time depends on base and exponent: so the base is multiplied by an
        n-th residue, squared from one ciphertext to the next, and the exponent is (p − 1)·k for a k new in each call.
        """
        p, pp = self.p, self.pp
        k = mpz(secrets.randbits(64) | 1)
        bases = backend.multiply(ciphertexts, (self._next_blind() for _ in ciphertexts), pp)
        powers = backend.powers(bases, (p - 1) * k, pp)
        # (1 + n)^((p−1)k) = 1 + (p−1)·k·n, and L of it is −k·q modulo p.
        scale = gmpy2.invert(-k * self._q, p)
        return [(x - 1) // p * scale % p for x in powers]

    def _next_blind(self) -> mpz:
        # Kocher (1996), §10: a random element once, squared for each later use.
        self._blind = self._blind**2 % self.pp if self._blind else gmpy2.powmod(random_unit(self.p), self.p, self.pp)
        return self._blind

    @property
    def _digits(self) -> int:
        return (int(self.p.bit_length()) + 7) // 8

    @cached_property
    def _table(self) -> FixedBase:
        g = gmpy2.powmod(find_generator(self.p, self.cofactor), self.p, self.pp)
        return FixedBase(g, self.pp, self._digits)
