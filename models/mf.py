"""Biased matrix factorisation by mini-batch stochastic gradient descent, squared loss, on one core in numpy.

Koren, Bell, Volinsky (2009), "Matrix Factorization Techniques for Recommender Systems", IEEE Computer 42(8), eq. 4-5:

    r̂_ui = μ + b_u + b_i + p_uᵀ q_i
    min Σ (r_ui − r̂_ui)² + λ (‖p_u‖² + ‖q_i‖² + b_u² + b_i²)

A batch adds the steps of its ratings, all taken at the values from before the batch, so the learning rate η is the one
of plain SGD and does not depend on the batch size. A row with more than 1/(2η) ratings in a batch takes smaller steps,
or a busy row would run away. The same order of ratings gives the same bits.

    Q (I, k), b_i (I,)   item side, shared between parties in horizontal training
    P (U, k), b_u (U,)   user side, never leaves its party
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
FEW = 8  # rows for each rating of a batch, up to which a whole array is added to


@dataclass(frozen=True)
class Ratings:
    """Ratings as three columns of one length n: user and item count from 0, rating in units of the scale."""

    user: Ints
    item: Ints
    rating: Floats

    def __len__(self) -> int:
        return len(self.rating)

    def take(self, rows: NDArray[np.int64]) -> Ratings:
        """Return the given rows, in that order."""
        return Ratings(self.user[rows], self.item[rows], self.rating[rows])


@dataclass
class Factors:
    """State of the model; training changes the arrays in place."""

    mu: float
    Q: Floats  # (I, k)
    b_item: Floats  # (I,)
    P: Floats  # (U, k)
    b_user: Floats  # (U,)

    def copy(self) -> Factors:
        """Return a model that shares no memory with this one."""
        return Factors(self.mu, self.Q.copy(), self.b_item.copy(), self.P.copy(), self.b_user.copy())


def start_factors(rng: np.random.Generator, rows: int, k: int, deviation: float = 0.1) -> Floats:
    """Return normal starting factors (rows, k); not all zero, or nothing would ever move (p = q = 0 is a saddle)."""
    return rng.normal(0.0, deviation, (rows, k))


def predict(model: Factors, user: Ints, item: Ints) -> Floats:
    """Return r̂ for n pairs, shape (n,), not clipped to the scale."""
    dot: Floats = np.einsum("nk,nk->n", model.P[user], model.Q[item])
    return model.mu + model.b_user[user] + model.b_item[item] + dot


def epoch(
    model: Factors,
    data: Ratings,
    order: NDArray[np.int64],
    learning_rate: float,
    reg: float,
    reg_item: Floats | None = None,
    batch_size: int = 1000,
) -> float:
    """Take one pass over `data` in this `order`; return the mean squared error met on the way, before each step.

    `reg` is λ per rating; `reg_item` (I,) puts another λ in its place for the item side (see `with_prior`).
    """
    λ_item = np.full(len(model.Q), reg) if reg_item is None else reg_item
    scratch = np.empty((4, min(batch_size, len(order)), model.Q.shape[1]))  # else a batch's would come and go as pages
    squared = 0.0
    for start in range(0, len(order), batch_size):
        batch = data.take(order[start : start + batch_size])
        u, i, (p, q, step, pull) = batch.user, batch.item, scratch[:, : len(batch)]
        np.take(model.P, u, axis=0, out=p, mode="clip")
        np.take(model.Q, i, axis=0, out=q, mode="clip")
        b_u, b_i = model.b_user[u], model.b_item[i]
        e = batch.rating - (model.mu + b_u + b_i + np.einsum("nk,nk->n", p, q))
        squared += float(e @ e)
        to_user, to_item = _Adder(u, len(model.P), learning_rate), _Adder(i, len(model.Q), learning_rate)
        λ_i = λ_item[i]
        to_user.add(model.P, _step(e, q, reg, p, step, pull))
        to_user.add(model.b_user, e - reg * b_u)
        to_item.add(model.Q, _step(e, p, λ_i[:, None], q, step, pull))
        to_item.add(model.b_item, e - λ_i * b_i)
    return squared / max(len(order), 1)


def with_prior(reg: float, count: NDArray[np.int64], prior: float) -> Floats:
    """Return λ per rating of each row (I,) such that all its `count` ratings together weigh λ·(count + prior)."""
    return reg * (1.0 + prior / np.maximum(count, 1))


def fit_biases(data: Ratings, mu: float, shape: tuple[int, int], ridge: float = 5.0, sweeps: int = 10) -> Factors:
    """Return the model without factors, r̂ = μ + b_u + b_i, of shape (U, I), by alternating ridge means.

    Koren (2010), "Factor in the Neighbors", ACM TKDD 4(1), section 2.1, swept until it stands; `ridge` in ratings.
    """
    users, items = shape
    model = Factors(mu, np.zeros((items, 0)), np.zeros(items), np.zeros((users, 0)), np.zeros(users))
    for _ in range(sweeps):
        model.b_item = shrunken_means(data.item, data.rating - mu - model.b_user[data.user], items, ridge)
        model.b_user = shrunken_means(data.user, data.rating - mu - model.b_item[data.item], users, ridge)
    return model


def shrunken_means(rows: Ints, values: Floats, size: int, ridge: float, centre: float = 0.0) -> Floats:
    """Return each row's mean (size,), pulled to `centre` as by `ridge` values there; `centre` where it has none."""
    count = np.bincount(rows, minlength=size)
    return np.asarray((np.bincount(rows, values, minlength=size) + ridge * centre) / np.maximum(count + ridge, 1e-12))


def _step(e: Floats, other: Floats, λ: float | Floats, own: Floats, step: Floats, pull: Floats) -> Floats:
    """Return e·other − λ·own (n, k) in `step`; `pull` is room for one more."""
    np.multiply(e[:, None], other, out=step)
    np.multiply(λ, own, out=pull)
    return np.subtract(step, pull, out=step)


class _Adder:
    """Adds η·Σ of each row's steps to an array of `size` rows: a sparse product, in the order of the steps."""

    def __init__(self, rows: Ints, size: int, learning_rate: float) -> None:
        """Take the row of each step; of a large array those alone are touched."""
        self._touched: slice | Ints = slice(None)
        if size > FEW * len(rows):
            self._touched, place = np.unique(rows, return_inverse=True)
            size, rows = len(self._touched), place.astype(np.int32)
        η = np.minimum(learning_rate, 0.5 / np.maximum(np.bincount(rows, minlength=size), 1))
        ends = np.arange(len(rows) + 1, dtype=np.int32)
        self._matrix = sparse.csc_matrix((η[rows], rows, ends), shape=(size, len(rows)))

    def add(self, array: Floats, steps: Floats) -> None:
        """Add steps (n,) or (n, k) to the array (size,) or (size, k)."""
        array[self._touched] += self._matrix @ steps
