"""Errors of predicted ratings, as sums that parties can add before anyone divides."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray


def squared_error(rating: NDArray[np.floating], predicted: NDArray[np.floating]) -> float:
    """Return Σ (r − r̂)², in squared units of the scale; 0 for no rating."""
    e = np.asarray(rating, np.float64) - predicted
    return float(e @ e)


def root_mean(squared: float, n: float) -> float:
    """Return √(Σe²/n), in units of the scale; ValueError without a rating."""
    if n <= 0:
        raise ValueError("no rating to take the mean over")
    return math.sqrt(max(squared, 0.0) / n)


def rmse(rating: NDArray[np.floating], predicted: NDArray[np.floating]) -> float:
    """Return the root mean squared error of n predictions, in units of the scale."""
    return root_mean(squared_error(rating, predicted), len(rating))
