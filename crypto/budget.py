"""What noise costs: ε spent by releases, the noise for a wanted ε, and a budget that refuses.

Unit of privacy: one person at one party; neighbouring data sets differ by ALL that one person contributes, added or
removed (exchanged for another person: twice the bound). One budget belongs to one data set, over all accords, nights
and rounds; a metric that is shown is a release too. (ε, δ): P(M(D) ∈ S) <= e^ε·P(M(D') ∈ S) + δ.

    gaussian   a sum of m discrete Gaussian shares of σ each, m = n − 1 − c honest ones (`noise.honest_shares`).
               Canonne, Kamath, Steinke (2020), theorem 4 and its form for vectors, m = 1:
               Rényi divergence of order α <= α·Δ₂²/2σ².
               Kairouz, Liu, Steinke (2021), proposition 14, for more: they are close to one Gaussian, up to τ,
                   τ = 10·Σ_{k=1}^{m−1} e^{−2π²σ²k/(k+1)},   x = Δ₂/(√m·σ),
                   <= min{ α·x²/2 + τ·d,  α·(x + τ·√d)²/2 },  σ >= 1/2.
    laplace    Lap_Z(t), pure ε₀ = Δ₁/t. Whatever is ε₀-private is a function of randomised response with
               p = 1/(1 + e^−ε₀) (Kairouz, Oh, Viswanath 2015), so its divergence bounds theirs. No sum of shares:
               m = 1, the other parties' noise is not counted.

Composition adds divergences order by order (Mironov 2017, proposition 1); (ε, δ) follows by Balle et al. (2020),
theorem 21, in Opacus. Every bound is an upper one: the true ε is at most the stated one. No amplification by sampling
is claimed. ASSUMPTION: scales and numbers of releases are fixed by the accord and not chosen after seeing answers;
every honest party adds its share.
NOT protected: a person at two parties or with two ids (ε adds up), facts about the whole population, what is released
outside the budget, and whatever the noise of colluding parties was thought to hide.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from base.errors import ConsentError
from crypto.noise import LARGEST_SCALE, Norm

UNIT = "one person at one party"
NORMS: Mapping[str, Norm] = {"gaussian": "l2", "laplace": "l1"}  # what bounds the sensitivity of each mechanism
ORDERS = 1 + np.geomspace(1e-2, 1e6, 600)  # α; the best one is searched among these


@dataclass(frozen=True)
class Release:
    """One noisy vector of `dimension` values, given out `times` times with fresh noise.

    `scale` is σ or t of ONE share in units of the lane; `clip` bounds the norm of one person's contribution in the same
    units, as integers (`noise.clip_rows`: bound·2^fraction), and `norm` is what rows were clipped by: "l2" for
    gaussian, "l1" for laplace.
    """

    mechanism: Literal["gaussian", "laplace"]
    scale: int
    clip: float | None
    norm: Norm
    dimension: int
    shares: int = 1
    times: int = 1

    def __post_init__(self) -> None:
        """Refuse what has no clipping bound, and what no theorem above covers."""
        if self.clip is None or not 0 < self.clip < math.inf:
            raise ConsentError(
                "no ε without a clipping bound", expected="a finite bound on one person's contribution",
                found="none" if self.clip is None else "not positive and finite", remedy="clip rows, state the bound",
            )  # fmt: skip
        if self.norm != NORMS.get(self.mechanism, self.norm):
            raise ConsentError(
                "a clipping bound of another norm than the noise needs", found=f"{self.mechanism}, {self.norm}",
                expected="l2 for gaussian, l1 for laplace", remedy="clip rows by that norm: ‖·‖₁ may be √d times ‖·‖₂",
            )  # fmt: skip
        numbers = (self.scale, self.dimension, self.shares, self.times)
        if (
            self.mechanism not in NORMS
            or not all(type(number) is int and number >= 1 for number in numbers)
            or (self.mechanism == "laplace" and self.shares != 1)
        ):
            raise ConsentError(
                "a release that cannot be accounted",
                expected="gaussian, or laplace of one share; whole numbers from 1",
                found=f"{self.mechanism}, scale, dimension, shares, times {numbers}",
            )  # fmt: skip

    def divergence(self) -> np.ndarray:
        """Return the Rényi divergences at ORDERS, over all `times`."""
        assert self.clip is not None
        if self.mechanism == "laplace":
            return _randomised_response(self.clip / self.scale) * self.times
        x = self.clip / (math.sqrt(self.shares) * self.scale)
        τ = 10 * sum(math.exp(-2 * (math.pi * self.scale) ** 2 * k / (k + 1)) for k in range(1, self.shares))
        apart, together = _gaussian(x) + τ * self.dimension, _gaussian(x + τ * math.sqrt(self.dimension))
        return np.where(apart < together, apart, together) * self.times


def epsilon(releases: Sequence[Release], delta: float) -> float:
    """Return ε at δ of all releases together; 0 for none. `ConsentError` unless 0 < δ < 1."""
    if not 0 < delta < 1:
        raise ConsentError("δ is out of range", expected="0 < δ < 1", found=delta, remedy="well below 1/people")
    if not releases:
        return 0.0
    from opacus.accountants.analysis.rdp import get_privacy_spent  # torch comes along: only who accounts pays for it

    with warnings.catch_warnings():  # "largest order is best": so it is for Laplace, and the bound holds all the same
        warnings.simplefilter("ignore", UserWarning)
        spent, _ = get_privacy_spent(orders=ORDERS, rdp=sum(r.divergence() for r in releases), delta=delta)
    pure = sum(r.times * (r.clip or 0) / r.scale if r.mechanism == "laplace" else math.inf for r in releases)
    return max(0.0, min(float(spent), pure))


def calibrate(release: Release, limit: float, delta: float) -> Release:
    """Return `release` with the smallest whole scale that keeps all its `times` within (limit, δ)."""
    low, high = 0, LARGEST_SCALE
    if epsilon([replace(release, scale=high)], delta) > limit:
        raise ConsentError(
            "no scale of noise keeps a release within ε", expected=f"ε <= {limit:g}",
            remedy="fewer releases, a larger ε, a smaller clipping bound, or fewer fraction bits",
        )  # fmt: skip
    while high - low > 1:
        middle = (low + high) // 2
        within = epsilon([replace(release, scale=middle)], delta) <= limit
        low, high = (low, middle) if within else (middle, high)
    return replace(release, scale=high)


@dataclass(frozen=True)
class Budget:
    """What one data set may spend and what it has spent; store the result of `charge` BEFORE the release leaves."""

    epsilon: float
    delta: float
    releases: tuple[Release, ...] = ()
    unit: str = UNIT

    def __post_init__(self) -> None:
        """Refuse a budget that refuses nothing."""
        if not (0 < self.epsilon < math.inf and 0 < self.delta < 1):
            raise ConsentError(
                "a privacy budget without limits", expected="0 < ε < ∞ and 0 < δ < 1", found=(self.epsilon, self.delta),
                remedy="δ well below 1/people",
            )  # fmt: skip

    def spent(self) -> float:
        """Return ε at the budget's δ of everything charged so far."""
        return epsilon(self.releases, self.delta)

    def charge(self, *releases: Release) -> Budget:
        """Return the budget with `releases` added; `ConsentError` when ε would be exceeded: nothing may leave then.

        There is no lock here. Of two that charge one stored budget at a time, the later to store would erase what the
        other spent: the store must replace the budget only while it still is the one that was charged (compare and
        swap), else read it and charge again.
        """
        charged = replace(self, releases=(*self.releases, *releases))
        after = charged.spent()
        if not after <= self.epsilon:
            raise ConsentError(
                f"the privacy budget per {self.unit} does not allow a release",
                expected=f"ε <= {self.epsilon:g} at δ = {self.delta:g} over all releases",
                found=f"ε = {after:.4g} after {len(self.releases)} earlier charges",
                remedy="more noise, fewer releases, or a new data set; a budget is not refilled",
            )
        return charged

    def to_document(self) -> dict[str, Any]:
        """Return plain numbers, texts and lists, fit for JSON."""
        return {**asdict(self), "releases": [asdict(release) for release in self.releases]}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Budget:
        """Read what `to_document` wrote; every release is checked again."""
        return cls(**{**document, "releases": tuple(Release(**release) for release in document["releases"])})


def _gaussian(x: float) -> np.ndarray:
    from opacus.accountants.analysis.rdp import compute_rdp

    return np.asarray(compute_rdp(q=1.0, noise_multiplier=1 / x, steps=1, orders=ORDERS))


def _randomised_response(ε: float) -> np.ndarray:
    """(1/(α−1))·log((e^{αε} + e^{(1−α)ε})/(e^ε + 1)), with e^{αε} taken out so that nothing overflows."""
    α = ORDERS
    divergence: np.ndarray = (α * ε + np.log1p(np.exp((1 - 2 * α) * ε)) - np.logaddexp(0, ε)) / (α - 1)
    return divergence.clip(min=0)  # rounding may exceed what is there to measure
