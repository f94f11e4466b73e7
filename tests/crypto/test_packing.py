import numpy as np
import pytest
from gmpy2 import mpz
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from base.errors import CryptoError
from crypto.packing import LANE_BITS, Lanes


@pytest.mark.parametrize(
    ("lane", "summands", "bits"),
    [(32, 256, 24), (32, 3, 30), (16, 3, 14), (16, 1, 16), (16, 2, 15), (64, 2**38, 26), (96, 2**40, 56), (96, 2, 64)],
)
def test_value_bits_are_the_lane_less_the_logarithm_of_the_summands(lane, summands, bits):
    lanes = Lanes(lane, 0, summands)
    assert lanes.value_bits == bits
    assert lanes.limit * summands < 2 ** (lane - 1)


@pytest.mark.parametrize("layout", [(16, 0, 2**15), (7, 0, 1), (12, 0, 1), (128, 0, 1), (16, -1, 1), (16, 0, 0)])
def test_a_layout_without_room_is_refused(layout):
    with pytest.raises(CryptoError, match="no room"):
        Lanes(*layout)


def test_packing_by_hand():
    # Two lanes of 8 bits: 1 + (-2)·2^8 = -511; one more row holds 3 alone.
    lanes = Lanes(lane=8)
    assert lanes.pack(np.array([1, -2, 3]), columns=2) == [-511, 3]
    assert lanes.unpack([-511, 3], columns=2).tolist() == [[1, -2], [3, 0]]
    assert lanes.offset(2) == 0x8080


@st.composite
def layouts_and_fields(draw):
    lane = draw(st.sampled_from(LANE_BITS))
    lanes = Lanes(lane)
    q = draw(hnp.arrays(np.int64, st.integers(1, 40), elements=st.integers(-lanes.limit, lanes.limit)))
    return lanes, q, draw(st.integers(1, 20))


@given(layouts_and_fields())
def test_unpacking_undoes_packing_and_packing_is_the_signed_sum(case):
    lanes, q, columns = case
    packed = lanes.pack(q, columns)
    assert len(packed) == -(-q.size // columns)
    back = lanes.unpack(packed, columns).ravel()
    assert (back[: q.size] == q).all()
    assert not back[q.size :].any()
    for i, m in enumerate(packed):
        row = q[i * columns : (i + 1) * columns]
        assert m == sum(int(x) << (lanes.lane * j) for j, x in enumerate(row))


@given(
    hnp.arrays(np.float64, 5, elements=st.floats(-100, 100)),
    st.integers(0, 12),
)
def test_quantisation_is_within_half_a_step(values, fraction):
    q = Lanes(32, fraction).quantise(values)
    assert np.abs(q / 2.0**fraction - values).max() <= 0.5 / 2**fraction


def test_the_limits_fit_and_one_more_does_not():
    for lanes in (Lanes(16, 0, 3), Lanes(64), Lanes(8, 0, 2)):
        top = np.array([lanes.limit, -lanes.limit])
        assert (lanes.quantise(top) == top).all()
        with pytest.raises(CryptoError, match="gradient do not fit") as refusal:
            lanes.quantise(np.array([float(lanes.limit) + 1, 0]), "gradient")
        assert "1 of 2 values" in str(refusal.value)
    with pytest.raises(CryptoError):
        Lanes(64).quantise(np.array([np.iinfo(np.int64).min]))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_are_refused_by_name_and_never_clipped(bad):
    for refuse in (Lanes().quantise, Lanes().clip):
        with pytest.raises(CryptoError, match="item_bias has NaN or infinity"):
            refuse(np.array([0.0, bad]), "item_bias")


def test_clipping_counts_what_it_changes():
    lanes = Lanes(8, 2, 1)  # |q| <= 127, so |v| <= 31.75
    clipped, saturated = lanes.clip(np.array([31.75, 32.0, -1e9, 0.5]))
    assert clipped.tolist() == [31.75, 31.75, -31.75, 0.5]
    assert saturated == 2
    assert lanes.quantise(clipped).tolist() == [127, 127, -127, 2]


@pytest.mark.parametrize("residue", [1 << 16, -(1 << 16), 0x8000, -0x8081])
def test_bits_outside_the_lanes_are_refused(residue):
    with pytest.raises(CryptoError, match="outside the lanes"):
        Lanes(8).unpack([residue], columns=2)


@given(st.lists(st.integers(-(2**95) + 1, 2**95 - 1), min_size=1, max_size=6))
def test_lanes_of_96_bits_come_back_as_the_nearest_floats(values):
    packed = sum(x << (96 * j) for j, x in enumerate(values))
    found = Lanes(96).unpack([mpz(packed)], len(values))[0]
    assert found.dtype == np.float64
    for x, y in zip(values, found, strict=True):
        assert abs(int(y) - x) <= abs(x) >> 52  # and exact below 2^52


def test_the_widest_values_are_clipped_to_what_fits():
    for lanes in (Lanes(64), Lanes(96), Lanes(64, 3)):
        clipped, saturated = lanes.clip(np.array([1e30, -1e30, 0.0]))
        assert saturated == 2
        assert abs(int(lanes.quantise(clipped)[0])) <= lanes.limit
    integers = np.array([2**53 + 1, -(2**53) - 1])
    assert Lanes(64).clip(integers)[0].tolist() == integers.tolist()
    assert Lanes(64).quantise(integers).tolist() == integers.tolist()
    with pytest.raises(CryptoError, match="do not fit"):
        Lanes(64, 3).quantise(integers)  # a float64 would change them
    with pytest.raises(CryptoError, match="complex128"):
        Lanes(32).quantise(np.array([1j]))
