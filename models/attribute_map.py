"""Rows of a factor model for items that too few people rated, from what the catalogue says of each item.

Gantner et al. (2010), "Learning Attribute-to-Feature Mappings for Cold-Start Recommendations", ICDM, section IV: a
linear map from attributes to rows, fitted by ridge least squares on the rows that were trained,

    min_M Σ_i w_i ‖V_i − Mᵀ[1 ; a_i]‖² + λ ‖M‖²

    V  trained rows (I, r)       w  their weights (I,), 0 = not trained       a  attributes (I, d), may be 0 wide
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def standardised(columns: Floats) -> Floats:
    """Return columns (I, d) with mean 0 and deviation 1; a missing (NaN) value or a constant column becomes 0."""
    if columns.shape[1] == 0:
        return columns
    known = np.isfinite(columns)
    n = np.maximum(known.sum(axis=0), 1)
    centred = np.where(known, columns - np.where(known, columns, 0.0).sum(axis=0) / n, 0.0)
    deviation = np.sqrt((centred**2).sum(axis=0) / n)
    return np.asarray(centred / np.where(deviation > 0, deviation, 1.0))


def mapped_rows(V: Floats, w: NDArray[np.int64], a: Floats, ridge: float) -> Floats:
    """Return Mᵀ[1 ; a_i] (I, r) of every item; 0 where nothing was trained at all. `ridge` is λ > 0."""
    A = np.column_stack([np.ones(len(a)), a])
    weighted = A.T * w
    return np.asarray(A @ np.linalg.solve(weighted @ A + ridge * np.eye(A.shape[1]), weighted @ V))
