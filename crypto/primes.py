"""Primes whose predecessor is known in factors: p = 2·t·s + 1, so p ≡ 3 (mod 4) and generators can be told apart.

Damgård, Jurik and Nielsen (2010), §4.1, ask for p ≡ q ≡ 3 (mod 4) and gcd(p − 1, q − 1) = 2. Knowing s and t lets the
key's owner find a generator of Z_p*, so that its own fixed-base encryption is uniform without an assumption.
"""

from __future__ import annotations

import secrets

import gmpy2
from gmpy2 import mpz

COFACTOR_BITS = 256
COFACTOR_BYTES = 33  # s is below 2^257
SMALL_PRIMES = gmpy2.primorial(65537)  # the product of all primes up to 65537
_ROUNDS = 40  # Miller-Rabin rounds after Baillie-PSW


def is_prime(x: mpz) -> bool:
    """Tell whether x is prime (error below 2^-80)."""
    return bool(gmpy2.is_prime(x, _ROUNDS))


def generate_prime(bits: int) -> tuple[mpz, mpz]:
    """Return (p, s): p of `bits` bits, the top two set, with p = 2·t·s + 1 and t, s prime."""
    t = _random_prime(bits - COFACTOR_BITS - 1)
    low, high = (mpz(3) << (bits - 2)) // (2 * t) + 1, (mpz(1) << bits) // (2 * t)
    while True:
        s = gmpy2.next_prime(low + secrets.randbelow(int(high - low)))
        p = 2 * t * s + 1
        if s < high and is_prime(p):
            return p, s


def known_factors(p: mpz, s: mpz) -> bool:
    """Tell whether p = 2·t·s + 1 with different odd primes t and s."""
    if s < 3 or (p - 1) % (2 * s):
        return False
    t = (p - 1) // (2 * s)
    return t != s and t > 2 and is_prime(s) and is_prime(t)


def find_generator(p: mpz, s: mpz) -> mpz:
    """Return a random generator of Z_p* for p = 2·t·s + 1."""
    t = (p - 1) // (2 * s)
    while True:
        g = random_unit(p)
        if all(gmpy2.powmod(g, (p - 1) // factor, p) != 1 for factor in (2, s, t)):
            return g


def random_unit(n: mpz) -> mpz:
    """Return a uniform element of Z_n*."""
    while True:
        x = mpz(1 + secrets.randbelow(int(n - 1)))
        if gmpy2.gcd(x, n) == 1:
            return x


def _random_prime(bits: int) -> mpz:
    while True:
        x = mpz(secrets.randbits(bits) | 1 | 1 << (bits - 1))
        if is_prime(x):
            return x
