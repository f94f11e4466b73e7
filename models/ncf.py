"""Neural collaborative filtering, GMF, MLP and NeuMF: the model and its scores. `models.ncf_training` trains it.

He, Liao, Zhang, Nie, Hu, Chua (2017), "Neural Collaborative Filtering", WWW, eq. 8-12. The row of a person and that of
an item are cut into columns for GMF and columns for MLP, p = [pᴳ pᴹ] and q = [qᴳ qᴹ]:

    φ_GMF = pᴳ ⊙ qᴳ                                                      (eq. 8)
    φ_MLP = a_L,  a_l = max(0, W_l a_(l-1) + b_l),  a_0 = [pᴹ qᴹ]        (eq. 10)
    s_ui  = hᵀ [φ_GMF φ_MLP],  ŷ_ui = σ(s_ui)                            (eq. 12; GMF and MLP have one of the two)

W_1 a_0 = W_1ᴾ pᴹ + W_1ⱽ qᴹ, so the widest layer is multiplied once for each row of P and V and not for each pair.

    V (I, c)  items, shared in horizontal training        θ (D,)  all W_l, b_l and h, flat; shared
    P (U, c)  people, never leave their party             c       columns of GMF and of MLP, side by side
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from models.histories import Counts

Floats = NDArray[np.float64]
Layers = list[tuple[Floats, Floats]]  # (W_1, b_1), ..., (W_L, b_L)
CELLS = 1 << 21  # numbers of the widest layer that scoring has in memory at once


@dataclass(frozen=True)
class Form:
    """Sizes of a model; GMF has no layers and no columns for them, MLP no columns for GMF, NeuMF all."""

    factors: int = 16  # columns of pᴳ
    embedding: int = 32  # columns of pᴹ
    layers: tuple[int, ...] = (32, 16, 8)  # widths of a_1, ..., a_L

    @classmethod
    def of(cls, array: NDArray[np.integer]) -> Form:
        """Return the form that `to_array` wrote down."""
        factors, embedding, *layers = array.tolist()
        return cls(factors, embedding, tuple(layers))

    def to_array(self) -> Counts:
        """Return the sizes as a model keeps them."""
        return np.array([self.factors, self.embedding, *self.layers])

    @property
    def columns(self) -> int:
        """Return c."""
        return self.factors + self.embedding

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Return the shapes of W_1, b_1, ..., W_L, b_L, h."""
        widths = (2 * self.embedding, *self.layers)
        found: list[tuple[int, ...]] = [shape for n, m in pairwise(widths) for shape in ((m, n), (m,))]
        return [*found, (self.factors + widths[-1],)]

    @property
    def size(self) -> int:
        """Return D."""
        return sum(int(np.prod(shape)) for shape in self.shapes)

    def cut(self, θ: Floats) -> tuple[Layers, Floats]:
        """Return (W_1, b_1), ..., (W_L, b_L) and h as views of θ (D,)."""
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes])
        *parts, h = (part.reshape(shape) for part, shape in zip(np.split(θ, ends[:-1]), self.shapes, strict=True))
        return list(zip(parts[::2], parts[1::2], strict=True)), h


@dataclass
class Model:
    """State of the model; training changes the arrays in place."""

    form: Form
    θ: Floats  # (D,)
    V: Floats  # (I, c)
    P: Floats  # (U, c)


def start_layers(rng: np.random.Generator, form: Form) -> Floats:
    """Return θ (D,): weights of variance 2 / (inputs + outputs) (Glorot, Bengio 2010, eq. 16), biases 0."""
    θ = np.zeros(form.size)
    layers, h = form.cut(θ)
    for W in (*(W for W, _ in layers), h[None]):
        W[:] = rng.normal(0.0, np.sqrt(2 / sum(W.shape)), W.shape)
    return θ


def start_rows(rng: np.random.Generator, rows: int, form: Form, deviation: float) -> Floats:
    """Return normal starting rows (rows, c); with all zero no row would ever move."""
    return rng.normal(0.0, deviation, (rows, form.columns))


def scores(model: Model, users: Counts) -> Floats:
    """Return s of the given users for all items, (len(users), I); own items included."""
    (layers, h), k, V = model.form.cut(model.θ), model.form.factors, model.V
    found = np.empty((len(users), len(V)))
    size = max(1, CELLS // (len(V) * max((len(b) for _, b in layers), default=1)))
    for start in range(0, len(users), size):
        P = model.P[users[start : start + size]]
        of_P, of_V = first(layers, P[:, k:], V[:, k:])
        a = tower(layers, (of_P[:, None] + of_V).reshape(len(P) * len(V), of_V.shape[1]))
        found[start : start + size] = (P[:, :k] * h[:k]) @ V[:, :k].T + (a[-1] @ h[k:]).reshape(len(P), len(V))
    return found


def first(layers: Layers, P: Floats, V: Floats) -> tuple[Floats, Floats]:
    """Return W_1ᴾ pᴹ of every row of P and W_1ⱽ qᴹ + b_1 of every row of V; for GMF the rows, of no columns."""
    for W, b in layers[:1]:
        return P @ W[:, : P.shape[1]].T, V @ W[:, P.shape[1] :].T + b
    return P, V


def tower(layers: Layers, z: Floats) -> list[Floats]:
    """Return a_1, ..., a_L of n pairs, (n, width) each, from z = W_1 a_0 + b_1."""
    a = [np.maximum(z, 0.0)]
    for W, b in layers[1:]:
        a.append(np.maximum(a[-1] @ W.T + b, 0.0))
    return a
