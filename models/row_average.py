"""Federated averaging row by row: an item's row is averaged over the parties that trained it, weighted by their raters.

McMahan et al. (2017), "Communication-Efficient Learning of Deep Networks from Decentralized Data", algorithm 1, with a
weight for each row instead of one for the model (Perifanis and Efraimidis 2022, section 4.2):

    V_i ← V_i + Σ_j w_ij ΔV_ij / Σ_j w_ij

A party contributes numerator and denominator in one vector, so one sum gives both and nobody can take them apart.

    V    item side (I, k+1): bias, then factors          ΔV_j  change that party j's local epochs made to it
    w_j  raters of each item at party j (I,), 0 where the party withholds the row
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


def row_weights(user: NDArray[np.int32], item: NDArray[np.int32], items: int, min_raters: int) -> Counts:
    """Return w (I,): how many different users rated each item, 0 where they are fewer than `min_raters`."""
    pairs = np.unique(np.stack([item, user]), axis=1)
    raters = np.bincount(pairs[0], minlength=items).astype(np.int64)
    return np.where(raters >= min_raters, raters, 0)


def contribution(w: Counts, change: Floats) -> Floats:
    """Return w·ΔV flat, (rows·(k+1),), for w (rows,) and ΔV (rows, k+1); what is withheld is exactly 0."""
    return np.asarray((w[:, None] * change).ravel())


def to_digits(w: Counts, base: int) -> Counts:
    """Return w as two digits, high then low, (2·rows,): short lanes hold wide counts; ValueError from base² on."""
    if np.any(w < 0) or np.any(w >= base**2):
        raise ValueError(f"a weight is not within 0..{base**2 - 1}")
    return np.concatenate([w // base, w % base])


def from_digits(digits: Counts, base: int) -> Counts:
    """Return the counts (rows,) of added digits (2·rows,); digits may have grown beyond the base."""
    high, low = np.split(digits, 2)
    return np.asarray(high * base + low)


def averaged(V: Floats, weighted: Floats, W: Counts) -> Floats:
    """Return V + Σ w·ΔV / W for rows (rows, k+1), W = Σ w (rows,); a row that nobody trained stays as it was."""
    step = weighted.reshape(V.shape) / np.maximum(W, 1)[:, None]
    return np.asarray(np.where(W[:, None] > 0, V + step, V))
