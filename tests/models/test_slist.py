import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_histories import as_lists, bank_histories, constrained_least_squares, histories, together

from models import slist
from models.slist import Decays

DECAYS = st.builds(Decays, st.floats(0.3, 20), st.floats(0.3, 20))


def splits(lists, items, decays):
    """Return S and T with a row for each split, as the paper has them."""
    S, T = [np.zeros((0, items))], [np.zeros((0, items))]
    for history in lists:
        for τ in range(1, len(history)):
            s, t = np.zeros((1, items)), np.zeros((1, items))
            for place, item in enumerate(history, 1):
                if place <= τ:
                    s[0, item] = math.exp(-(τ - place) / decays.past)
                else:
                    t[0, item] = math.exp(-(place - τ - 1) / decays.future)
            S, T = [*S, s], [*T, t]
    return np.concatenate(S), np.concatenate(T)


def test_by_hand():
    _, SS, ST = slist.statistics(histories([[0, 1, 2]], 3), Decays(5, 3))
    a, b = math.exp(-1 / 5), math.exp(-1 / 3)
    np.testing.assert_allclose(SS, [[1 + a * a, a, 0], [a, 1, 0], [0, 0, 0]])
    np.testing.assert_allclose(ST, [[0, 1, a + b], [0, 0, 1], [0, 0, 0]])


@settings(deadline=None)
@given(bank_histories(), DECAYS)
def test_statistics_are_the_sums_over_all_splits_of_all_people(banks, decays):
    found = [sum(parts) for parts in zip(*(slist.statistics(h, decays) for h in banks), strict=True)]
    everyone = together(banks)
    S, T = splits(as_lists(everyone), everyone.items, decays)
    X = everyone.matrix().toarray()
    np.testing.assert_array_equal(found[0], X.T @ X)
    np.testing.assert_allclose(found[1], S.T @ S, atol=1e-9)
    np.testing.assert_allclose(found[2], S.T @ T, atol=1e-9)


@settings(deadline=None)
@given(bank_histories(), DECAYS, st.floats(0.5, 100), st.floats(0.05, 0.95))
def test_it_is_the_constrained_least_squares_of_all_people(banks, decays, reg, α):
    G, SS, ST = (sum(parts) for parts in zip(*(slist.statistics(h, decays) for h in banks), strict=True))
    everyone = together(banks)
    S, T = splits(as_lists(everyone), everyone.items, decays)
    X = everyone.matrix().toarray()
    weight = np.repeat([α, 1 - α], [len(X), len(S)])
    expected = constrained_least_squares(np.vstack([X, S]), np.vstack([X, T]), reg, weight)
    np.testing.assert_allclose(slist.solve(G, SS, ST, reg, α), expected, atol=1e-7)


@pytest.mark.parametrize("decays", [Decays(5, 3), Decays(2, 6), Decays(4, 4)])
def test_what_is_out_of_reach_weighs_nothing(decays):
    history = np.random.default_rng(0).permutation(300).tolist()
    _, SS, ST = slist.statistics(histories([history], 300), decays)
    S, T = splits([history], 300, decays)
    np.testing.assert_allclose(SS, S.T @ S, atol=1e-8)
    np.testing.assert_allclose(ST, S.T @ T, atol=1e-8)


def test_newer_items_count_more_in_a_score():
    B = np.eye(3)
    found = slist.scores(B, histories([[1], [2, 0, 1]], 3), np.array([1, 0]), 8.0)
    np.testing.assert_allclose(found, [[math.exp(-1 / 8), 1, math.exp(-2 / 8)], [0, 1, 0]])


@given(bank_histories(max_banks=1))
def test_orders_count_people(banks):
    (h,) = banks
    expected = np.zeros((h.items, h.items))
    for items in as_lists(h):
        for p, i in enumerate(items):
            for j in items[p + 1 :]:
                expected[i, j] += 1
    np.testing.assert_array_equal(slist.orders(h, slist.Decays()), expected)
