"""The fits in the clear, and the integers against floating point."""

import numpy as np
import pytest

from models import vertical as mf
from models import vertical_fixed as fixed

SCALES = fixed.Scales(λ=300.0, s_bits=6, s_range=2.0)


def world(seed, m=200, n=60, k=3, d=12, noise=0.3):
    """Ratings whose user factors are a linear function of features, a third of all pairs observed."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, d))
    V = X @ rng.normal(size=(d, k + 1)) * 0.4 / np.sqrt(d)
    Q = rng.normal(size=(n, k))
    full = 3.5 + V[:, :1] + V[:, 1:] @ Q.T + rng.normal(0, noise, (m, n))
    user, item = np.nonzero(rng.random((m, n)) < 0.33)
    return X, mf.Ratings(user, item, full[user, item], (m, n)), full


def rmse(model, s, ratings):
    return np.sqrt(np.mean((ratings.value - mf.predict(model, s, ratings.user, ratings.item)) ** 2))


def test_user_factors_are_the_ridge_solution_by_hand():
    """One user, one item with q = 2, r - μ - b = 3, λ = 1: (qqᵀ + I) p = 3 q with q' = [1, 2] gives p = q'/2."""
    ratings = mf.Ratings(np.array([0]), np.array([0]), np.array([4.0]), (2, 1))
    start = mf.Factors(1.0, np.zeros(1), np.array([[2.0]]), np.zeros((2, 2)))
    P = mf.user_factors(start, ratings, np.zeros((2, 2)), 1.0).P
    np.testing.assert_allclose(P, [[0.5, 1.0], [0.0, 0.0]])


def test_user_factors_equal_a_dense_solution_around_s():
    _, ratings, _ = world(0)
    s = np.random.default_rng(1).normal(0, 0.1, (200, 4))
    model = mf.user_factors(mf.fit(ratings, 3, mf.Ridge(), 2, np.random.default_rng(2)), ratings, s, 7.0)
    u = 17
    mine = ratings.user == u
    A, y = model.item_rows[ratings.item[mine]], ratings.value[mine] - model.μ - model.b[ratings.item[mine]]
    expected = np.linalg.solve(A.T @ A + 7 * np.eye(4), A.T @ (y - A @ s[u]))
    np.testing.assert_allclose(model.P[u], expected, rtol=1e-9)


def test_fit_does_not_depend_on_the_order_of_the_rows():
    _, r, _ = world(3)
    order = np.random.default_rng(0).permutation(len(r.value))
    shuffled = mf.Ratings(r.user[order], r.item[order], r.value[order], r.shape)
    a, b = (mf.fit(x, 3, mf.Ridge(), 3, np.random.default_rng(1)) for x in (r, shuffled))
    assert a.Q.tobytes() == b.Q.tobytes()
    assert a.P.tobytes() == b.P.tobytes()


def test_fit_beats_the_mean_and_a_person_without_ratings_gets_zeros():
    _, r, _ = world(4)
    known = r.user != 5
    some = mf.Ratings(r.user[known], r.item[known], r.value[known], r.shape)
    model = mf.fit(some, 3, mf.Ridge(1, 1, 1), 10, np.random.default_rng(1))
    assert not model.P[5].any()
    assert rmse(model, np.zeros_like(model.P), some) < 0.6 * some.value.std()


def test_ridge_map_predicts_factors_and_keeps_its_bound():
    X, _, _ = world(5)
    P = np.random.default_rng(0).normal(size=(200, 4))
    G = mf.ridge_map(X, 30.0)
    W = np.linalg.solve(X.T @ X + 30 * np.eye(12), X.T @ P)
    np.testing.assert_allclose(G @ (X.T @ P), X @ W, atol=1e-12)
    assert np.abs(G).max() <= 1 / (2 * np.sqrt(30.0))


def test_calibration_finds_the_two_scalars():
    _, r, _ = world(6)
    model = mf.fit(r, 3, mf.Ridge(), 5, np.random.default_rng(1))
    s = np.random.default_rng(2).normal(size=model.P.shape)
    true = mf.scaled(s, np.array([0.5, -2.0]))
    exact = mf.Ratings(r.user, r.item, mf.predict(model, true, r.user, r.item, own=False), r.shape)
    np.testing.assert_allclose(mf.calibrate(model, exact, s), [0.5, -2.0], rtol=1e-9)


def test_features_explain_a_person_without_ratings():
    X, r, full = world(7)
    cold = np.arange(40)
    warm = ~np.isin(r.user, cold)
    train = mf.Ratings(r.user[warm], r.item[warm], r.value[warm], r.shape)
    alone = mf.fit(train, 3, mf.Ridge(1, 1, 1), 10, np.random.default_rng(1))
    P = mf.user_factors(alone, train, np.zeros_like(alone.P), 1.0).P
    s = mf.ridge_map(X, 10.0) @ (X.T @ P)
    s = mf.scaled(s, mf.calibrate(alone, train, s))
    model = mf.refit(alone, train, s, mf.Ridge(1, 1, 1), 3)
    pairs = np.repeat(cold, 60), np.tile(np.arange(60), 40)
    test = mf.Ratings(*pairs, full[pairs], r.shape)
    assert rmse(model, s, test) < 0.8 * rmse(alone, np.zeros_like(s), test)


def test_pooled_is_the_fit_on_both_halves():
    _, r, _ = world(8)
    left = r.item < 30
    a, b = (mf.Ratings(r.user[x], r.item[x], r.value[x], r.shape) for x in (left, ~left))
    pooled = mf.pooled(a, b, 3, mf.Ridge(), 3, np.random.default_rng(1))
    whole = mf.fit(r, 3, mf.Ridge(), 3, np.random.default_rng(1))
    np.testing.assert_allclose(pooled.Q, whole.Q, atol=1e-9)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_integers_are_within_the_stated_bound_of_floating_point(seed):
    rng = np.random.default_rng(seed)
    X, P = rng.normal(size=(300, 20)), rng.normal(size=(300, 5)) * [1, 0.1, 30, 1e-6, 2]
    X_hat, _ = fixed.round_features(X)
    P_hat, σ, clipped = fixed.round_factors(P)
    noise = fixed.draw_noise(rng, P.shape, SCALES)
    found = fixed.exchange_plain(P_hat, X_hat, fixed.round_map(X_hat, SCALES), noise) / 2.0**SCALES.fraction
    real = X_hat / 2**fixed.X_FRACTION
    exact = mf.ridge_map(real, SCALES.λ) @ (real.T @ (P / σ))
    assert clipped == 0
    bound = fixed.bound(P_hat, X_hat, SCALES)
    assert np.all(np.abs(found - exact).max(axis=0) <= bound)
    assert bound.max() < 1.2 * SCALES.s_range / 2**SCALES.s_bits  # the noise is the bound; the integers add little


def test_clipped_values_are_counted_and_a_constant_column_is_kept():
    P = np.zeros((500, 2))
    P[0, 0] = 1.0  # 22 deviations
    rounded, σ, clipped = fixed.round_factors(P)
    assert (clipped, rounded[0, 0], σ[1]) == (1, 32767, 1.0)
    assert fixed.round_features(np.array([[5.0, -1.0]]))[1] == 1


def test_map_never_leaves_16_bits():
    for λ in (1.0, 3.0, 300.0, 12345.0):
        scales = fixed.Scales(λ, 6, 2.0)
        worst = np.array([[np.sqrt(λ)]])  # G = 1 / (2√λ) exactly
        assert 2**13 < np.rint(np.ldexp(mf.ridge_map(worst, λ), scales.g))[0, 0] <= 2**15 - 1
