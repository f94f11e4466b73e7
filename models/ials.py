"""iALS: factors of implicit feedback by alternating least squares; parties share the items' normal equations.

Rendle, Krichene, Zhang, Koren (2021), "Revisiting the Performance of iALS on Item Recommendation Benchmarks",
arXiv 2110.14037, eq. 2-7 (after Hu, Koren, Volinsky 2008), with the frequency-scaled regulariser:

    min Σ_(u,i)∈S (p_uᵀq_i − 1)² + α₀ Σ_u Σ_i (p_uᵀq_i)² + λ (Σ_u (|I_u| + α₀I)^ν ‖p_u‖² + Σ_i (|U_i| + α₀U)^ν ‖q_i‖²)
    p_u = (Σ_i∈I_u q_i q_iᵀ + α₀QᵀQ + λ(|I_u| + α₀I)^ν)^-1 Σ_i∈I_u q_i,  and q_i alike

    S   pairs of the histories      P  (U, d)  users, never leave their party      Q  (I, d)  items, the same everywhere
    φ(v) = [upper triangle of v vᵀ, v, 1]  (f,), f = d(d+1)/2 + d + 1: what one row gives to a normal equation
    Σ_u∈U_i φ(p_u) of every item, and Σ_u φ(p_u) of all users: sums over users, (I + 1, f), one secure sum a sweep
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from models.histories import Counts, Histories
from models.symmetric import Floats, from_upper

BLOCK = 1 << 22  # numbers that a block of rows makes: 32 MB


@dataclass(frozen=True)
class Loss:
    """Weights of the loss; found on validation items of MovieLens."""

    α0: float = 0.3  # of a pair that was not observed, > 0
    reg: float = 0.01  # λ > 0
    ν: float = 1.0  # 0: the same regulariser for every row; 1: in proportion to the pairs of a row


def user_step(h: Histories, Q: Floats, loss: Loss) -> Floats:
    """Return P (U, d) for Q (I, d); a user without items gets 0."""
    Φ = _φ(Q)
    every = Φ.sum(axis=0)
    parts = [_solve(h.take(users).matrix() @ Φ, every, Q.shape[1], loss) for users in _blocks(h.users, Φ.shape[1])]
    return np.concatenate(parts)


def item_sums(h: Histories, P: Floats) -> Floats:
    """Return Σ φ(p_u) over each item's users and, in the last row, over all users: (I + 1, f), parties add theirs."""
    sums = np.zeros((h.items + 1, _φ(P[:0]).shape[1]))
    for users in _blocks(h.users, sums.shape[1]):
        Φ = _φ(P[users])
        sums[:-1] += h.take(users).matrix().T @ Φ
        sums[-1] += Φ.sum(axis=0)
    return sums


def solve_items(sums: Floats, d: int, loss: Loss) -> Floats:
    """Return Q (I, d) from the sums (I + 1, f) over all parties; an item that nobody has gets 0."""
    own, every = sums[:-1], sums[-1]
    return np.concatenate([_solve(own[rows], every, d, loss) for rows in _blocks(len(own), len(every))])


def scores(Q: Floats, P: Floats, users: Counts) -> Floats:
    """Return p_uᵀq_i for the given users, (len(users), I); own items included."""
    return np.asarray(P[users] @ Q.T)


def _φ(V: Floats) -> Floats:
    """Return φ of every row, (n, f)."""
    i, j = np.triu_indices(V.shape[1])
    return np.concatenate([V[:, i] * V[:, j], V, np.ones((len(V), 1))], axis=1)


def _solve(own: Floats, every: Floats, d: int, loss: Loss) -> Floats:
    """Return the rows (n, d) that solve the normal equations of `own` (n, f) beside those of `every` pair (f,)."""
    A, b, count = np.split(own, [-d - 1, -1], axis=1)
    λ = loss.reg * (count + loss.α0 * every[-1]) ** loss.ν
    left = from_upper(A + loss.α0 * every[: -d - 1], d) + λ[:, :, None] * np.eye(d)
    return np.asarray(np.linalg.solve(left, b[:, :, None])[:, :, 0])


def _blocks(rows: int, width: int) -> Iterator[Counts]:
    """Yield 0..rows-1 in blocks of at most BLOCK numbers, at least one block."""
    size = max(BLOCK // width, 1)
    for first in range(0, max(rows, 1), size):
        yield np.arange(first, min(first + size, rows))
