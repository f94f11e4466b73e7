"""The map from attributes to rows: exact where rows follow attributes, and the weighted mean where there are none."""

import numpy as np

from models.attribute_map import mapped_rows, standardised


def test_rows_that_follow_their_attributes_are_found_for_items_without_weight():
    rng = np.random.default_rng(1)
    a = rng.normal(size=(50, 3))
    M = rng.normal(size=(4, 2))
    V = np.column_stack([np.ones(50), a]) @ M
    w = np.where(np.arange(50) < 40, rng.integers(1, 9, 50), 0)
    trained = np.where(w[:, None] > 0, V, 0.0)
    np.testing.assert_allclose(mapped_rows(trained, w, a, 1e-9), V, atol=1e-8)


def test_without_attributes_it_is_the_weighted_mean_pulled_to_zero():
    V, w = np.array([[1.0], [4.0], [0.0]]), np.array([1, 2, 0])
    np.testing.assert_allclose(mapped_rows(V, w, np.zeros((3, 0)), 1.0), np.full((3, 1), 9 / 4))


def test_where_nothing_was_trained_all_rows_are_zero():
    assert not mapped_rows(np.zeros((3, 2)), np.zeros(3, int), np.ones((3, 1)), 1.0).any()


def test_columns_get_mean_0_and_deviation_1_and_gaps_the_mean():
    found = standardised(np.array([[1.0, 7.0], [3.0, 7.0], [np.nan, 7.0]]))
    np.testing.assert_allclose(found, [[-1, 0], [1, 0], [0, 0]])
    assert standardised(np.zeros((3, 0))).shape == (3, 0)
