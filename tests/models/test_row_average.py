import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from models.row_average import averaged, contribution, from_digits, row_weights, to_digits

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
    return averaged(V, sum(contribution(a, b) for a, b in zip(w, Δ, strict=True)), sum(w))


@given(parties())
def test_a_row_is_the_weighted_mean_of_those_who_trained_it(case):
    V, w, Δ = case
    found = average(V, w, Δ)
    for i in range(len(V)):
        weights = [a[i] for a in w]
        rows = [V[i] + b[i] for b in Δ]
        expected = np.average(rows, axis=0, weights=weights) if sum(weights) else V[i]
        np.testing.assert_allclose(found[i], expected, atol=1e-9)


@given(parties(), FLOATS)
def test_what_all_do_alike_is_what_the_average_does(case, step):
    V, w, _ = case
    found = average(V, w, [np.full_like(V, step) for _ in w])
    trained = sum(w) > 0
    np.testing.assert_allclose(found[trained], V[trained] + step, atol=1e-9)
    np.testing.assert_array_equal(found[~trained], V[~trained])


@given(parties())
def test_a_party_that_withholds_a_row_does_not_touch_it(case):
    V, w, Δ = case
    other = [Δ[0] + 100.0, *Δ[1:]]
    silent = w[0] == 0
    np.testing.assert_array_equal(average(V, w, Δ)[silent], average(V, w, other)[silent])
    assert np.all(contribution(w[0], Δ[0]).reshape(V.shape)[silent] == 0)


@given(parties())
def test_the_order_and_the_scale_of_weights_do_not_matter(case):
    V, w, Δ = case
    found = average(V, w, Δ)
    np.testing.assert_allclose(average(V, w[::-1], Δ[::-1]), found, atol=1e-9)
    np.testing.assert_allclose(average(V, [3 * a for a in w], Δ), found, atol=1e-9)


@given(arrays(np.int64, (3, 5), elements=st.integers(0, 2**26 - 1)))
def test_added_digits_are_the_digits_of_the_sum(w):
    digits = np.array([to_digits(row, 2**13) for row in w])
    assert digits.max() < 2**13
    np.testing.assert_array_equal(from_digits(digits.sum(axis=0), 2**13), w.sum(axis=0))


def test_a_weight_that_two_digits_cannot_hold_is_refused():
    with pytest.raises(ValueError, match="within"):
        to_digits(np.array([2**26]), 2**13)


def test_weights_count_people_and_not_ratings():
    user, item = np.array([0, 0, 1, 2, 2], np.int32), np.array([0, 0, 0, 1, 0], np.int32)
    np.testing.assert_array_equal(row_weights(user, item, 3, 1), [3, 1, 0])
    np.testing.assert_array_equal(row_weights(user, item, 3, 2), [3, 0, 0])
