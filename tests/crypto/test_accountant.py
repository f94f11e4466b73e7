"""The stated ε against an accountant of its own: exact δ(ε) by summation, compositions by convolution, no Rényi."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.signal import fftconvolve

from crypto.budget import Release, epsilon

DELTA = 1e-6


def share(mechanism, scale):
    """P over −reach..reach for one share; what lies further out is below 1e-30."""
    x = np.arange(-14 * scale if mechanism == "gaussian" else -80 * scale, 1.0)
    half = np.exp(-(x**2) / (2.0 * scale**2) if mechanism == "gaussian" else x / scale)
    p = np.concatenate([half, half[-2::-1]])
    return p / p.sum()


def hockey_stick(p, losses, ε):
    """δ(ε) = E[(1 − e^{ε − L})₊] of the privacy loss L."""
    over = losses > ε
    return float((p[over] * -np.expm1(ε - losses[over])).sum())


def exact_epsilon(p, losses, beyond=0.0):
    """The smallest ε with δ(ε) <= DELTA; `beyond`: the probability of a loss without end."""
    return brentq(lambda ε: hockey_stick(p, losses, ε) + beyond - DELTA, 0.0, losses.max(), xtol=1e-9)


def losses_of_one(p, shift):
    """log P(x)/P(x − shift) for every x where both are there, with P(x)."""
    a, b = p[shift:], p[:-shift]
    both = (a > 1e-250) & (b > 1e-250)
    return a[both], np.log(a[both] / b[both])


def composed(p, step, start, times):
    """The distribution of a sum of `times` losses on the lattice start + step·k, with the lattice."""
    total = p
    for _ in range(times - 1):
        total = fftconvolve(total, p).clip(min=0)
    return total, times * start + step * np.arange(total.size)


@pytest.mark.parametrize(("scale", "shift"), [(10, 10), (40, 20), (100, 30)])
@pytest.mark.parametrize("times", [1, 4, 20])
def test_discrete_gaussians_composed(scale, shift, times):
    # L(x) = (Δ² − 2Δx)/2σ² up to sign: whole numbers x make a lattice, so that composition is a convolution.
    p = share("gaussian", scale)
    reach = p.size // 2
    step = shift / scale**2
    mass, losses = composed(p, step, shift**2 / (2 * scale**2) - reach * step, times)
    exact = exact_epsilon(mass, losses)
    stated = epsilon([Release("gaussian", scale, float(shift), "l2", 1, times=times)], DELTA)
    assert exact <= stated <= 1.09 * exact


@pytest.mark.parametrize("shares", [2, 4])
@pytest.mark.parametrize("scale", [2, 20])
def test_a_sum_of_shares(scale, shares):
    p = one = share("gaussian", scale)
    for _ in range(shares - 1):
        p = np.convolve(p, one)
    exact = exact_epsilon(*losses_of_one(p, scale))
    stated = epsilon([Release("gaussian", scale, float(scale), "l2", 1, shares=shares)], DELTA)
    assert exact <= stated <= 1.12 * exact


@pytest.mark.parametrize("times", [1, 5, 60])
def test_discrete_laplace_composed(times):
    scale, shift = 40, 10
    p = share("laplace", scale)
    x = np.arange(p.size) - p.size // 2
    # The loss (|x − Δ| − |x|)/t takes the values −Δ/t .. Δ/t, in steps of 2/t and 1/t: collected on the lattice 1/t.
    lattice = np.bincount(np.abs(x - shift) - np.abs(x) + shift, p, 2 * shift + 1)
    mass, losses = composed(lattice, 1 / scale, -shift / scale, times)
    exact = exact_epsilon(mass, losses) if times > 1 else shift / scale * (1 - 1e-5)
    stated = epsilon([Release("laplace", scale, float(shift), "l1", 1, times=times)], DELTA)
    assert exact <= stated <= 1.12 * exact


def test_two_mechanisms_together():
    scale, shift = 50, 20
    gaussian, laplace = share("gaussian", scale), share("laplace", scale)
    a, first = losses_of_one(gaussian, shift)
    b, second = losses_of_one(laplace, shift)
    cell = 1e-4  # losses rounded to nearest: an error of ±cell in ε
    both = [np.bincount(np.rint((loss + 40) / cell).astype(np.int64), p) for p, loss in ((a, first), (b, second))]
    mass = fftconvolve(*both).clip(min=0)
    keep = mass > 1e-18
    exact = exact_epsilon(mass[keep], (np.arange(mass.size) * cell - 80)[keep])
    stated = epsilon(
        [Release("gaussian", scale, float(shift), "l2", 1), Release("laplace", scale, float(shift), "l1", 1)], DELTA
    )
    assert exact - 2 * cell <= stated <= 1.12 * exact
    assert math.isfinite(stated)
