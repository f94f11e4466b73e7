"""Noise and clipping for differential privacy: integers from end to end, in units of a lane (2^−fraction of a value).

Canonne, Kamath and Steinke (2020), "The discrete Gaussian for differential privacy", algorithms 1-3:
    N_Z(σ²):    P(x) ∝ exp(−x²/2σ²)      Lap_Z(t):    P(x) ∝ exp(−|x|/t)      x any integer, σ and t whole numbers

Exact: every draw. Uniform integers by rejection from 64-bit words, Bernoulli(a/b) as "uniform below b is below a",
and no other random step; a, b, x are integers in 64 bits, and no logarithm, exponential or floating point is computed,
so there are no holes between doubles as in Mironov (2012). Algorithm 3 proposes from Lap_Z(⌊σ⌋ + 1); here from
Lap_Z(σ), since e^{−|y|/t}·e^{−(|y|−σ²/t)²/2σ²} ∝ e^{−y²/2σ²} for every t, and at t = σ all numbers stay small: that is
why σ is whole. Only an event of probability below e^−128 could leave 64 bits.
Not exact: the scaling of a row in `clip_rows` is double precision; its result is integers whose norm is within the
bound whatever was rounded, and that bound alone enters the accounting.

ASSUMPTION: AES-256 in counter mode under a key of the operating system's generator is indistinguishable from uniform
bits; what holds for true randomness then holds against bounded adversaries. One key serves one call and is stored
nowhere: no draw is repeated by a restored snapshot or a forked process.
Adversary: semi-honest receivers of the noisy sum, and c of the parties that tell what noise they drew.
NOT protected: the time that a draw takes (it depends on the values drawn, summed over a call), the process's memory,
the number of rows, and a party that adds less noise than it owes.
"""

from __future__ import annotations

import math
import secrets
from fractions import Fraction
from typing import Literal

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR

from base.errors import CryptoError
from crypto.secret import Secret

LARGEST_SCALE = 1 << 24  # of σ and t: (|y| − σ)² then fits 63 bits up to |y| = 181σ
LARGEST_BOUND = 1 << 30  # of a clipped row: the sum of its squares then fits 63 bits
Norm = Literal["l1", "l2"]
_SHRINK = 1 - 2.0**-30  # more than what double precision adds to the norm of a row of 2^20 values


class Stream(Secret):
    """Uniform 64-bit words, little-endian, from AES-256-CTR (NIST SP 800-38A), counter from zero."""

    def __init__(self, key: bytes | None = None) -> None:
        """Draw a fresh key; a given `key` (32 bytes) is for test vectors alone."""
        key = secrets.token_bytes(32) if key is None else key
        if len(key) != 32:
            raise CryptoError("the key of a noise stream has another length", expected="32 bytes", found=len(key))
        self._keystream = Cipher(AES256(key), CTR(bytes(16))).encryptor()

    def below(self, m: int, n: int) -> np.ndarray:
        """Return n integers uniform in [0, m), uint64, 1 <= m < 2^64; words of the last incomplete m are redrawn."""
        last = np.uint64((1 << 64) - (1 << 64) % m - 1)
        words = self._words(n)
        while (over := np.flatnonzero(words > last)).size:
            words[over] = self._words(over.size)
        return words % np.uint64(m)

    def bernoulli_exp(self, a: np.ndarray, b: int) -> np.ndarray:
        """Algorithm 1: return booleans, each true with probability exp(−a_i/b); a >= 0, int64."""
        whole, rest = np.divmod(a, b)
        alive = np.arange(a.size)
        one = np.ones(a.size, dtype=np.int64)
        step = 0
        while (more := whole[alive] > step).any():  # γ > 1: a factor e^−1 at a time
            failed = more.copy()
            failed[more] = ~self._bernoulli_exp_below_one(one[: np.count_nonzero(more)], 1)
            alive, step = alive[~failed], step + 1
        result = np.zeros(a.size, dtype=bool)
        result[alive] = self._bernoulli_exp_below_one(rest[alive], b)
        return result

    def _bernoulli_exp_below_one(self, a: np.ndarray, b: int) -> np.ndarray:
        """Algorithm 1 for a <= b: count up K while Bernoulli(a/bK) succeeds; true when K is odd."""
        result = np.zeros(a.size, dtype=bool)
        alive, K = np.arange(a.size), 1
        while alive.size:
            success = self.below(b * K, alive.size) < a[alive].view(np.uint64)
            result[alive[~success]] = K % 2 == 1
            alive, K = alive[success], K + 1
        return result

    def _words(self, n: int) -> np.ndarray:
        return np.frombuffer(bytearray(self._keystream.update(bytes(8 * n))), dtype="<u8")


def discrete_laplace(t: int, size: int, *, stream: Stream | None = None) -> np.ndarray:
    """Algorithm 2 with s = 1: return `size` draws of Lap_Z(t), int64; variance close to 2t²; 1 <= t <= 2^24."""
    _check_scale(t)
    stream, found = stream or Stream(), np.empty(0, dtype=np.int64)
    while (missing := size - found.size) > 0:
        # U + t·V with U below t kept by e^{−U/t}, and V geometric: the number of successes of e^−1.
        U = stream.below(t, missing).view(np.int64)
        U = U[stream.bernoulli_exp(U, t)]
        V, alive = np.zeros(U.size, dtype=np.int64), np.arange(U.size)
        while alive.size:
            alive = alive[stream.bernoulli_exp(np.ones(alive.size, dtype=np.int64), 1)]
            V[alive] += 1
        magnitude, negative = U + t * V, stream.below(2, U.size) == 1
        once = ~(negative & (magnitude == 0))  # zero has one sign
        found = np.concatenate([found, np.where(negative, -magnitude, magnitude)[once]])
    return found


def discrete_gaussian(sigma: int, size: int, *, stream: Stream | None = None) -> np.ndarray:
    """Algorithm 3: return `size` draws of N_Z(σ²), int64; variance at most σ²; 1 <= σ <= 2^24.

    P(|x| > kσ + 1) <= 2·exp(−k²/2) (the paper's tail bound): lanes need room for the sum of n shares too.
    """
    _check_scale(sigma)
    stream, found = stream or Stream(), np.empty(0, dtype=np.int64)
    while (missing := size - found.size) > 0:
        Y = discrete_laplace(sigma, missing, stream=stream)
        found = np.concatenate([found, Y[stream.bernoulli_exp((np.abs(Y) - sigma) ** 2, 2 * sigma**2)]])
    return found


def honest_shares(parties: int, colluders: int) -> int:
    """Return n − 1 − c: the shares of noise that neither c colluders nor the party that reads the sum can subtract."""
    shares = parties - 1 - colluders
    if colluders < 0 or shares < 1:
        raise CryptoError(
            "no share of noise is left that the colluders do not know", expected="colluders 0..parties − 2",
            found=f"{parties} parties, {colluders} colluders", remedy="more parties, or fewer assumed colluders",
        )  # fmt: skip
    return shares


def share_sigma(sigma: int, parties: int, colluders: int) -> int:
    """Return the whole σ_j of each party's share: the smallest with σ_j² >= σ²/(n − 1 − c).

    A sum of discrete Gaussians is only close to one: `Release(shares=...)` accounts for the distance.
    """
    _check_scale(sigma)
    return math.isqrt((sigma**2 - 1) // honest_shares(parties, colluders)) + 1


def clip_rows(X: np.ndarray, bound: float, fraction: int, norm: Norm, name: str = "rows") -> tuple[np.ndarray, int]:
    """Return q (people, d), int64, with ‖q_u‖ <= bound·2^fraction for every row, and how many rows were scaled down.

    `norm`: "l2" for Gaussian noise, "l1" for Laplace noise, and `budget.Release` takes the same word. A row within b in
    ‖·‖₂ has up to √d·b in ‖·‖₁, so Laplace noise after the wrong clipping costs up to √d times the ε that is stated.

    A row is all that one person adds; add the rows AFTER this, then the noise. Rounding to nearest may raise ‖·‖₂ by
    √d/2 units (‖·‖₁ by d/2), and stochastic rounding by √d, which Kairouz, Liu and Steinke (2021), "The distributed
    discrete Gaussian mechanism", limit by conditional rounding and pay for in the sensitivity. Here a row that rounding
    lifts over the bound is rounded towards zero, which lifts nothing: the sensitivity stays the bound, and such a row
    is up to one unit per value too small. `CryptoError` for NaN, infinity (as float64), a shape that is not
    (people, d), another norm or a bound out of range.
    """
    with np.errstate(over="ignore"):  # what a longer float holds and float64 does not becomes infinite
        X = np.asarray(X, dtype=np.float64)
    limit = Fraction(bound) * Fraction(2) ** fraction if math.isfinite(bound) else Fraction(0)
    if X.ndim != 2 or not np.isfinite(X).all() or not 1 <= limit <= LARGEST_BOUND or norm not in ("l1", "l2"):
        raise CryptoError(
            f"{name} cannot be clipped",
            expected=f"finite (people, d), 1 <= bound·2^fraction <= {LARGEST_BOUND}, norm l1 or l2",
            found=f"{X.ndim} axes, {np.count_nonzero(~np.isfinite(X))} values not finite, bound {bound:g}, norm {norm}",
        )  # fmt: skip
    peak = np.abs(X).max(axis=1, initial=bound, keepdims=True)
    direction = X / peak  # first, so that no square overflows
    power = 1 if norm == "l1" else 2
    length = (np.abs(direction) ** power).sum(axis=1, keepdims=True) ** (1 / power)
    outside = length > bound / peak * (1 + 2.0**-40)  # closer ones are left to the comparison of integers
    scaled = np.ldexp(np.where(outside, direction * (bound / np.maximum(length, 1)) * _SHRINK, X), fraction)
    q = np.rint(scaled).astype(np.int64)
    over = (np.abs(q) ** power).sum(axis=1) > math.floor(limit**power)
    q[over] = np.trunc(scaled[over] * _SHRINK).astype(np.int64)
    return q, int(np.count_nonzero(outside))


def _check_scale(scale: int) -> None:
    if type(scale) is not int or not 1 <= scale <= LARGEST_SCALE:
        raise CryptoError(
            "a scale of noise is out of range", expected=f"a whole number, 1..{LARGEST_SCALE} units", found=scale,
            remedy="choose the lane's fraction bits so that σ is a few units or more",
        )  # fmt: skip
