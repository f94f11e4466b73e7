import dataclasses
import json
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import logsumexp

from base.errors import ConsentError
from crypto.budget import ORDERS, UNIT, Budget, Release, calibrate, epsilon
from crypto.noise import LARGEST_SCALE, clip_rows, share_sigma

DELTA = 1e-6


def gaussian(scale, **fields):
    return Release("gaussian", scale, **{"clip": 100.0, "norm": "l2", "dimension": 10, **fields})


def laplace(scale, **fields):
    return Release("laplace", scale, **{"clip": 100.0, "norm": "l1", "dimension": 10, **fields})


def analytic(x, delta):
    """ε of one Gaussian of Δ/σ = x: Balle and Wang (2018), theorem 8, solved for ε with 30 digits."""

    def excess(ε):
        with mpmath.workdps(30):
            low, high = mpmath.ncdf(x / 2 - ε / x), mpmath.exp(ε) * mpmath.ncdf(-x / 2 - ε / x)
            return float(mpmath.log((low - high) / delta))

    return brentq(excess, 1e-9, x**2 / 2 + 10 * x)


@pytest.mark.parametrize("scale", [30, 100, 300, 1000])
@pytest.mark.parametrize("times", [1, 10, 365])
def test_epsilon_is_the_analytic_gaussian_from_above_and_near_it(scale, times):
    exact = analytic(math.sqrt(times) * 100 / scale, DELTA)
    found = epsilon([gaussian(scale, times=times)], DELTA)
    assert exact <= found <= 1.15 * exact + 0.01


@pytest.mark.parametrize("scale", [30, 100, 1000])
def test_epsilon_is_the_closed_form_of_renyi(scale):
    # The same conversion with 30 digits over a finer grid of orders: the library's own lies at most 1 % above.
    ρ = mpmath.mpf(100) ** 2 / (2 * scale**2)
    with mpmath.workdps(30):
        orders = [1 + mpmath.mpf(10) ** (mpmath.mpf(k) / 500) for k in range(-500, 2500)]
        best = min(ρ * α + mpmath.log((α - 1) / α) - (mpmath.log(DELTA) + mpmath.log(α)) / (α - 1) for α in orders)
    found = epsilon([gaussian(scale)], DELTA)
    assert float(best) * (1 - 1e-9) <= found <= float(best) * 1.01


def exact_divergence(p, shift, order):
    """Rényi divergence of order α between p and p shifted, by summation."""
    a, b = p[shift:], p[: p.size - shift]
    both = (a > 1e-290) & (b > 1e-290)
    return logsumexp(order * np.log(a[both]) + (1 - order) * np.log(b[both])) / (order - 1)


@pytest.mark.parametrize("shares", [1, 2, 3, 6])
@pytest.mark.parametrize("shift", [1, 2, 3])
def test_the_divergence_bounds_that_of_the_exact_sum_of_shares(shares, shift):
    x = np.arange(-40, 41)
    one = np.exp(-(x**2) / 2.0)  # σ = 1: small enough that a sum of discrete Gaussians is visibly not one
    p = np.ones(1)
    for _ in range(shares):
        p = np.convolve(p, one / one.sum())
    bound = gaussian(1, clip=float(shift), dimension=1, shares=shares).divergence()
    for order in (1.5, 2.0, 4.0, 8.0):
        assert exact_divergence(p, shift, order) <= np.interp(order, ORDERS, bound) * (1 + 1e-9)
    assert np.interp(8.0, ORDERS, bound) == pytest.approx(8 * shift**2 / (2 * shares), rel=1e-2)  # nor far above


@pytest.mark.parametrize("scale", [50, 200])
@pytest.mark.parametrize("distance", [1, 60, 100])
def test_the_divergence_bounds_that_of_discrete_laplace(scale, distance):
    p = np.exp(-np.abs(np.arange(-60 * scale, 60 * scale + 1)) / scale)
    bound = laplace(scale).divergence()
    for order in (1.5, 2.0, 8.0):
        assert exact_divergence(p / p.sum(), distance, order) <= np.interp(order, ORDERS, bound)


def test_laplace_is_pure_when_alone_and_better_than_that_when_many():
    assert epsilon([laplace(100)], DELTA) == pytest.approx(1.0, rel=1e-5)
    assert epsilon([laplace(100, times=3)], DELTA) == pytest.approx(3.0, rel=1e-5)
    many = epsilon([laplace(1000, times=400)], DELTA)
    assert many < 40 / 2
    # Bun and Steinke (2016), propositions 1.4 and 1.3: ε₀²/2 each, then ρ + 2·sqrt(ρ·log(1/δ)).
    ρ = 400 * 0.1**2 / 2
    assert many <= ρ + 2 * math.sqrt(ρ * math.log(1 / DELTA))


def test_shares_count_as_their_sum():
    together = epsilon([gaussian(1000)], DELTA)
    share = share_sigma(1000, parties=6, colluders=1)
    assert epsilon([gaussian(share, shares=4)], DELTA) == pytest.approx(together, rel=1e-2)
    assert epsilon([gaussian(share, shares=4)], DELTA) <= together
    # At σ = 1 the sum is not one Gaussian: the distance costs, and more so with more values.
    small = [epsilon([gaussian(1, clip=1.0, shares=4, dimension=d)], DELTA) for d in (1, 1000, 100_000)]
    assert small[0] < small[1] < small[2]
    assert small[2] > 1.1 * epsilon([gaussian(2, clip=1.0)], DELTA)


releases = st.lists(
    st.builds(
        lambda make, scale, **fields: make(scale, **fields),
        st.sampled_from([gaussian, laplace]),
        scale=st.integers(20, 10**5),
        clip=st.floats(1, 500),
        dimension=st.integers(1, 1000),
        times=st.integers(1, 20),
    ),
    max_size=4,
)


@settings(max_examples=40)
@given(releases, releases, st.sampled_from([1e-9, 1e-6, 1e-3]))
def test_composition_grows_and_never_exceeds_the_sum(some, more, delta):
    a, both = epsilon(some, delta), epsilon([*some, *more], delta)
    assert a <= both * (1 + 1e-12)
    assert epsilon([*more, *some], delta) == pytest.approx(both)
    assert both >= epsilon([*some, *more], delta * 2)
    assert both <= sum(r.times * r.clip / r.scale for r in [*some, *more]) or "gaussian" in {
        r.mechanism for r in [*some, *more]
    }


@given(st.integers(20, 10**6), st.floats(1, 1000))
def test_more_noise_or_a_smaller_bound_costs_less(scale, clip):
    cost = epsilon([gaussian(scale, clip=clip)], DELTA)
    assert epsilon([gaussian(2 * scale, clip=clip)], DELTA) <= cost
    assert epsilon([gaussian(scale, clip=clip / 2)], DELTA) <= cost
    assert epsilon([gaussian(scale, clip=clip, times=2)], DELTA) >= cost


def test_n_releases_are_one_release_n_times():
    assert epsilon([gaussian(300)] * 7, DELTA) == pytest.approx(epsilon([gaussian(300, times=7)], DELTA))
    assert epsilon([], DELTA) == 0


@pytest.mark.parametrize("release", [gaussian(1), gaussian(1, times=30), gaussian(1, shares=3), laplace(1, times=30)])
@pytest.mark.parametrize("limit", [0.5, 1.0, 8.0])
def test_calibration_finds_the_smallest_scale(release, limit):
    found = calibrate(release, limit, DELTA)
    assert dataclasses.replace(found, scale=release.scale) == release
    assert epsilon([found], DELTA) <= limit < epsilon([dataclasses.replace(found, scale=found.scale - 1)], DELTA)


def test_calibration_at_hand_worked_values():
    assert calibrate(laplace(1), 0.5, DELTA).scale == 200  # t = Δ/ε
    σ = calibrate(gaussian(1), 1.0, DELTA).scale
    assert 100 / brentq(lambda x: analytic(x, DELTA) - 1, 0.01, 10) <= σ <= 1.1 * 100 * math.sqrt(2 * math.log(1.25e6))


def test_what_no_noise_can_do_is_refused():
    with pytest.raises(ConsentError, match="no scale of noise"):
        calibrate(gaussian(1, clip=float(LARGEST_SCALE)), 0.01, DELTA)


@pytest.mark.parametrize("clip", [None, 0.0, -1.0, math.nan, math.inf])
def test_no_epsilon_without_a_clipping_bound(clip):
    with pytest.raises(ConsentError, match="no ε without a clipping bound") as refusal:
        gaussian(100, clip=clip)
    assert refusal.value.expected
    assert refusal.value.found
    assert refusal.value.remedy


@pytest.mark.parametrize(
    "fields",
    [{"scale": 0}, {"scale": 1.5}, {"dimension": 0}, {"times": 0}, {"times": -1}, {"shares": 0},
     {"scale": True}, {"times": np.int64(1)}, {"mechanism": "none"},
     {"mechanism": "laplace", "norm": "l1", "shares": 2}],
)  # fmt: skip
def test_what_no_theorem_covers_is_refused(fields):
    with pytest.raises(ConsentError, match="cannot be accounted"):
        Release(**{"mechanism": "gaussian", "scale": 10, "clip": 1.0, "norm": "l2", "dimension": 1, **fields})


@pytest.mark.parametrize(
    ("mechanism", "norm"), [("laplace", "l2"), ("gaussian", "l1"), ("laplace", ""), ("laplace", 1)]
)
def test_a_bound_of_another_norm_than_the_noise_needs_is_refused(mechanism, norm):
    with pytest.raises(ConsentError, match="another norm") as refusal:
        Release(mechanism, 10, 1.0, norm, 1)
    assert refusal.value.expected == "l2 for gaussian, l1 for laplace"


def test_rows_clipped_by_the_wrong_norm_spend_more_than_would_be_stated():
    # All of one person's row counts for Laplace noise: with Δ₁ = √d·Δ₂ the pure ε is √d times the stated one.
    X, d = np.ones((1, 400)), 400
    stated = epsilon([laplace(10_000, clip=8.0 * 2**10, dimension=d)], DELTA)
    row = clip_rows(X, 8.0, 10, "l2")[0]
    true = epsilon([laplace(10_000, clip=float(np.abs(row).sum()), dimension=d)], DELTA)
    assert true > 5 * stated
    row = clip_rows(X, 8.0, 10, "l1")[0]
    assert epsilon([laplace(10_000, clip=float(np.abs(row).sum()), dimension=d)], DELTA) <= stated


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-6, math.nan])
def test_a_delta_that_says_nothing_is_refused(delta):
    with pytest.raises(ConsentError):
        epsilon([gaussian(100)], delta)
    with pytest.raises(ConsentError):
        Budget(1.0, delta)


@pytest.mark.parametrize("limit", [0.0, -1.0, math.nan, math.inf])
def test_a_budget_without_limits_is_refused(limit):
    with pytest.raises(ConsentError, match="without limits"):
        Budget(limit, DELTA)


def test_a_budget_is_charged_until_it_refuses_and_a_refusal_costs_nothing():
    budget, night = Budget(2.0, DELTA), gaussian(1000)
    affordable = max(n for n in range(1, 50) if epsilon([gaussian(1000, times=n)], DELTA) <= 2.0)
    assert 1 < affordable < 49
    for _ in range(affordable):
        budget = budget.charge(night)
    assert budget.spent() <= 2.0
    with pytest.raises(ConsentError, match="does not allow a release") as refusal:
        budget.charge(night)
    assert (refusal.value.code, refusal.value.expected) == (20, "ε <= 2 at δ = 1e-06 over all releases")
    assert f"after {affordable} earlier charges" in refusal.value.found
    assert UNIT in str(refusal.value)
    assert budget.charge() == budget


def test_several_releases_are_charged_together_or_not_at_all():
    budget = Budget(1.0, DELTA)
    with pytest.raises(ConsentError):
        budget.charge(gaussian(10_000), laplace(10))
    assert budget.spent() == 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        budget.epsilon = 100.0


def test_a_budget_survives_as_a_document_and_is_checked_again():
    budget = Budget(3.0, DELTA).charge(gaussian(1000, shares=4), laplace(1000, times=3))
    document = json.loads(json.dumps(budget.to_document()))
    assert Budget.from_document(document) == budget
    assert document["unit"] == "one person at one party"
    for releases in ([{**document["releases"][1], "norm": "l2"}], [{**document["releases"][0], "norm": "l1"}]):
        with pytest.raises(ConsentError, match="another norm"):
            Budget.from_document({**document, "releases": releases})
    document["releases"][0]["clip"] = None
    with pytest.raises(ConsentError, match="without a clipping bound"):
        Budget.from_document(document)
