"""Symmetric matrices: packed as what is different in them, and inverted.

The upper triangle, row by row with its diagonal, is n(n+1)/2 numbers instead of n²: half of what a sum has to carry.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from base.errors import DataError

Floats = NDArray[np.float64]


def upper(A: Floats) -> Floats:
    """Return the upper triangles (..., n(n+1)/2) of symmetric matrices A (..., n, n); the lower ones are not read."""
    row, column = np.triu_indices(A.shape[-1])
    return np.asarray(A[..., row, column])


def from_upper(v: Floats, n: int) -> Floats:
    """Return the symmetric matrices (..., n, n) of upper triangles v (..., n(n+1)/2); `DataError` for another size."""
    row, column = np.triu_indices(n)
    if v.shape[-1] != len(row):
        raise DataError(
            "a packed symmetric matrix has another size", expected=f"{len(row)} values for {n} rows",
            found=v.shape[-1], remedy="pack and unpack with the same number of rows",
        )  # fmt: skip
    A = np.empty((*v.shape[:-1], n, n))
    A[..., row, column] = v
    A[..., column, row] = v
    return A


def places(i: NDArray[np.integer[Any]], j: NDArray[np.integer[Any]], n: int) -> NDArray[np.int64]:
    """Return where the pairs (i, j), in either order, of a symmetric matrix (n, n) stand in its packed `upper`."""
    low, high = np.minimum(i, j).astype(np.int64), np.maximum(i, j)
    return np.asarray(low * (2 * n - low - 1) // 2 + high)


def ridge_inverse(A: Floats, λ: float) -> Floats:
    """Return (A + λI)^-1 of a symmetric A (n, n), λ > 0, by Cholesky's method.

    `DataError` where A + λI is not positive definite: a Gram matrix always is, one with pairs set to 0 may need a
    larger λ.
    """
    try:
        return np.asarray(linalg.inv(A + λ * np.eye(len(A)), assume_a="pos", overwrite_a=True))
    except linalg.LinAlgError as error:
        raise DataError(
            "the sum of the statistics with its regulariser has no minimum", expected="a positive definite matrix",
            found="a negative direction", remedy="raise reg, or lower the least number of people behind a pair",
        ) from error  # fmt: skip


def enough_ridge(A: Floats, λ: float) -> float:
    """Return the first of λ, 2λ, 4λ, ... with A + λ/2·I positive definite, for a symmetric A (n, n), λ > 0.

    It is λ itself for a Gram matrix. One with pairs set to 0 has directions below 0, and none may lose more than half
    of its λ. `ValueError` where A is not finite.
    """
    while linalg.lapack.dpotrf(np.asarray_chkfinite(A) + λ / 2 * np.eye(len(A)))[1] > 0:
        λ *= 2
    return λ
