import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from base.errors import DataError
from features.encoders import CLIP, fit_one_hot, fit_ranks, leverage, names, require_leverage, state


@settings(deadline=None)
@given(st.lists(st.integers(-5, 40), min_size=20, max_size=200), st.integers(2, 10))
def test_every_level_is_shared_by_a_group(values: list[int], size: int) -> None:
    x = np.array(values, dtype=float)
    encoder = fit_ranks("age", x, size)
    if encoder is None:
        return
    encoded = encoder.apply(x)
    _, count = np.unique(encoded, return_counts=True)
    assert count.min() >= size
    assert (np.diff(encoded[np.argsort(x, kind="stable")]) >= 0).all()  # rank is kept
    assert np.abs(encoded).max() <= CLIP


def test_levels_are_group_means_in_deviations() -> None:
    x = np.array([1.0, 2, 3, 10, 11, 12])
    encoder = fit_ranks("age", x, 3)
    assert encoder is not None
    assert encoder.uppers == (3.0, 12.0)
    np.testing.assert_allclose(encoder.levels, (-1, 1))
    np.testing.assert_allclose(encoder.apply(np.array([-5.0, 3, 3.5, 99])), (-1, -1, 1, 1))


def test_equal_values_stay_together_and_a_rest_joins_the_last_group() -> None:
    x = np.array([0.0] * 30 + [1.0] * 12 + [2.0] * 3)
    encoder = fit_ranks("share", x, 10)
    assert encoder is not None
    assert encoder.uppers == (0.0, 2.0)


def test_a_column_with_one_level_says_nothing() -> None:
    assert fit_ranks("share", np.zeros(50), 10) is None
    assert fit_ranks("share", np.array([0.0] * 45 + [1.0] * 5), 10) is None
    assert fit_ranks("age", np.arange(5.0), 10) is None


def test_a_missing_number_is_refused_by_name() -> None:
    with pytest.raises(DataError, match="column age"):
        fit_ranks("age", np.array([1.0, np.nan, 2.0]), 1)


def test_rare_categories_are_dropped() -> None:
    values = np.array(["a"] * 10 + ["b"] * 9 + ["c"] * 11 + [None], dtype=object)
    encoder = fit_one_hot("job", values, 10)
    assert encoder.values == ("a", "c")
    assert names(encoder) == ("job=a", "job=c")
    assert state(encoder) == {"encoder": "OneHot", "name": "job", "values": ("a", "c")}
    X = encoder.apply(values)
    assert X.sum(axis=0).tolist() == [10, 11]
    assert not X[10:19].any()
    assert not X[30].any()


def test_leverage_against_the_formula_and_with_columns_that_repeat() -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 5))
    hat = np.einsum("ud,de,ue->u", X, np.linalg.inv(X.T @ X), X)
    assert leverage(X) == pytest.approx(hat.max())
    both = np.column_stack([X, X[:, :2] + X[:, 2:4]])  # collinear: the same space, the same leverage
    assert leverage(both) == pytest.approx(hat.max())


def test_one_person_alone_in_a_column_has_leverage_one_and_is_refused() -> None:
    X = np.zeros((50, 2))
    X[:, 0], X[7, 1] = 1, 1
    assert leverage(X) == pytest.approx(1)
    with pytest.raises(DataError, match="single a person out"):
        require_leverage(X, 0.5, "here")
    assert require_leverage(X[:, :1], 0.5, "here") == pytest.approx(0.02)
