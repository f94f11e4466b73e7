"""The inner loops on big numbers, in one place: a compiled accelerator replaces this module and nothing above it.

All numbers are in [0, m). `powers` releases Python's lock, so threads help there; the products do not, so they are
spread over processes (`crypto.parallel`). Not constant time in anything: whoever passes a secret blinds it first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import gmpy2
from gmpy2 import mpz


def multiply(xs: Iterable[mpz], ys: Iterable[mpz], m: mpz) -> list[mpz]:
    """Return x·y mod m, pair by pair; ValueError for two lengths."""
    return [x * y % m for x, y in zip(xs, ys, strict=True)]


def product(xs: Iterable[mpz], m: mpz) -> mpz:
    """Return Π x mod m, 1 for none."""
    found = mpz(1)
    for x in xs:
        found = found * x % m
    return found


def powers(bases: Sequence[mpz], exponent: mpz, m: mpz) -> list[mpz]:
    """Return x^exponent mod m for each base."""
    return list(gmpy2.powmod_base_list(list(bases), exponent, m))


def inverses(xs: Sequence[mpz], m: mpz) -> list[mpz]:
    """Return 1/x mod m for each x with one inversion (Montgomery 1987, §10.3.1); ZeroDivisionError for a non-unit."""
    prefix = [mpz(1)]
    for x in xs:
        prefix.append(prefix[-1] * x % m)
    inverse, found = gmpy2.invert(prefix[-1], m), []
    for x, before in zip(reversed(xs), reversed(prefix[:-1]), strict=True):
        found.append(inverse * before % m)
        inverse = inverse * x % m
    return found[::-1]


def multiples(base: mpz, count: int, m: mpz) -> list[mpz]:
    """Return base^0, base^1, ... base^(count−1) mod m."""
    row = [mpz(1)]
    for _ in range(count - 1):
        row.append(row[-1] * base % m)
    return row


def by_digits(rows: Sequence[Sequence[mpz]], digits: bytes, m: mpz) -> mpz:
    """Return Π_i rows[i][digits[i]] mod m over the digits that there are: a power by its table."""
    found = rows[0][digits[0]]
    for row, digit in zip(rows[1 : len(digits)], digits[1:], strict=True):
        found = found * row[digit] % m
    return found


def in_buckets(bases: Sequence[mpz], digits: Sequence[int], m: mpz) -> mpz:
    """Return Π base^digit mod m for digits >= 0: bases of one digit first, then a running product over the digits.

    Pippenger (1976); Bernstein, Doumen, Lange and Oosterwijk (2012), "Faster batch forgery identification", §4. For
    digits up to B it costs one product for each base and 2·B, whatever the digits are.
    """
    buckets: dict[int, mpz] = {}
    for base, digit in zip(bases, digits, strict=True):
        buckets[digit] = buckets[digit] * base % m if digit in buckets else base
    run = power = mpz(1)
    for digit in range(max(buckets, default=0), 0, -1):
        if digit in buckets:
            run = run * buckets[digit] % m
        power = power * run % m
    return power
