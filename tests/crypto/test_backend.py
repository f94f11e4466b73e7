"""The inner loops against plain `pow`: what an accelerator has to reproduce to the bit."""

from math import prod

import pytest
from gmpy2 import mpz
from hypothesis import given
from hypothesis import strategies as st

from crypto import backend
from crypto.fixed_base import FixedBase

M = mpz(10**40 + 121)  # odd
numbers = st.lists(st.integers(1, int(M) - 1).map(mpz), max_size=12)


@given(numbers)
def test_products_pair_by_pair_and_over_all(xs):
    assert backend.multiply(xs, reversed(xs), M) == [x * y % M for x, y in zip(xs, xs[::-1], strict=True)]
    assert backend.product(xs, M) == prod(map(int, xs)) % int(M)


def test_two_lengths_are_refused():
    with pytest.raises(ValueError, match="shorter"):
        backend.multiply([mpz(1), mpz(2)], [mpz(1)], M)


@given(numbers, st.integers(0, 2**70))
def test_powers_of_one_exponent(xs, e):
    assert backend.powers(xs, mpz(e), M) == [pow(int(x), e, int(M)) for x in xs]


@given(numbers.map(lambda xs: [(x, n) for n, x in enumerate(xs)]), st.lists(st.integers(0, 300), min_size=12))
def test_buckets_are_the_product_of_powers(pairs, digits):
    bases = [x for x, _ in pairs]
    expected = prod(pow(int(x), d, int(M)) for x, d in zip(bases, digits, strict=False)) % int(M)
    assert backend.in_buckets(bases, digits[: len(bases)], M) == expected


@given(st.integers(1, int(M) - 1).map(mpz), st.binary(min_size=1, max_size=4))
def test_a_table_gives_powers(base, exponent):
    table = FixedBase(base, M, 4)
    assert table.power(exponent) == pow(int(base), int.from_bytes(exponent, "little"), int(M))


def test_inverses_come_from_one_inversion():
    xs = [mpz(x) for x in (2, 3, 12345)]
    assert backend.multiply(xs, backend.inverses(xs, M), M) == [1, 1, 1]
    assert backend.inverses([], M) == []
    with pytest.raises(ZeroDivisionError):
        backend.inverses([mpz(2), mpz(3)], mpz(9))
