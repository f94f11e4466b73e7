import copy
import math
import pickle
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import chi2

from base.errors import CryptoError
from crypto.noise import (
    LARGEST_BOUND,
    LARGEST_SCALE,
    Stream,
    clip_rows,
    discrete_gaussian,
    discrete_laplace,
    honest_shares,
    share_sigma,
)

KEY = bytes(range(32))  # a fixed key: the statistics below are the same in every run
N = 200_000


def gaussian_weight(x, scale):
    return mpmath.exp(-(mpmath.mpf(x) ** 2) / (2 * scale**2))


def laplace_weight(x, scale):
    return mpmath.exp(-mpmath.mpf(abs(x)) / scale)


SAMPLERS = [(discrete_gaussian, gaussian_weight), (discrete_laplace, laplace_weight)]


def exact(weight, scale, reach):
    """The exact probabilities of −reach..reach, normalised over far more than that, 50 digits."""
    with mpmath.workdps(50):
        weights = [weight(x, scale) for x in range(130 * scale + 1)]
        total = 2 * mpmath.fsum(weights) - weights[0]
        return np.array([float(weights[abs(x)] / total) for x in range(-reach, reach + 1)])


def chi_square(found, expected):
    """The p value of counts against their expectations."""
    return chi2.sf(((found - expected) ** 2 / expected).sum(), found.size - 1)


@pytest.mark.parametrize(("sampler", "weight"), SAMPLERS)
@pytest.mark.parametrize("scale", [1, 2, 7, 40])
def test_the_draws_follow_the_exact_probabilities(sampler, weight, scale):
    draws = sampler(scale, N, stream=Stream(KEY))
    assert (draws.dtype, draws.size) == (np.int64, N)
    reach = 3 * scale
    p = exact(weight, scale, reach)
    counts = np.bincount(np.clip(draws, -reach - 1, reach + 1) + reach + 1, minlength=2 * reach + 3)
    tail = (1 - p.sum()) / 2
    expected = N * np.concatenate([[tail], p, [tail]])
    assert expected.min() > 5
    assert chi_square(counts, expected) > 1e-4
    # A wrong distribution of the same shape is noticed: the scale that is 10 % larger in every probability's exponent.
    wrong = np.concatenate([[tail], p ** (1 / 1.1), [tail]])
    assert chi_square(counts, N * wrong / wrong.sum()) < 1e-6


@pytest.mark.parametrize(("sampler", "weight"), SAMPLERS)
@pytest.mark.parametrize("scale", [1000, LARGEST_SCALE])
def test_at_large_scales_the_draws_follow_the_continuous_curve(sampler, weight, scale):
    draws = sampler(scale, N, stream=Stream(KEY)) / scale
    grid = np.linspace(-4, 4, 81)
    if weight is gaussian_weight:
        cdf = np.array([float(mpmath.ncdf(x)) for x in grid])
    else:
        cdf = np.where(grid < 0, np.exp(grid) / 2, 1 - np.exp(-grid) / 2)
    distance = np.abs(np.searchsorted(np.sort(draws), grid) / N - cdf).max()
    assert distance < 1.95 / math.sqrt(N) + 1 / scale  # Kolmogorov: beyond once in a thousand


@pytest.mark.parametrize("scale", [1, 3, 100, 2**20])
def test_mean_variance_and_tails(scale):
    gauss = discrete_gaussian(scale, N, stream=Stream(KEY))
    p = exact(gaussian_weight, min(scale, 100), 12 * min(scale, 100))
    x = np.arange(-(p.size // 2), p.size // 2 + 1)
    variance = (p * x**2).sum() * (scale / min(scale, 100)) ** 2
    assert variance <= scale**2 * (1 + 1e-12)  # corollary 9 of the paper
    assert abs(gauss.mean()) < 4 * scale / math.sqrt(N)
    assert abs(gauss.var() / variance - 1) < 4 * math.sqrt(2 / N)
    for k in (1, 2, 3, 4):
        assert (np.abs(gauss) > k * scale + 1).mean() <= 2 * math.exp(-(k**2) / 2)
    laplace = discrete_laplace(scale, N, stream=Stream(KEY))
    r = math.exp(-1 / scale)
    assert abs(laplace.mean()) < 4 * math.sqrt(2) * scale / math.sqrt(N)
    assert abs(laplace.var() * (1 - r) ** 2 / (2 * r) - 1) < 4 * math.sqrt(5 / N)  # kurtosis of Laplace: 6
    for k in (2, 5, 8):
        assert (np.abs(laplace) >= k * scale).mean() == pytest.approx(2 * r ** (k * scale) / (1 + r), abs=4e-3)


def test_neighbouring_draws_are_independent():
    draws = discrete_gaussian(5, N, stream=Stream(KEY)).astype(float)
    for lag in (1, 2, 3, 1000):
        assert abs(np.corrcoef(draws[:-lag], draws[lag:])[0, 1]) < 4 / math.sqrt(N)


@pytest.mark.parametrize(("a", "b"), [(0, 1), (1, 3), (1, 1), (7, 5), (5, 1), (2**62, 2**62)])
def test_bernoulli_is_true_with_probability_e_to_minus_gamma(a, b):
    share = Stream(KEY).bernoulli_exp(np.full(N, a), b).mean()
    p = math.exp(-a / b)
    assert abs(share - p) <= 4.5 * math.sqrt(p * (1 - p) / N)


def test_bernoulli_with_many_probabilities_at_once():
    a = np.arange(N) % 10
    found = Stream(KEY).bernoulli_exp(a, 3)
    for value in range(10):
        assert found[a == value].mean() == pytest.approx(math.exp(-value / 3), abs=0.015)


@pytest.mark.parametrize("m", [1, 2, 3, 10, 2**63 + 1, 2**64 - 1])
def test_uniform_integers_stay_below_and_fill_their_range(m):
    draws = Stream(KEY).below(m, 30_000)
    assert int(draws.max()) < m
    counts = np.bincount((draws.astype(float) * min(m, 10) / m).astype(int).clip(0, min(m, 10) - 1))
    assert m == 1 or chi_square(counts, np.full(min(m, 10), 30_000 / min(m, 10))) > 1e-4


def test_words_past_the_last_whole_multiple_are_redrawn(monkeypatch):
    words = iter([[2**64 - 1, 5], [2**63 + 1], [2**63]])  # m fits once: words past m − 1 = 2^63 are redrawn
    monkeypatch.setattr(Stream, "_words", lambda self, n: np.array(next(words), dtype=np.uint64))
    assert Stream().below(2**63 + 1, 2).tolist() == [2**63, 5]


def test_every_call_draws_under_a_key_of_its_own():
    assert not np.array_equal(discrete_gaussian(1000, 50), discrete_gaussian(1000, 50))
    assert np.array_equal(discrete_gaussian(9, 50, stream=Stream(KEY)), discrete_gaussian(9, 50, stream=Stream(KEY)))
    stream = Stream(KEY)
    assert not np.array_equal(discrete_gaussian(9, 50, stream=stream), discrete_gaussian(9, 50, stream=stream))


@pytest.mark.parametrize("size", [0, 1, 2, 1000])
def test_the_size_is_what_was_asked(size):
    assert discrete_gaussian(2, size).shape == discrete_laplace(2, size).shape == (size,)


@pytest.mark.parametrize("scale", [0, -1, 1.5, float("nan"), LARGEST_SCALE + 1])
def test_scales_that_are_not_whole_or_out_of_range_are_refused(scale):
    for refuse in (discrete_gaussian, discrete_laplace, lambda s, n: share_sigma(s, 3, 0)):
        with pytest.raises(CryptoError, match="scale of noise"):
            refuse(scale, 1)


def test_a_stream_is_not_shown_pickled_or_copied():
    stream = Stream(KEY)
    assert repr(stream) == "<Stream, not shown>"
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(CryptoError):
            leak(stream)
    with pytest.raises(CryptoError) as refusal:
        Stream(b"short secret")
    assert "short" not in str(refusal.value)


@given(st.integers(1, LARGEST_SCALE), st.integers(2, 50), st.data())
def test_honest_shares_add_up_to_the_variance_and_no_smaller_share_does(sigma, parties, data):
    colluders = data.draw(st.integers(0, parties - 2))
    share, honest = share_sigma(sigma, parties, colluders), parties - 1 - colluders
    assert honest == honest_shares(parties, colluders)
    assert (share - 1) ** 2 * honest < sigma**2 <= share**2 * honest


@pytest.mark.parametrize(("parties", "colluders"), [(1, 0), (2, 1), (3, 2), (3, -1)])
def test_noise_that_the_colluders_know_is_no_noise(parties, colluders):
    with pytest.raises(CryptoError, match="no share of noise"):
        share_sigma(10, parties, colluders)


def test_what_n_minus_1_minus_c_parties_draw_has_the_wanted_variance():
    share = share_sigma(100, 6, 2)
    total = sum(discrete_gaussian(share, N) for _ in range(honest_shares(6, 2)))
    assert total.var() == pytest.approx(100**2, rel=0.04)


POWERS = {"l1": 1, "l2": 2}


def size(row, norm="l2"):
    """‖row‖₁, or the square of ‖row‖₂, in whole numbers."""
    return sum(abs(int(x)) ** POWERS[norm] for x in row)


@given(
    hnp.arrays(
        np.float64,
        st.tuples(st.integers(0, 5), st.integers(1, 8)),
        elements=st.one_of(st.floats(-10, 10), st.floats(allow_nan=False, allow_infinity=False)),
    ),
    st.floats(0.01, 1e6),
    st.integers(7, 10),
    st.sampled_from(["l1", "l2"]),
)
def test_no_row_is_longer_than_the_bound_whatever_was_rounded(X, bound, fraction, norm):
    q, clipped = clip_rows(X, bound, fraction, norm)
    assert q.dtype == np.int64
    assert q.shape == X.shape
    for row, before in zip(q, X, strict=True):
        assert size(row, norm) <= (Fraction(bound) * 2**fraction) ** POWERS[norm]
        assert all(a == 0 or (a > 0) == (b > 0) for a, b in zip(row, before, strict=True))
    assert 0 <= clipped <= len(X)


@given(
    hnp.arrays(np.int64, (4, 6), elements=st.integers(-(10**6), 10**6)),
    st.floats(1, LARGEST_BOUND),
    st.sampled_from(["l1", "l2"]),
)
def test_rows_inside_the_bound_do_not_change(X, bound, norm):
    q, clipped = clip_rows(X, bound, 0, norm)
    limit = Fraction(bound) ** POWERS[norm]
    inside = np.array([size(row, norm) <= limit for row in X])
    assert (q[inside] == X[inside]).all()
    # Rows that are a hair outside are left to the comparison of integers and not counted.
    assert clipped <= np.count_nonzero(~inside)
    far = np.array([size(row, norm) > limit * Fraction(1001, 1000) for row in X])
    assert clipped >= np.count_nonzero(far)


def test_clipping_keeps_the_direction():
    q, clipped = clip_rows(np.array([[30.0, 40.0], [0.3, 0.4]]), 5.0, 10, "l2")
    assert q.tolist() == [[3071, 4095], [307, 410]] or q.tolist() == [[3072, 4096], [307, 410]]
    assert clipped == 1


def test_a_row_that_rounding_would_lift_over_the_bound_is_rounded_towards_zero():
    X = np.array([[0.6, 0.6, 0.6, 0.6]])  # norm 1.2; rounded to nearest: 2
    assert np.linalg.norm(np.rint(X)) == 2
    assert clip_rows(X, 1.5, 0, "l2") == (pytest.approx(np.zeros((1, 4))), 0)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_are_refused_by_name(bad):
    with pytest.raises(CryptoError, match="ratings cannot be clipped") as refusal:
        clip_rows(np.array([[0.0, bad]]), 1.0, 10, "l2", "ratings")
    assert "1 values not finite" in str(refusal.value)


@pytest.mark.parametrize("bound", [0.0, -1.0, np.nan, np.inf, 1e-9, 1e300])
def test_a_bound_that_bounds_nothing_is_refused(bound):
    with pytest.raises(CryptoError, match="cannot be clipped"):
        clip_rows(np.ones((2, 2)), bound, 10, "l2")
    with pytest.raises(CryptoError, match="cannot be clipped"):
        clip_rows(np.ones(2), 1.0, 10, "l2")
    with pytest.raises(CryptoError, match="cannot be clipped"):
        clip_rows(np.ones((2, 2)), 1.0, 10, "linf")


def test_clipping_by_the_other_norm_would_let_a_row_have_root_d_of_the_bound():
    d, bound = 400, 8.0
    X = np.ones((1, d))
    by_l2, by_l1 = (clip_rows(X, bound, 10, norm)[0] for norm in ("l2", "l1"))
    assert size(by_l2[0], "l1") > 0.99 * math.sqrt(d) * bound * 2**10
    assert 0.97 * bound * 2**10 < size(by_l1[0], "l1") <= bound * 2**10
    assert clip_rows(np.array([[30.0, -10.0]]), 8.0, 2, "l1")[0].tolist() in ([[24, -8]], [[23, -7]])


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_a_number_that_only_a_longer_float_holds_is_refused(norm):
    # As float64 it is infinite, and an infinite row became -2^63.
    huge = np.array([[np.longdouble("1e400"), 0]])
    if np.isfinite(huge).all():
        with pytest.raises(CryptoError, match="1 values not finite"):
            clip_rows(huge, 1.0, 10, norm)
    fine = np.array([[np.longdouble(3), 4]])
    assert size(clip_rows(fine, 5.0, 0, norm)[0][0], norm) <= 5.0 ** POWERS[norm]
