"""Federated averaging row by row: an item's row is averaged over the parties that trained it, weighted by their raters.

McMahan et al. (2017), "Communication-Efficient Learning of Deep Networks from Decentralized Data", algorithm 1, with a
weight for each row instead of one for the model (Perifanis and Efraimidis 2022, section 4.2):

    V_i ← V_i + Σ_j w_ij / W_i · ΔV_ij,    W_i = Σ_j w_ij

    V    item side (I, c)                ΔV_j  change that party j's local epochs made to it
    w_j  raters of each item at party j (I,), 0 where the party withholds the row
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


def row_weights(user: NDArray[np.int32], item: NDArray[np.int32], items: int, min_raters: int) -> Counts:
    """Return w (I,): how many different users rated each item, 0 where they are fewer than `min_raters`."""
    users = int(user.max(initial=-1)) + 1
    pairs = np.unique(item.astype(np.int64) * users + user)
    raters = np.bincount(pairs // max(users, 1), minlength=items).astype(np.int64)
    return np.where(raters >= min_raters, raters, 0)


def portions(w: Counts, W: Counts) -> Floats:
    """Return w/W (rows,), the party's part in the average of each row; 0 where nobody trains the row."""
    return np.asarray(w / np.maximum(W, 1))


def to_fixed(values: Floats, exponent: int, limit: int, rng: np.random.Generator | None = None) -> tuple[Counts, int]:
    """Return q = values·2^exponent as integers within ±limit, and how many were clipped.

    Rounded to nearest, or with `rng` up or down at random so that the mean stays (stochastic rounding): with few bits
    a small change would else never arrive.
    """
    scaled = np.ldexp(values, exponent)
    q = np.rint(scaled) if rng is None else np.floor(scaled + rng.random(scaled.shape))
    return np.clip(q, -limit, limit).astype(np.int64), int(np.count_nonzero(np.abs(q) > limit))


def exponent_for(step: Floats, limit: int, room: float = 4.0) -> int:
    """Return the exponent at which values up to `room` times the largest of `step` still fit into ±limit."""
    largest = max(float(np.abs(step).max(initial=0.0)), 2.0**-20)
    return int(np.clip(np.floor(np.log2(limit / (room * largest))), -20, 40))


def to_digits(value: int, base: int, places: int) -> Counts:
    """Return value as digits, high first (places,): short lanes hold a wide number; ValueError when it does not fit."""
    if not 0 <= value < base**places:
        raise ValueError(f"a number is not within 0..{base}^{places} - 1")
    return np.array([value // base**n % base for n in reversed(range(places))], np.int64)


def from_digits(digits: Counts, base: int) -> int:
    """Return the number of added digits, which may have grown beyond the base."""
    return sum(int(digit) * base**n for n, digit in enumerate(reversed(digits.tolist())))
