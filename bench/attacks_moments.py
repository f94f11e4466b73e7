"""What an adversary does with the normal equations of iALS: Σ p pᵀ, Σ p and the number of people of every item."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from bench.attacks_crossing import Adversary
from bench.attacks_data import FOREIGN, Found, World, area
from components.horizontal_ials import HorizontalIalsParams
from models import ials
from models.histories import Histories
from models.symmetric import Floats, from_upper
from models.thresholds import enough_raters

LOSS = ials.Loss()
DEFAULT = HorizontalIalsParams()
Pair = tuple[int, int]
Sweep = tuple[Floats, Floats]  # Q that a sweep started from, foreign item sums


def spans(sums: Floats, d: int, most: int) -> dict[int, tuple[Floats, Floats]]:
    """Return {item: (basis (d, n), its eigenvalues (n,))} of Σ p pᵀ for items with at most `most` < d raters."""
    found, f = {}, d * (d + 1) // 2
    for item in np.flatnonzero((sums[:-1, -1] > 0) & (sums[:-1, -1] <= most)):
        values, vectors = np.linalg.eigh(from_upper(sums[item, :f], d))
        n = round(sums[item, -1])
        found[int(item)] = vectors[:, -n:], values[-n:]
    return found


def shared_raters(sums: Floats, d: int) -> dict[Pair, Floats]:
    """Return {(item, item): ±p_u (d,)} of the one person who had both of two items, from iALS's item sums (I + 1, f).

    Σ p pᵀ of n < d people spans the space of their n factors. The spaces of two items with n + m ≤ d meet in the
    factors of people that are in both, and p = s·v has s²·vᵀA⁺v = 1 for everyone that A is a sum over.
    """
    spaces = spans(sums, d, d - 1)
    found, items = {}, sorted(spaces)
    for a in items:
        U, values = spaces[a]
        for b in items[: items.index(a)]:
            W = spaces[b][0]
            if U.shape[1] + W.shape[1] > d:
                continue
            left, cosines, _ = np.linalg.svd(U.T @ W, full_matrices=False)
            if cosines[0] > 0.9999 and (len(cosines) == 1 or cosines[1] < 0.999):
                v = left[:, 0]
                found[b, a] = U @ v / np.sqrt((v**2 / values).sum())
    return found


def one_more(sums: Floats, d: int) -> Floats:
    """Return pairs of items (k, 2) of which the first had one rater more and else the same: tr ΔΣppᵀ = ‖ΔΣp‖²."""
    held = np.flatnonzero(np.rint(sums[:-1, -1]) > 0)
    row, column = np.triu_indices(d)
    trace, Σp, n = sums[held, : len(row)][:, row == column].sum(axis=1), sums[held, -d - 1 : -1], sums[held, -1]
    i, j = np.nonzero(np.rint(n[:, None] - n) == 1)
    one = ((Σp[i] - Σp[j]) ** 2).sum(axis=1)
    alike = np.abs(trace[i] - trace[j] - one) < 1e-3 * one
    return np.asarray(np.column_stack([held[i], held[j]])[alike])


def history_of(pair: Pair, sweeps: list[Sweep], loss: ials.Loss) -> frozenset[int]:
    """Return the items of the one person who had both of `pair`, from [(Q, item sums)] of every sweep.

    p_u solves its own normal equations for the Q that all know; they are linear in which items u had:
    Σ_i x_i (q_i(1 − q_iᵀp) − λp) = α₀QᵀQp + λα₀I·p, d equations a sweep, x within 0..1 (for ν = 1).
    """
    left, right = [], []
    kept = np.flatnonzero(np.rint(sweeps[0][1][:-1, -1]) > 0)
    for Q, sums in sweeps[1:]:  # the first Q is small, so p is
        p = shared_raters(sums[[*pair, -1]], Q.shape[1]).get((0, 1))
        if p is not None:
            p = p if p @ Q[pair[0]] > 0 else -p
            left.append((Q * (1 - Q @ p)[:, None] - loss.reg * p).T[:, kept])
            right.append(loss.α0 * (Q.T @ (Q @ p) + loss.reg * len(Q) * p))
    A, y = np.concatenate(left), np.concatenate(right)
    solved = minimize(
        lambda x: (((A @ x - y) ** 2).sum() / 2, A.T @ (A @ x - y)), np.full(len(kept), 0.1), jac=True,
        bounds=[(0, 1)] * len(kept), method="L-BFGS-B",
        options={"maxiter": 1500, "maxfun": 4000, "ftol": 1e-15, "gtol": 1e-10},
    )  # fmt: skip
    return frozenset(kept[solved.x > 0.5].tolist())


def membership(h: Histories, item: int, sweep: Sweep, loss: ials.Loss) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Return two scores (users,) for whether each had `item`, from all their other items, and whether they had it.

    Everybody in a sum Σ p pᵀ = A has pᵀA⁺p ≤ 1, and of the others few do where hardly more than d people are in it:
    the first score is −pᵀA⁺p, p as it would be with the item. The second is the model's own, without the item.
    """
    Q, sums = sweep
    d, had = Q.shape[1], np.zeros(h.users, bool)
    had[h.user[h.item == item]] = True
    rest = h.item != item
    other = Histories(h.user[rest], h.item[rest], h.users, h.items)
    user = np.append(other.user, np.arange(h.users, dtype=np.int32))
    order = np.argsort(user, kind="stable")
    items = np.append(other.item, np.full(h.users, item, np.int32))[order]
    P = ials.user_step(Histories(user[order], items, h.users, h.items), Q, loss)
    inverse = np.linalg.pinv(from_upper(sums[item, : d * (d + 1) // 2], d))
    return -((P @ inverse) * P).sum(axis=1), ials.user_step(other, Q, loss) @ Q[item], had


def trained(world: World, least: int, d: int, sweeps: int) -> list[Sweep]:
    """Return what the adversary reads of every sweep, in fixed point of 16 bits.

    Without a step, which would refuse such thresholds and dimensions.
    """
    read, Q = list[Sweep](), np.random.default_rng(world.seed).normal(0.0, 0.1 / np.sqrt(d), (world.items, d))
    kept = {bank: enough_raters(h, least) for bank, h in world.banks.items()}
    for _ in range(sweeps):
        sums = {bank: ials.item_sums(h, ials.user_step(h, Q, LOSS)) for bank, h in kept.items()}
        whole = {bank: np.ldexp(np.rint(np.ldexp(one, 16)), -16) for bank, one in sums.items()}
        read.append((Q, np.sum([whole[bank] for bank in FOREIGN], axis=0)))
        Q = ials.solve_items(np.sum(list(whole.values()), axis=0), d, LOSS)
    return read


def owners(world: World, sweep: Sweep, least: int, factors: Iterable[Floats]) -> list[int | None]:
    """Return for each of ±p whose factors it is within 2 %, a person's number or None."""
    kept = [enough_raters(world.banks[bank], least) for bank in FOREIGN]
    P = np.concatenate([ials.user_step(h, sweep[0], LOSS) for h in kept])
    length, found = np.linalg.norm(P, axis=1), list[int | None]()
    for p in factors:
        away = np.minimum(np.linalg.norm(P - p, axis=1), np.linalg.norm(P + p, axis=1))
        nearest = int(np.argmin(away))
        found.append(nearest if away[nearest] < 0.02 * length[nearest] else None)
    return found


def single(sums: Floats, d: int) -> Floats:
    """Return Σ p of every item with one rater (items, d): that person's factors."""
    return sums[np.flatnonzero(np.rint(sums[:-1, -1]) == 1), -d - 1 : -1]


def default_sums(a: Adversary) -> Floats:
    """Return the foreign item sums of the second sweep by the defaults."""
    seen = a.nights.run("ials", a.world.banks, epoch="ials", second_moments=True, sweeps=2)
    return seen[1].foreign.reshape(a.world.items + 1, -1)


# Attacks, with what each counts


def lone_rater(a: Adversary, d: int = 32) -> Found:
    """Share of the other banks' people whose factors stand in an item of one rater; weakened: no least number."""
    people, sweep = len(a.world.people(FOREIGN)), trained(a.world, 1, d, 2)[1]
    read = set(owners(a.world, sweep, 1, single(sweep[1], d))) - {None}
    return Found(len(read) / people, len(single(default_sums(a), DEFAULT.embedding_size)) / people, 0.0, people)


def meeting(a: Adversary, d: int = 32, least: int = 10) -> Found:
    """Share of the other banks' people whose factors are read where two items meet; weakened: fewer raters than d."""
    people, sweep = len(a.world.people(FOREIGN)), trained(a.world, least, d, 2)[1]
    read = set(owners(a.world, sweep, least, shared_raters(sweep[1], d).values())) - {None}
    return Found(len(read) / people, len(shared_raters(default_sums(a), DEFAULT.embedding_size)) / people, 0.0, people)


def tested(a: Adversary) -> Found:
    """Area under the curve for whether somebody had an item, all else known; chance: what the model itself tells."""
    weakened, _ = areas(a.world, 33, 32)
    by_default, model = areas(a.world, DEFAULT.min_raters, DEFAULT.embedding_size)
    return Found(weakened, by_default, model)


def areas(world: World, least: int, d: int, rarest: int = 15) -> tuple[float, float]:
    """Return the areas under the curve of the two scores of `membership` for the items with the fewest raters."""
    sweep, kept = trained(world, least, d, 4)[3], {bank: enough_raters(world.banks[bank], least) for bank in FOREIGN}
    n = np.rint(sweep[1][:-1, -1])
    found = [
        membership(h, int(item), sweep, LOSS)
        for item in np.argsort(np.where(n > 0, n, np.inf), kind="stable")[:rarest]
        for h in kept.values() if h.raters[item]
    ]  # fmt: skip
    *scores, had = map(np.concatenate, zip(*found, strict=True))
    sum_tells, model_tells = (area(score, had) for score in scores)
    return sum_tells, model_tells
