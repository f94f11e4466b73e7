import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from base.errors import DataError
from models.symmetric import enough_ridge, from_upper, ridge_inverse, upper


def test_rows_of_the_triangle_follow_each_other():
    np.testing.assert_array_equal(upper(np.array([[1.0, 2, 3], [2, 4, 5], [3, 5, 6]])), [1, 2, 3, 4, 5, 6])


@given(arrays(float, st.tuples(st.integers(0, 3), st.integers(1, 5)), elements=st.floats(-9, 9)))
def test_packing_is_exact_and_a_packed_sum_is_the_sum(V):
    A = V[:, :, None] * V[:, None, :]  # (n, d, d)
    d = V.shape[1]
    np.testing.assert_array_equal(from_upper(upper(A), d), A)
    assert upper(A).shape == (len(V), d * (d + 1) // 2)
    np.testing.assert_array_equal(from_upper(upper(A).sum(axis=0), d), from_upper(upper(A), d).sum(axis=0))


@pytest.mark.parametrize("size", [1, 5, 7])
def test_another_size_is_refused(size):
    with pytest.raises(DataError, match="another size"):
        from_upper(np.ones(size), 3)


@given(arrays(float, (6, 4), elements=st.floats(-3, 3)), st.floats(0.1, 100))
def test_the_inverse_is_one(X, λ):
    before = X.T @ X
    A = before.copy()
    np.testing.assert_allclose(ridge_inverse(A, λ) @ (before + λ * np.eye(4)), np.eye(4), atol=1e-9)
    np.testing.assert_array_equal(A, before)


def test_a_matrix_with_a_negative_direction_is_refused():
    A = np.array([[1.0, 5], [5, 1]])  # eigenvalues 6 and −4
    with pytest.raises(DataError, match="no minimum"):
        ridge_inverse(A, 3.9)
    assert np.isfinite(ridge_inverse(A, 4.1)).all()


def test_the_ridge_grows_until_no_direction_is_below_half_of_it():
    A = np.array([[1.0, 5], [5, 1]])  # eigenvalues 6 and −4: λ/2 has to be above 4
    assert enough_ridge(A, 0.75) == 12
    assert enough_ridge(A, 7.9) == 15.8
    assert enough_ridge(A, 8.1) == 8.1
    assert enough_ridge(A @ A, 0.5) == 0.5
    with pytest.raises(ValueError, match="NaN"):
        enough_ridge(A * np.nan, 1.0)
