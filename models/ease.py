"""EASE: a linear model from items to items, solved in closed form from a sum over users.

Steck (2019), "Embarrassingly Shallow Autoencoders for Sparse Data", WWW, eq. 1-8 and algorithm 1:

    min_B ‖X − XB‖² + λ‖B‖²   with diag(B) = 0
    P = (G + λI)^-1,  B_ij = −P_ij / P_jj for i ≠ j

    X  histories, 0 and 1 (U, I)      G = XᵀX (I, I), a sum over users: parties add theirs      B  weights (I, I)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from models.histories import Counts, Histories
from models.symmetric import Floats, places, ridge_inverse


def statistics(h: Histories) -> Floats:
    """Return G (I, I): people with both items, on the diagonal with one. Whole numbers, exact."""
    X = h.matrix()
    return np.asarray((X.T @ X).toarray())


def contributions(h: Histories) -> Iterator[tuple[Counts, Floats]]:
    """Yield what each user adds to the packed upper triangle of G: places in it, and values."""
    for items in h.lists():
        a, b = np.triu_indices(len(items))
        yield places(items[a], items[b], h.items), np.ones(len(a))


def solve(G: Floats, reg: float) -> Floats:
    """Return B (I, I); `reg` is λ > 0, in people. `DataError` where G + λI is not positive definite."""
    P = ridge_inverse(G, reg)
    B = P / -np.diag(P)
    np.fill_diagonal(B, 0.0)
    return np.asarray(B)


def scores(B: Floats, h: Histories, users: Counts) -> Floats:
    """Return XB for the given users, (len(users), I); own items included."""
    return np.asarray(h.take(users).matrix() @ B)
