"""SLIST: a linear model from items to items that knows the order of time, in closed form from sums over users.

Choi, Kim, Lee, Shim, Lee (2021), "Session-aware Linear Item-Item Models for Session-based Recommendation", WWW,
section 4: a history of m items is split after each τ = 1..m−1 into a past s and a future t,

    min_B α‖X − XB‖² + (1−α)‖T − SB‖² + λ‖B‖²   with diag(B) = 0
    P = (αG + (1−α)SS + λI)^-1,  B = P(αG + (1−α)ST) − P·diag(g),  g such that diag(B) = 0

    X  histories, 0 and 1                      (U, I)    G = XᵀX, SS = SᵀS, ST = SᵀT (I, I): sums over users
    S  one row per split: exp(−(τ−p)/δ_past) for the item at place p ≤ τ      (Σ(m−1), I)
    T  exp(−(q−τ−1)/δ_future) for the item at place q > τ                     (Σ(m−1), I)

S and T are never built: what a pair at places p ≤ q, d apart, adds over all splits has a closed form,

    SS  e^(−d/δ_past)·(1 − r^(m−q)) / (1 − r),  r = e^(−2/δ_past)
    ST  Σ_{a=0..d−1} e^(−a/δ_past)·e^(−(d−1−a)/δ_future)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from models import ease
from models.histories import Counts, Histories, runs
from models.symmetric import Floats, places, ridge_inverse

REACH = 24  # decays: what is further apart weighs less than 1e-8 of a split and is left out


@dataclass(frozen=True)
class Decays:
    """How fast the weight of an item falls, in items of a history, > 0; found on validation items of MovieLens."""

    past: float = 5.0  # δ_past
    future: float = 3.0  # δ_future


def statistics(h: Histories, params: Decays) -> tuple[Floats, Floats, Floats]:
    """Return G, SS and ST (I, I); G in people, SS and ST in splits. ST_ij is of i before j, so it is not symmetric."""
    past, future = (np.exp(-np.arange(_far(params) + 1) / δ) for δ in (params.past, params.future))
    between = np.convolve(past, future)
    r = past[1] ** 2
    splits = (1 - r**h.age) / (1 - r)  # of each row (n,): Σ over the splits whose past has it, of its weight squared
    SS, ST = np.zeros((2, h.items, h.items))
    for i, q, steps in _pairs(h, _far(params)):
        ST[i] = np.bincount(h.item[q], between[steps], h.items)
        SS[i] = np.bincount(h.item[q], past[1:][steps] * splits[q], h.items)
    SS += SS.T + np.diag(np.bincount(h.item, splits, h.items))
    return ease.statistics(h), SS, ST


def contributions(h: Histories, params: Decays) -> Iterator[tuple[Counts, Floats]]:
    """Yield what each user adds to the packed upper triangles of G and SS and to ST, one after the other."""
    far, n = int(REACH * max(params.past, params.future)), h.items
    past, future = (np.exp(-np.arange(far + 1) / δ) for δ in (params.past, params.future))
    between, r, half = np.convolve(past, future), past[1] ** 2, n * (n + 1) // 2
    for items in h.lists():
        a, b = np.triu_indices(len(items))  # a not after b
        pair, splits = places(items[a], items[b], n), (1 - r ** (len(items) - 1 - b)) / (1 - r)
        near = b - a <= far
        order = near & (a < b)
        SS, ST = past[(b - a)[near]] * splits[near], between[(b - a)[order] - 1]
        later = 2 * half + items[a[order]].astype(np.int64) * n + items[b[order]]
        yield np.concatenate([pair, half + pair[near], later]), np.concatenate([np.ones(len(pair)), SS, ST])


def orders(h: Histories, params: Decays) -> Floats:
    """Return how many people had i before j, near enough to be in ST, (I, I): who is behind ST_ij."""
    N = np.zeros((h.items, h.items))
    for i, q, _ in _pairs(h, _far(params)):
        N[i] = np.bincount(h.item[q], minlength=h.items)
    return N


def solve(G: Floats, SS: Floats, ST: Floats, reg: float, α: float) -> Floats:
    """Return B (I, I); `reg` is λ > 0, in people, 0 ≤ α ≤ 1. `DataError` where P's inverse is not positive definite."""
    P = ridge_inverse(α * G + (1 - α) * SS, reg)
    B = P @ (α * G + (1 - α) * ST)
    B -= P * (np.diag(B) / np.diag(P))
    np.fill_diagonal(B, 0.0)
    return np.asarray(B)


def scores(B: Floats, h: Histories, users: Counts, input_decay: float) -> Floats:
    """Return Σ_p exp(−age_p/δ)·B_p for the given users, (len(users), I); `input_decay` is δ > 0, in items."""
    own = h.take(users)
    return np.asarray(own.matrix(np.exp(-own.age / input_decay)) @ B)


def _far(params: Decays) -> int:
    return int(REACH * max(params.past, params.future))


def _pairs(h: Histories, far: int) -> Iterator[tuple[int, Counts, Counts]]:
    """Yield each item, the rows q behind its own, at most `far` of each person, and how many rows are between."""
    for i, p in enumerate(h.by_item()):
        later = np.minimum(h.age[p], far)
        yield i, runs(p + 1, later), runs(np.zeros_like(p), later)
