"""The integers of sealed vertical training: the same numbers, encrypted or not.

    P_ul     ≈ σ_l · P̂_ul / 2^11      16 bits, |P| < 16 σ; σ_l, the deviation of column l, stays with the label_holder
    x_ud     ≈ x̂_ud / 2^5             8 bits, |x| < 4
    G_ud     ≈ Ĝ_ud / 2^g             16 bits; |G| ≤ 1 / (2√λ), so g follows from λ and tells nothing
    ŝ        = Ĝ (X̂ᵀ P̂) + noise       exact integers, in units of σ_l · 2^-(16+g)

The noise is uniform over one quantum of s, 2·range / 2^bits deviations of P: it drowns every bit below the quantum.
Fixed-point bound (`bound`): how far ŝ may be from G Xᵀ P in floating point with the same rounded X.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from models.vertical import Floats, ridge_map

P_BITS, P_FRACTION = 16, 11
X_BITS, X_FRACTION = 8, 5
G_BITS = 16


@dataclass(frozen=True)
class Scales:
    """Public scales of an exchange: λ of the ridge map, and the bits and range of s in deviations of P."""

    λ: float
    s_bits: int
    s_range: float

    @property
    def g(self) -> int:
        """Bits after the point of G: the most that 16 bits allow for 1 / (2√λ)."""
        return math.floor(math.log2((2 ** (G_BITS - 1) - 1) * 2 * math.sqrt(self.λ)))

    @property
    def fraction(self) -> int:
        """Bits after the point of s."""
        return P_FRACTION + X_FRACTION + self.g

    @property
    def half_quantum(self) -> int:
        """Half of the quantum of s in units of 2^-fraction."""
        return round(math.ldexp(self.s_range, self.fraction - self.s_bits))


def round_factors(P: Floats) -> tuple[npt.NDArray[np.int16], Floats, int]:
    """Return P̂ (m, k+1), σ (k+1,), and how many values were clipped at 16 deviations."""
    σ = P.std(axis=0)
    σ = np.where(σ > 0, σ, 1.0)
    rounded, clipped = _round(P / σ, P_FRACTION, P_BITS)
    return rounded.astype(np.int16), σ, clipped


def round_features(X: Floats) -> tuple[npt.NDArray[np.int8], int]:
    """Return X̂ (m, d) of standardised columns, and how many values were clipped at ±127/32."""
    rounded, clipped = _round(X, X_FRACTION, X_BITS)
    return rounded.astype(np.int8), clipped


def round_map(X: npt.NDArray[np.int8], scales: Scales) -> npt.NDArray[np.int16]:
    """Return Ĝ (m, d) of the rounded features; nothing is clipped, since the scale comes from the bound of G."""
    return np.rint(np.ldexp(ridge_map(X / 2**X_FRACTION, scales.λ), scales.g)).astype(np.int16)


def draw_noise(rng: np.random.Generator, shape: tuple[int, int], scales: Scales) -> npt.NDArray[np.int64]:
    """Return the drowning noise, uniform over [−half_quantum, half_quantum)."""
    return rng.integers(-scales.half_quantum, scales.half_quantum, shape, dtype=np.int64)


def exchange_plain(
    P: npt.NDArray[np.int16], X: npt.NDArray[np.int8], G: npt.NDArray[np.int16], noise: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return ŝ (m, k+1) as one owner of everything computes it: what the encrypted exchange must equal exactly."""
    T = X.astype(np.int64).T @ P.astype(np.int64)
    return G.astype(np.int64) @ T + noise


def bound(P: npt.NDArray[np.int16], X: npt.NDArray[np.int8], scales: Scales) -> Floats:
    """Return, per column and in deviations, the most that ŝ can differ from G Xᵀ P with exact P and rounded X.

    Half a unit of G times Σ_d |T_d|, half a unit of P through the map (its rows have L1 norm at most √m · ‖G Xᵀ‖ ≤ √m),
    and half a quantum of noise.
    """
    T = np.abs(X.astype(np.int64).T @ P.astype(np.int64)).sum(axis=0)
    rounding = np.ldexp(T.astype(np.float64), -P_FRACTION - X_FRACTION - scales.g - 1)
    return np.asarray(rounding + math.sqrt(len(P)) * 2.0 ** (-P_FRACTION - 1) + scales.s_range / 2**scales.s_bits)


def _round(values: Floats, fraction: int, bits: int) -> tuple[Floats, int]:
    limit = 2 ** (bits - 1) - 1
    rounded = np.rint(np.ldexp(values, fraction))
    return np.clip(rounded, -limit, limit), int(np.count_nonzero(np.abs(rounded) > limit))
