"""What each user would change of the shared item side: user-level federated averaging, all users at once in numpy.

McMahan, Ramage, Talwar, Zhang (2018), "Learning Differentially Private Recurrent Language Models", ICLR, algorithm 1,
for biased matrix factorisation (`models.mf`): every user starts at the V that all received, takes E steps on its own
ratings alone, and what its rows of V moved by is its change. The server adds changes that were clipped, with noise, and
divides by how many users have the row.

    V_i ← V_i + η_s · Σ_u clip(ΔV_ui) / W_i

A user has a row of V for each of its ratings, its own copy, so that all users' steps are array operations over ratings.
A user with more than 1/(2η) ratings takes smaller steps on its own side, as in `models.mf`.

Layers: rows are scaled by a public a_i before clipping and noise and unscaled after. Noise on the mean of row i is then
σ/(a_i·W_i); Σ_i 1/(a_i²·W_i), what all ratings together see of it, is least for the same Σ_i W_i·a_i² at a_i ∝ W_i^−½.

    V  item side [b_i ; q_i] (I, k+1)    ΔV_u  changes of one user, a row for each of its items (m, k+1)
    W  users of each row (I,), noisy
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from models.mf import Factors, Ints, Ratings

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


def user_changes(model: Factors, data: Ratings, epochs: int, rate: float, reg: float) -> tuple[Floats, float]:
    """Return ΔV (n, k+1) of each rating's own copy, and the mean squared error met in the last epoch.

    The users' side of `model` moves; its item side stays. `data` is sorted by user; `rate` is η of one rating, `reg` λ.
    """
    u, users = data.user, len(model.P)
    Q, b = model.Q[data.item], model.b_item[data.item]
    start = np.searchsorted(u, np.arange(users))
    count = np.bincount(u, minlength=users)
    some = count > 0
    own = np.minimum(rate, 0.5 / np.maximum(count, 1))  # η of the user's side
    mse = 0.0
    for _ in range(epochs):
        P = model.P[u]
        e = data.rating - (model.mu + model.b_user[u] + b + np.einsum("nk,nk->n", P, Q))
        mse = float(e @ e) / max(len(e), 1)
        step = np.zeros_like(model.P)
        step[some] = np.add.reduceat(e[:, None] * Q, start[some], axis=0)
        to_bias = np.bincount(u, e, minlength=users)
        Q, b = Q + rate * (e[:, None] * P - reg * Q), b + rate * (e - reg * b)
        model.P += own[:, None] * (step - reg * count[:, None] * model.P)
        model.b_user += own * (to_bias - reg * count * model.b_user)
    return np.column_stack([b - model.b_item[data.item], Q - model.Q[data.item]]), mse


def of_each_user(user: Ints, row: Counts, changes: Floats, scale: Floats) -> Iterator[tuple[Counts, Floats]]:
    """Yield each user's changes, flat: places in a matrix (len(scale), c), each once, and the changes times `scale`.

    `user` (n,) sorted; `row` (n,) where each change (n, c) belongs, −1 for nowhere; a user may change a row twice.
    """
    kept, columns = np.flatnonzero(row >= 0), np.arange(changes.shape[1])
    user, row, changes = user[kept], row[kept], changes[kept]
    bounds = np.flatnonzero(np.diff(user, prepend=-1, append=np.iinfo(np.int32).max))
    for first, last in pairwise(bounds):
        rows, which = np.unique(row[first:last], return_inverse=True)
        moved = np.zeros((len(rows), len(columns)))
        np.add.at(moved, which, changes[first:last])
        yield (rows[:, None] * len(columns) + columns).ravel(), (moved * scale[rows, None]).ravel()


def layers(W: Floats) -> Floats:
    """Return a (rows,) for W (rows,) > 0: W^−½, W rounded to a power of two, of mean square 1 by W."""
    a = np.exp2(np.rint(np.log2(np.maximum(W, 1.0)))) ** -0.5
    return np.asarray(a / np.sqrt((W * a**2).sum() / max(W.sum(), 1.0)))
