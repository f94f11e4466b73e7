"""A matrix of low rank is found again in noise that hides its entries; noise alone is nothing."""

import numpy as np
import pytest

from models.spectral import without_noise, without_noise_of_any

N, σ = 120, 3.0


def symmetric_noise(rng):
    noise = np.triu(rng.normal(0, σ, (N, N)))
    return noise + np.triu(noise, 1).T


@pytest.mark.parametrize("symmetric", [True, False])
def test_what_is_there_is_found_and_closer_than_by_any_threshold_on_entries(symmetric):
    rng = np.random.default_rng(1)
    U = rng.normal(0, 1.5, (N, 3))
    X = U @ U.T if symmetric else U @ rng.normal(0, 1.5, (3, N))
    A = X + (symmetric_noise(rng) if symmetric else rng.normal(0, σ, (N, N)))
    found = (without_noise if symmetric else without_noise_of_any)(A, σ)
    error = np.linalg.norm(found - X)
    assert error < 0.35 * np.linalg.norm(A - X)
    assert error < 0.5 * min(np.linalg.norm(np.where(np.abs(A) >= k * σ, A, 0) - X) for k in (0, 1, 2, 3, 4))


def test_noise_alone_is_nothing_and_a_result_has_no_direction_below_zero():
    rng = np.random.default_rng(2)
    noise = symmetric_noise(rng)
    assert not without_noise(noise, 1.1 * σ).any()
    assert not without_noise_of_any(rng.normal(0, σ, (N, N)), 1.1 * σ).any()
    found = without_noise(noise + 60 * np.ones((N, N)), σ)
    assert np.linalg.eigvalsh(found).min() > -1e-9


def test_without_noise_nothing_changes():
    A = np.diag([3.0, 1.0, 0.0])
    np.testing.assert_array_equal(without_noise(A, 0.0), A)
    np.testing.assert_allclose(without_noise_of_any(A, 0.0), A, atol=1e-12)
