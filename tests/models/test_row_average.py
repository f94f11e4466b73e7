"""Row-wise averages in few bits: the mean of the parties that trained a row, whatever the scale."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from models.row_average import exponent_for, from_digits, portions, row_weights, to_digits, to_fixed


def test_a_weight_counts_people_and_is_0_below_the_least():
    user = np.array([0, 0, 1, 2, 0, 1], np.int32)
    item = np.array([0, 0, 0, 0, 1, 1], np.int32)  # user 0 rated item 0 twice
    np.testing.assert_array_equal(row_weights(user, item, 3, min_raters=3), [3, 0, 0])
    np.testing.assert_array_equal(row_weights(user, item, 3, min_raters=2), [3, 2, 0])


FLOATS = st.floats(-3, 3)


@st.composite
def parties(draw):
    """Start V (rows, 3), and for two to four parties a weight for each row (0 withholds it) and a change."""
    rows, count = draw(st.integers(1, 6)), draw(st.integers(2, 4))
    V = draw(arrays(float, (rows, 3), elements=FLOATS))
    w = [draw(arrays(np.int64, rows, elements=st.sampled_from([0, 10, 37, 250]))) for _ in range(count)]
    Δ = [draw(arrays(float, (rows, 3), elements=FLOATS)) for _ in range(count)]
    return V, w, Δ


def average(V, w, Δ):
    return V + sum(portions(a, sum(w))[:, None] * b for a, b in zip(w, Δ, strict=True))


@given(parties())
def test_a_row_is_the_weighted_mean_of_those_who_trained_it(case):
    V, w, Δ = case
    found = average(V, w, Δ)
    for i in range(len(V)):
        weights = [a[i] for a in w]
        rows = [V[i] + b[i] for b in Δ]
        expected = np.average(rows, axis=0, weights=weights) if sum(weights) else V[i]
        np.testing.assert_allclose(found[i], expected, atol=1e-9)


@given(parties())
def test_a_party_that_withholds_a_row_does_not_touch_it(case):
    V, w, Δ = case
    silent = w[0] == 0
    np.testing.assert_array_equal(average(V, w, Δ)[silent], average(V, w, [Δ[0] + 100.0, *Δ[1:]])[silent])


@given(parties())
def test_the_order_and_the_scale_of_weights_do_not_matter(case):
    V, w, Δ = case
    found = average(V, w, Δ)
    np.testing.assert_allclose(average(V, w[::-1], Δ[::-1]), found, atol=1e-9)
    np.testing.assert_allclose(average(V, [3 * a for a in w], Δ), found, atol=1e-9)


def test_a_row_that_nobody_trains_has_no_part():
    np.testing.assert_array_equal(portions(np.array([0, 3]), np.array([0, 4])), [0, 0.75])


@given(st.integers(0, 128**3 - 1), st.integers(0, 128**3 - 1))
def test_digits_add_like_the_numbers(a, b):
    assert from_digits(to_digits(a, 128, 3) + to_digits(b, 128, 3), 128) == a + b


def test_a_number_beyond_its_digits_is_refused():
    for value in (128**2, -1):
        with pytest.raises(ValueError, match="not within"):
            to_digits(value, 128, 2)


@given(st.floats(1e-6, 1e3), st.sampled_from([63, 127, 8191]))
def test_a_scale_has_room_for_four_times_the_largest_step(largest, limit):
    exponent = exponent_for(np.array([largest, -largest / 2]), limit)
    assert 4 * largest * 2.0**exponent <= limit < 8 * largest * 2.0 ** (exponent + 1) or exponent in (-20, 40)
    _, clipped = to_fixed(np.array([4 * largest]), exponent, limit)
    assert clipped == 0


def test_values_beyond_the_lanes_are_clipped_and_counted():
    q, clipped = to_fixed(np.array([1.0, 100.0, -100.0]), 3, 127)
    assert (q.tolist(), clipped) == ([8, 127, -127], 2)


def test_rounding_at_random_keeps_the_mean():
    q, _ = to_fixed(np.full(40_000, 0.3), 0, 127, np.random.default_rng(1))
    assert set(q) == {0, 1}
    assert abs(q.mean() - 0.3) < 0.01  # four deviations
