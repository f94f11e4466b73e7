import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models import mf
from models.metrics import rmse, root_mean, squared_error

ONE = mf.Ratings(np.array([0], np.int32), np.array([0], np.int32), np.array([5.0]))


def small(seed=0, users=30, items=20, n=300, k=2):
    rng = np.random.default_rng(seed)
    p, q = rng.normal(0, 1, (users, k)), rng.normal(0, 1, (items, k))
    u, i = rng.integers(0, users, n).astype(np.int32), rng.integers(0, items, n).astype(np.int32)
    return mf.Ratings(u, i, 3 + np.einsum("nk,nk->n", p[u], q[i]))


def fresh(seed=0, users=30, items=20, k=2):
    rng = np.random.default_rng(seed)
    Q, P = mf.start_factors(rng, items, k), mf.start_factors(rng, users, k)
    return mf.Factors(3.0, Q, np.zeros(items), P, np.zeros(users))


def test_one_step_by_hand():
    model = mf.Factors(3.0, np.array([[2.0]]), np.array([0.5]), np.array([[0.25]]), np.array([1.0]))
    # r̂ = 3 + 1 + .5 + .25·2 = 5, e = 0: only the regulariser moves, by η·λ = .1·.5
    assert mf.epoch(model, ONE, np.array([0]), 0.1, 0.5) == 0
    np.testing.assert_allclose([model.Q[0, 0], model.b_item[0], model.P[0, 0], model.b_user[0]],
                               [1.9, 0.475, 0.2375, 0.95])  # fmt: skip
    model = mf.Factors(3.0, np.array([[2.0]]), np.array([0.5]), np.array([[0.5]]), np.array([0.0]))
    # r̂ = 3 + .5 + 1 = 4.5, e = .5, η = .1, λ = 0: q += .1·.5·.5, b += .05, p += .1·.5·2
    assert mf.epoch(model, ONE, np.array([0]), 0.1, 0.0) == 0.25
    np.testing.assert_allclose([model.Q[0, 0], model.b_item[0], model.P[0, 0], model.b_user[0]],
                               [2.025, 0.55, 0.6, 0.05])  # fmt: skip


def test_a_batch_adds_the_steps_of_its_ratings():
    data, order = small(), np.arange(300)
    batched, model = fresh(), fresh()
    mf.epoch(batched, data, order, 0.01, 0.1, batch_size=300)
    changes = []
    for n in order:
        one = fresh()
        mf.epoch(one, data, np.array([n]), 0.01, 0.1)
        changes.append((one.Q - model.Q, one.P - model.P, one.b_item, one.b_user))
    ΔQ, ΔP, b_item, b_user = (sum(c) for c in zip(*changes, strict=True))
    np.testing.assert_allclose(batched.Q, model.Q + ΔQ, atol=1e-12)
    np.testing.assert_allclose(batched.P, model.P + ΔP, atol=1e-12)
    np.testing.assert_allclose(batched.b_item, b_item, atol=1e-12)
    np.testing.assert_allclose(batched.b_user, b_user, atol=1e-12)


def test_a_busy_row_does_not_run_away():
    rng = np.random.default_rng(0)
    busy = mf.Ratings(np.zeros(700, np.int32), np.arange(700, dtype=np.int32), rng.integers(1, 6, 700).astype(float))
    model = fresh(users=1, items=700, k=8)
    errors = [mf.epoch(model, busy, np.arange(700), 0.05, 0.1, batch_size=1000) for _ in range(50)]
    assert errors[-1] < errors[0]
    assert np.isfinite(model.Q).all()


def test_the_same_order_gives_the_same_bits_and_it_learns():
    data, models = small(), [fresh(), fresh()]
    for model in models:
        rng = np.random.default_rng(5)
        errors = [mf.epoch(model, data, rng.permutation(300), 0.05, 0.01, batch_size=20) for _ in range(60)]
    np.testing.assert_array_equal(models[0].Q, models[1].Q)
    assert errors[-1] < 0.1 * errors[0]


def test_a_prior_holds_rare_rows_back():
    data = small()
    count = np.bincount(data.item, minlength=20)
    λ = mf.with_prior(0.1, count, 50)
    np.testing.assert_allclose(λ * count, 0.1 * (count + 50))
    free, held = fresh(), fresh()
    for _ in range(30):
        mf.epoch(free, data, np.arange(300), 0.02, 0.1)
        mf.epoch(held, data, np.arange(300), 0.02, 0.1, λ)
    assert np.abs(held.Q).sum() < np.abs(free.Q).sum()


def test_biases_are_the_ridge_means_by_hand():
    # one user, two items rated 5 and 1, μ = 3, ridge 1: b_i = ±2 / (1 + 1) at first, b_u stays 0 by symmetry
    data = mf.Ratings(np.array([0, 0], np.int32), np.array([0, 1], np.int32), np.array([5.0, 1.0]))
    model = mf.fit_biases(data, 3.0, (1, 3), ridge=1.0)
    np.testing.assert_allclose(model.b_item, [1, -1, 0])
    np.testing.assert_allclose(model.b_user, [0])


@given(st.lists(st.tuples(st.integers(0, 4), st.floats(-5, 5)), max_size=30), st.floats(0.1, 20), st.floats(-1, 1))
def test_shrunken_means_lie_between_the_centre_and_the_mean(pairs, ridge, centre):
    rows = np.array([row for row, _ in pairs], np.int32)
    values = np.array([value for _, value in pairs], float)
    found = mf.shrunken_means(rows, values, 5, ridge, centre)
    for row in range(5):
        own = values[rows == row]
        ends = sorted([centre, own.mean() if len(own) else centre])
        assert ends[0] - 1e-9 <= found[row] <= ends[1] + 1e-9


def test_metrics_by_hand():
    assert squared_error(np.array([1.0, 2.0]), np.array([2.0, 4.0])) == 5
    assert root_mean(5, 2) == pytest.approx(2.5**0.5)
    assert rmse(np.array([3.0]), np.array([3.0])) == 0
    with pytest.raises(ValueError, match="no rating"):
        root_mean(0, 0)


def test_an_epoch_over_a_hundred_thousand_ratings_is_quick():
    rng = np.random.default_rng(0)
    n = 100_000
    data = mf.Ratings(
        rng.integers(0, 943, n).astype(np.int32), rng.integers(0, 1682, n).astype(np.int32), rng.random(n)
    )
    model, order = fresh(0, 943, 1682, 16), rng.permutation(n)
    seconds = []
    for _ in range(3):
        start = time.process_time()
        mf.epoch(model, data, order, 0.01, 0.1)
        seconds.append(time.process_time() - start)
    assert min(seconds) < 0.3  # 0.04 on one core of a 2-core machine
