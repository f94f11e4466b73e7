"""Vertical matrix factorisation: the label side's fits and the feature side's ridge map, in floating point.

    r̂_ui = μ + b_i + q'_i·(P_u + s_u),   q'_i = [1 ; q_i],   s_u = Wᵀx_u

The first column of P and of s is the user bias, so that features explain it too. All fits are alternating ridge
regressions (Zhou et al. 2008, "Large-scale parallel collaborative filtering for the Netflix Prize", eq. 5, with a
constant ridge instead of one weighted by counts); nothing here knows a party or a key.

    μ        mean rating                                ()
    b, Q     item biases and factors                    (n,), (n, k)
    P        user biases (column 0) and factors         (m, k+1)
    s        what the features say of P                 (m, k+1)
    X, G     features and their ridge map               (m, d)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy import sparse

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer]


@dataclass(frozen=True)
class Ratings:
    """Observed ratings: user (N,) in 0..m-1, item (N,) in 0..n-1, value (N,) in stars; shape is (m, n)."""

    user: Ints
    item: Ints
    value: Floats
    shape: tuple[int, int]

    def __post_init__(self) -> None:
        """Ratings are summed in one order, whatever the order of the rows: equal data give equal bits."""
        order = np.lexsort((self.item, self.user))
        for name, dtype in (("user", np.int64), ("item", np.int64), ("value", np.float64)):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype)[order])


@dataclass(frozen=True)
class Ridge:
    """Ridge weights of the fits, in units of squared stars; 0 would be no shrinkage. Found on random splits."""

    user: float = 10.0
    item: float = 20.0
    bias: float = 2.0


@dataclass(frozen=True)
class Factors:
    """A fitted model; P holds the part of the users that s does not explain."""

    μ: float
    b: Floats
    Q: Floats
    P: Floats

    @property
    def item_rows(self) -> Floats:
        """q'_i = [1 ; q_i] of every item, shape (n, k+1)."""
        return np.column_stack([np.ones(len(self.Q)), self.Q])


def fit(ratings: Ratings, k: int, ridge: Ridge, sweeps: int, rng: np.random.Generator) -> Factors:
    """Fit μ, b, Q and P from the ratings alone; people and items without ratings get zeros."""
    m, n = ratings.shape
    start = Factors(float(ratings.value.mean()), np.zeros(n), rng.normal(0, 0.1, (n, k)), np.zeros((m, k + 1)))
    return refit(start, ratings, np.zeros((m, k + 1)), ridge, sweeps)


def refit(model: Factors, ratings: Ratings, s: Floats, ridge: Ridge, sweeps: int) -> Factors:
    """Alternate: P around s (ridge towards P = 0), then Q and b with P + s fixed; end with P."""
    model = user_factors(model, ratings, s, ridge.user)
    for _ in range(sweeps):
        V = model.P + s
        by_item = Ratings(ratings.item, ratings.user, ratings.value, ratings.shape[::-1])
        rest = by_item.value - model.μ - V[by_item.item, 0]
        λ = np.array([ridge.bias, *[ridge.item] * (V.shape[1] - 1)])
        bQ = _ridge_rows(by_item, rest, np.column_stack([np.ones(len(V)), V[:, 1:]]), λ)
        model = user_factors(replace(model, b=bQ[:, 0], Q=bQ[:, 1:]), ratings, s, ridge.user)
    return model


def user_factors(model: Factors, ratings: Ratings, s: Floats, λ: float) -> Factors:
    """Return the model with P_u = argmin Σ_i (r − μ − b_i − q'_i·(s_u + p))² + λ‖p‖²."""
    rest = ratings.value - predict(model, s, ratings.user, ratings.item, own=False)
    return replace(model, P=_ridge_rows(ratings, rest, model.item_rows, np.full(model.Q.shape[1] + 1, λ)))


def ridge_map(X: Floats, λ: float) -> Floats:
    """Return G = X(XᵀX + λI)^-1, shape (m, d): s = G Xᵀ P. Every |G_ud| is at most 1 / (2√λ)."""
    return np.asarray(np.linalg.solve(X.T @ X + λ * np.eye(X.shape[1]), X.T).T)


def calibrate(model: Factors, ratings: Ratings, s: Floats) -> Floats:
    """Return the two scalars (bias, rest) that fit s to the label_holder's own ratings by least squares, shape (2,)."""
    bias = s[ratings.user, 0]
    rest = np.einsum("rk,rk->r", model.Q[ratings.item], s[ratings.user, 1:])
    target = ratings.value - model.μ - model.b[ratings.item]
    return np.asarray(np.linalg.lstsq(np.column_stack([bias, rest]), target, rcond=None)[0])


def scaled(s: Floats, calibration: Floats) -> Floats:
    """Return s with its bias column times the first scalar and the rest times the second."""
    return np.asarray(s * np.array([calibration[0], *[calibration[1]] * (s.shape[1] - 1)]))


def predict(model: Factors, s: Floats, user: Ints, item: Ints, own: bool = True) -> Floats:
    """Return r̂ in stars, not clipped; `own=False` leaves P out."""
    V = (model.P + s if own else s)[user]
    return np.asarray(model.μ + model.b[item] + V[:, 0] + np.einsum("rk,rk->r", model.Q[item], V[:, 1:]))


def pooled(train: Ratings, other: Ratings, k: int, ridge: Ridge, sweeps: int, rng: np.random.Generator) -> Factors:
    """Fit on the raw ratings of both halves as one owner could: the arm that federation is measured against.

    `other` holds the feature_holder's ratings of the same people by the same indices; both have the same shape.
    """
    pairs = zip((train.user, train.item, train.value), (other.user, other.item, other.value), strict=True)
    user, item, value = (np.concatenate(pair) for pair in pairs)
    return fit(Ratings(user, item, value, train.shape), k, ridge, sweeps, rng)


def _ridge_rows(ratings: Ratings, target: Floats, Q: Floats, λ: Floats) -> Floats:
    """Solve (Σ_i q_i q_iᵀ + diag λ) p_u = Σ_i q_i y_ui for every user at once, shape (m, k)."""
    k = Q.shape[1]
    where = (ratings.user, ratings.item)
    seen = sparse.csr_matrix((np.ones(len(target)), where), shape=ratings.shape)
    A = (seen @ (Q[:, :, None] * Q[:, None, :]).reshape(len(Q), k * k)).reshape(-1, k, k) + np.diag(λ)
    y = sparse.csr_matrix((target, where), shape=ratings.shape) @ Q
    return np.asarray(np.linalg.solve(A, y[:, :, None])[:, :, 0])
