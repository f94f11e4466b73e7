"""Training of `models.ncf`: both losses, their gradients written by hand, and Adam.

    BCE   −Σ_i∈I_u log σ(s_ui) − Σ_j∉I_u log(1 − σ(s_uj))       He et al. (2017), eq. 7
    BPR   −Σ_(i,j) log σ(s_ui − s_uj)                            Rendle et al. (2009), "BPR", UAI, section 4.1

A batch holds some positives, each with its negatives, and moves all arrays by one step of Adam (Kingma, Ba 2015,
"Adam", ICLR, algorithm 1): plain descent hardly leaves the saddle at 0 near which small rows start. The same order and
negatives give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit

from models.histories import Counts, Histories
from models.ncf import Floats, Model, first, tower

Ints = NDArray[np.integer]
Gradients = tuple[Floats, Floats, Floats]  # by θ, V, P
Loss = Literal["bce", "bpr"]


class Adam:
    """First and second moments of the gradients of some arrays, which its steps change in place."""

    def __init__(self, arrays: tuple[Floats, ...], learning_rate: float) -> None:
        """Begin without a past."""
        self._arrays, self._η, self._t = arrays, learning_rate, 0
        self._m, self._v = ([np.zeros_like(array) for array in arrays] for _ in range(2))

    def step(self, gradients: tuple[Floats, ...]) -> None:
        """Move the arrays by their `gradients`; β₁ = .9, β₂ = .999, ε = 1e-8 as in the paper."""
        self._t += 1
        η = self._η * np.sqrt(1 - 0.999**self._t) / (1 - 0.9**self._t)
        for x, m, v, g in zip(self._arrays, self._m, self._v, gradients, strict=True):
            m += 0.1 * (g - m)
            v += 0.001 * (g * g - v)
            x -= η * m / (np.sqrt(v) + 1e-8)


def epoch(
    model: Model, data: Histories, order: Counts, negatives: Counts, adam: Adam, loss: Loss, batch_size: int
) -> float:
    """Take one pass over the rows `order` of `data`; return the mean loss met on the way, before each step.

    negatives (len(order), m): items that stand against the row at the same place of `order`. `batch_size` positives.
    """
    total = 0.0
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        items = np.column_stack([data.item[rows], negatives[start : start + batch_size]])
        met, gradients = gradient(model, data.user[rows], items, loss)
        adam.step(gradients)
        total += met * len(rows)
    return total / max(len(order), 1)


def mean_loss(model: Model, user: Ints, items: Ints, loss: Loss) -> float:
    """Return the mean loss of users (b,) with items (b, 1 + m), the positive first."""
    _, _, s = _forward(model, np.repeat(user, items.shape[1]), items.ravel())
    return _LOSSES[loss](s.reshape(items.shape))[0]


def gradient(model: Model, user: Ints, items: Ints, loss: Loss) -> tuple[float, Gradients]:
    """Return the mean loss, and its gradients by θ, V, P."""
    (layers, h), k, P, V = model.form.cut(model.θ), model.form.factors, model.P, model.V
    u, i = np.repeat(user, items.shape[1]), items.ravel()
    to_user, to_item = _adder(u, len(P)), _adder(i, len(V))
    # 1. Forward.
    a, φ, s = _forward(model, u, i)
    met, ds = _LOSSES[loss](s.reshape(items.shape))
    # 2. Backward through h and the layers, the last first; W_1 and its bias by rows of P and V again.
    δ = ds.reshape(-1, 1) * h
    by_P, by_V, δ = to_user(δ[:, :k] * V[i, :k]), to_item(δ[:, :k] * P[u, :k]), δ[:, k:] * (a[-1] > 0)
    by_θ = [φ.T @ ds.ravel()]
    for (W, _), below in zip(layers[:0:-1], a[-2::-1], strict=True):
        by_θ[:0] = [(δ.T @ below).ravel(), δ.sum(axis=0)]
        δ = δ @ W * (below > 0)
    δ_P, δ_V = to_user(δ), to_item(δ)
    for W, _ in layers[:1]:
        by_θ[:0] = [np.hstack([δ_P.T @ P[:, k:], δ_V.T @ V[:, k:]]).ravel(), δ.sum(axis=0)]
        δ_P, δ_V = δ_P @ W[:, : P.shape[1] - k], δ_V @ W[:, P.shape[1] - k :]
    return met, (np.concatenate(by_θ), np.hstack([by_V, δ_V]), np.hstack([by_P, δ_P]))


def _forward(model: Model, u: Ints, i: Ints) -> tuple[list[Floats], Floats, Floats]:
    """Return a_1, ..., a_L, φ = [φ_GMF φ_MLP] and s of n pairs."""
    (layers, h), k, P, V = model.form.cut(model.θ), model.form.factors, model.P, model.V
    of_P, of_V = first(layers, P[:, k:], V[:, k:])
    a = tower(layers, of_P[u] + of_V[i])
    φ = np.hstack([P[u, :k] * V[i, :k], a[-1]])
    return a, φ, φ @ h


def _bce(s: Floats) -> tuple[float, Floats]:
    """Return the mean of the loss over pairs (b, 1 + m), and its gradient by their scores."""
    y = np.zeros_like(s)
    y[:, 0] = 1.0
    return float(np.mean(np.logaddexp(0.0, s) - y * s)), (expit(s) - y) / s.size


def _bpr(s: Floats) -> tuple[float, Floats]:
    """Return the mean of the loss over a positive and each of its m negatives, and its gradient by (b, 1 + m)."""
    d = s[:, :1] - s[:, 1:]
    by_negative = expit(-d) / d.size
    return float(np.mean(np.logaddexp(0.0, -d))), np.hstack([-by_negative.sum(axis=1, keepdims=True), by_negative])


_LOSSES: Mapping[Loss, Callable[[Floats], tuple[float, Floats]]] = {"bce": _bce, "bpr": _bpr}


def _adder(rows: Ints, size: int) -> Callable[[Floats], Floats]:
    """Return f(values (n, k)) = Σ of each row's values, (size, k): a sparse product, in order."""
    n = len(rows)
    matrix = sparse.csc_matrix((np.ones(n), rows, np.arange(n + 1)), shape=(size, n))
    return lambda values: np.asarray(matrix @ values)
