import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from small_histories import as_lists, bank_histories, constrained_least_squares, histories, together

from models import ease


def test_by_hand():
    # two people with both items, one with the first alone, λ = 1: P^-1 = [[4, 2], [2, 3]]
    G = ease.statistics(histories([[0, 1], [1, 0], [0]], 2))
    np.testing.assert_array_equal(G, [[3, 2], [2, 2]])
    B = ease.solve(G, 1.0)
    np.testing.assert_allclose(B, [[0, 0.5], [2 / 3, 0]])  # b = G_ij / (G_ii + λ): the only other item
    np.testing.assert_allclose(
        ease.scores(B, histories([[1], [0, 1]], 2), np.array([1, 0])), [[2 / 3, 0.5], [2 / 3, 0]]
    )


@settings(deadline=None)
@given(bank_histories(), st.floats(0.5, 100))
def test_it_is_the_constrained_least_squares_of_all_people(banks, reg):
    G = sum(ease.statistics(h) for h in banks)
    X = together(banks).matrix().toarray()
    np.testing.assert_allclose(ease.solve(G, reg), constrained_least_squares(X, X, reg), atol=1e-8)


@settings(deadline=None)
@given(bank_histories())
def test_statistics_add_up_bit_by_bit(banks):
    G = sum(ease.statistics(h) for h in banks)
    counted = np.zeros_like(G)
    for history in as_lists(together(banks)):
        for i in history:
            for j in history:
                counted[i, j] += 1
    np.testing.assert_array_equal(G, counted)
    np.testing.assert_array_equal(G, ease.statistics(together(banks)))
    np.testing.assert_array_equal(ease.solve(G, 10), ease.solve(ease.statistics(together(banks)), 10))
