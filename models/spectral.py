"""Sums with noise in every entry, as they are without it: what stands out of the noise's spectrum, and made as large.

Gavish and Donoho (2017), "Optimal Shrinkage of Singular Values", IEEE Trans. Inf. Theory 63(4), eq. 7 for square
matrices: of A = X + noise of deviation σ, independent entries, a singular value y becomes √(y² − 4nσ²) where that is
above 0, else 0. It is the best such rule for ‖·‖_F, and for a symmetric matrix the same holds for eigenvalues. A sum of
histories is nearly of low rank; its noise is not: a pair that few people have is still read from the others.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from models.symmetric import Floats


def without_noise(A: Floats, deviation: float) -> Floats:
    """Return the estimate of a positive semidefinite matrix (n, n) from A, symmetric, with noise; it is one itself."""
    if deviation == 0:
        return A
    edge = 2 * deviation * np.sqrt(len(A))
    values, vectors = linalg.eigh(A, subset_by_value=(edge, np.inf))
    return np.asarray((vectors * np.sqrt(values**2 - edge**2)) @ vectors.T)


def without_noise_of_any(A: Floats, deviation: float) -> Floats:
    """Return the same for any square matrix (n, n)."""
    left, values, right = linalg.svd(A)
    return np.asarray((left * np.sqrt(np.maximum(values**2 - 4 * len(A) * deviation**2, 0.0))) @ right)
