"""Big numbers in one buffer: there and back, and only of the declared width."""

import pyarrow as pa
import pytest
from gmpy2 import mpz
from hypothesis import given
from hypothesis import strategies as st

from base.errors import CryptoError
from crypto.residues import Residues


@given(st.lists(st.integers(0, 2**64 - 1), max_size=20))
def test_numbers_come_back_from_their_buffer(numbers):
    made = Residues(8, map(mpz, numbers))
    assert made.data.to_pybytes() == b"".join(x.to_bytes(8, "big") for x in numbers)
    back = Residues.from_arrow(pa.chunked_array([made.to_arrow()]), 8)
    assert list(back) == numbers
    assert len(back) == len(made) == len(numbers)


def test_a_slice_and_several_chunks_are_read_where_they_are():
    column = Residues(2, map(mpz, range(5))).to_arrow()
    assert list(Residues.from_arrow(pa.chunked_array([column.slice(2, 2)]), 2)) == [2, 3]
    assert list(Residues.from_arrow(pa.chunked_array([column, column.slice(4)]), 2)) == [0, 1, 2, 3, 4, 4]
    assert len(Residues.from_arrow(pa.chunked_array([], pa.binary(2)), 2)) == 0


def test_other_columns_are_refused():
    for column in (pa.array([b"abc"], pa.binary(3)), pa.array([b"ab"]), pa.array([None], pa.binary(2))):
        with pytest.raises(CryptoError, match="another width"):
            Residues.from_arrow(pa.chunked_array([column]), 2)
    with pytest.raises(OverflowError):
        _ = Residues(1, [mpz(256)]).data


def test_numbers_are_not_shown():
    assert repr(Residues(2, [mpz(77)])) == "<1 numbers of 16 bits>"
