import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from small_histories import as_lists, bank_histories, histories, together

from models import ials
from models.ials import Loss

LOSSES = st.builds(Loss, st.floats(0.05, 2), st.floats(0.05, 2), st.floats(0, 1))


def loss(lists, P, Q, weights):
    """Return the paper's objective, pair by pair."""
    found = 0.0
    for u, history in enumerate(lists):
        found += weights.reg * (len(history) + weights.α0 * len(Q)) ** weights.ν * P[u] @ P[u]
        for i in range(len(Q)):
            found += (i in history) * (P[u] @ Q[i] - 1) ** 2 + weights.α0 * (P[u] @ Q[i]) ** 2
    for i in range(len(Q)):
        raters = sum(i in history for history in lists)
        found += weights.reg * (raters + weights.α0 * len(P)) ** weights.ν * Q[i] @ Q[i]
    return found


def best_row(V, own, weights):
    """Return the row that minimises the objective with the other side V fixed, by least squares on stacked rows."""
    root = np.sqrt(weights.reg * (len(own) + weights.α0 * len(V)) ** weights.ν)
    left = np.vstack([V[own], np.sqrt(weights.α0) * V, root * np.eye(V.shape[1])])
    return np.linalg.lstsq(left, np.repeat([1.0, 0.0], [len(own), len(left) - len(own)]), rcond=None)[0]


@st.composite
def cases(draw):
    banks = draw(bank_histories())
    assume(sum(h.users for h in banks))
    Q = draw(arrays(float, (banks[0].items, draw(st.integers(1, 3))), elements=st.floats(-1, 1)))
    return banks, Q, draw(LOSSES)


@settings(deadline=None)
@given(cases())
def test_each_step_is_the_least_squares_row_of_the_paper(case):
    banks, Q, weights = case
    everyone, lists = together(banks), as_lists(together(banks))
    P = ials.user_step(everyone, Q, weights)
    np.testing.assert_allclose(P, [best_row(Q, own, weights) for own in lists], atol=1e-7)
    found = ials.solve_items(ials.item_sums(everyone, P), Q.shape[1], weights)
    raters = [[u for u, own in enumerate(lists) if i in own] for i in range(len(Q))]
    np.testing.assert_allclose(found, [best_row(P, own, weights) for own in raters], atol=1e-7)


@settings(deadline=None)
@given(cases())
def test_banks_that_add_their_sums_train_the_pooled_model(case):
    banks, Q, weights = case
    everyone, pooled = together(banks), Q
    for _ in range(3):
        P = [ials.user_step(h, Q, weights) for h in banks]
        sums = sum(ials.item_sums(h, own) for h, own in zip(banks, P, strict=True))
        Q = ials.solve_items(sums, Q.shape[1], weights)
        pooled = ials.solve_items(
            ials.item_sums(everyone, ials.user_step(everyone, pooled, weights)), Q.shape[1], weights
        )
        np.testing.assert_allclose(Q, pooled, atol=1e-8)


@settings(deadline=None)
@given(cases())
def test_no_step_raises_the_loss(case):
    banks, Q, weights = case
    everyone, lists = together(banks), as_lists(together(banks))
    last = np.inf
    for _ in range(3):
        P = ials.user_step(everyone, Q, weights)
        after_users = loss(lists, P, Q, weights)
        Q = ials.solve_items(ials.item_sums(everyone, P), Q.shape[1], weights)
        after_items = loss(lists, P, Q, weights)
        assert after_items <= after_users + 1e-9 <= last + 2e-9
        last = after_items


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(0)
    h = histories([rng.permutation(9)[: n % 9].tolist() for n in range(40)], 9)
    Q = rng.normal(size=(9, 3))
    P = ials.user_step(h, Q, Loss())
    sums = ials.item_sums(h, P)
    found = ials.solve_items(sums, 3, Loss())
    monkeypatch.setattr(ials, "BLOCK", 70)  # seven rows of ten numbers
    np.testing.assert_allclose(ials.user_step(h, Q, Loss()), P, atol=1e-12)
    np.testing.assert_allclose(ials.item_sums(h, P), sums, atol=1e-12)
    np.testing.assert_allclose(ials.solve_items(sums, 3, Loss()), found, atol=1e-12)


def test_sums_by_hand_and_nothing_where_nobody_is():
    h = histories([[0], [0, 1], []], 3)
    P = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    sums = ials.item_sums(h, P)
    np.testing.assert_array_equal(sums[0], [1 + 9, 2 + 12, 4 + 16, 1 + 3, 2 + 4, 2])
    np.testing.assert_array_equal(sums[2], np.zeros(6))
    np.testing.assert_array_equal(sums[3], [1 + 9 + 25, 2 + 12 + 30, 4 + 16 + 36, 9, 12, 3])
    assert not ials.solve_items(sums, 2, Loss())[2].any()
    assert not ials.user_step(h, np.ones((3, 2)), Loss())[2].any()
    np.testing.assert_array_equal(
        ials.scores(np.array([[1.0, 0.0], [1.0, 1.0]]), P, np.array([2, 0])), [[5, 11], [1, 3]]
    )
