"""What an adversary does with rounds of averaging: one person's ratings, factors and items, from sums of changes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bench.attacks_crossing import Adversary
from bench.attacks_data import ADVERSARY, FOREIGN, Found, World, area
from bench.attacks_watch import DEFAULT, VICTIM, WEAK, Bank, Rounds, banks_of, mean_of, public, watch
from components.horizontal_mf import HorizontalMfParams
from models.histories import Counts
from models.symmetric import Floats


def one_person(world: World, rank: int = 1) -> tuple[dict[str, Bank], Counts, Floats]:
    """Return banks of which the last has one customer, its `rank`th most active; and that one's items and ratings."""
    banks = banks_of(world)
    user, item, rating = banks[VICTIM]
    mine = user == np.argsort(np.bincount(user))[-rank]
    at = np.argsort(item[mine])
    item, rating = item[mine][at], rating[mine][at]
    return {**banks, VICTIM: (np.zeros(len(item), int), item, rating)}, item, rating


def two_steps(seen: Rounds, parties: Sequence[str], mean: float) -> tuple[Counts, Floats]:
    """Chai et al. (2021), section 3.3, with biases: (items, ratings) of the one person behind two gradients.

    Δb = η(e − λb) shows e, Δq = η(e·p − λq) then shows p; how e changes from one step to the next shows b_u.
    """
    η, λ = seen.params.learning_rate, seen.params.reg
    V, e, p, items = list[Floats](), list[Floats](), list[Floats](), list[Counts]()
    for t in (0, 1):
        change, W = seen.change(t, parties)
        rows = np.flatnonzero(W > 0)
        v, Δv = seen.before[t][rows], change[rows] / W[rows, None]
        e.append(Δv[:, 0] / η + λ * v[:, 0])
        p.append(np.linalg.lstsq(e[-1][:, None], Δv[:, 1:] / η + λ * v[:, 1:], rcond=None)[0][0])
        V.append(v)
        items.append(seen.rows[t][rows])
    np.testing.assert_array_equal(items[0], items[1])
    explained = (V[1][:, 0] + V[1][:, 1:] @ p[1]) - (V[0][:, 0] + V[0][:, 1:] @ p[0])
    step = np.mean(e[0] - e[1] - explained)  # Δb_u = η(Σe − nλ b_u)
    η_u = min(η, 0.5 / len(e[0]))  # how models.mf takes many steps of one row at once
    b_u = (e[0].sum() - step / η_u) / (len(e[0]) * λ)
    return items[0], mean + b_u + V[0][:, 0] + V[0][:, 1:] @ p[0] + e[0]


# Attacks, with what each counts


def recovery(a: Adversary) -> Found:
    """Share of ratings read right by two gradients; weakened: one customer in the clear. Chance: item means."""
    world = a.world
    banks, _, truth = one_person(world)
    _, found = two_steps(watch(banks, world.items, WEAK, world.seed), [VICTIM], mean_of(banks))
    weakened = float(np.mean(np.clip(np.rint(found), 1, 5) == truth)) if len(found) == len(truth) else 0.0

    banks, mean = banks_of(world), mean_of(banks_of(world))
    items, found = two_steps(watch(banks, world.items, DEFAULT, world.seed), FOREIGN, mean)
    _, item, rating = banks[VICTIM]
    known, guess = np.isin(item, items), np.full((2, world.items), mean)
    guess[0, items], guess[1, items] = found, found - found.mean() + mean  # there is no single b_u: it is noticed
    hits = np.mean(np.clip(np.rint(guess[:, item[known]]), 1, 5) == rating[known], axis=1)
    own = np.mean(np.rint(item_means(banks[ADVERSARY], world.items, mean))[item[known]] == rating[known])
    return Found(weakened, float(hits.max()), float(own))


def item_means(bank: Bank, items: int, mean: float) -> Floats:
    """Return the means of items at a bank, shrunk to the mean."""
    _, item, rating = bank
    return (np.bincount(item, rating, minlength=items) + 3 * mean) / (np.bincount(item, minlength=items) + 3)


def lone_rows(a: Adversary) -> Found:
    """Share of the items of one foreign rater that show that person's factors; default: rows of fewer than 10 sent."""
    world, banks = a.world, banks_of(a.world)
    seen = watch(banks, world.items, WEAK, world.seed)
    change, W = seen.change(0, FOREIGN)
    single = np.flatnonzero(W == 1)
    η, λ, V = seen.params.learning_rate, seen.params.reg, seen.before[0][single]
    e = change[single, 0] / η + λ * V[:, 0]
    read = (change[single, 1:] / η + λ * V[:, 1:]) / e[:, None]
    right = 0
    for item, factors in zip(seen.rows[0][single], read, strict=True):
        bank = next(b for b in FOREIGN if item in banks[b][1])
        user, its, _ = banks[bank]
        start = seen.start(bank, int(user.max()) + 1)[user[its == item][0]]
        right += np.allclose(factors, start, atol=1e-4)
    seen = watch(banks, world.items, DEFAULT, world.seed)
    few = sum(_few(*seen.change(t, [bank])) for t in range(seen.params.rounds) for bank in banks)
    return Found(right / max(len(single), 1), few / (len(banks) * seen.params.rounds * world.items), 0.0, len(single))


def _few(change: Floats, w: Counts) -> int:
    return int(np.count_nonzero((w > 0) & (w < 10)) + np.count_nonzero(change[w == 0].any(axis=1)))


def one_bank(a: Adversary) -> Found:
    """Share of the rows of a round that are one other bank's once the own part is off; of 10 people or more."""
    world, shares = a.world, list[float]()
    for params in (WEAK, DEFAULT):
        seen = watch(banks_of(world), world.items, {**params, "rounds": 1, "local_epochs": 1}, world.seed)
        each = np.array([seen.counts([bank]) for bank in FOREIGN]) > 0
        shares.append(float(np.mean(each.sum(axis=0)[each.any(axis=0)] == 1)))
    return Found(shares[0], shares[1], 0.0)


def moved_rows(a: Adversary) -> Found:
    """Area under the curve for which items somebody had, by how rows moved. Chance: for people outside the sum."""
    world = a.world
    banks, item, _ = one_person(world, rank=min(20, world.banks[VICTIM].users))
    seen = watch(banks, world.items, WEAK, world.seed)
    moved = np.linalg.norm(seen.change(0, [VICTIM])[0], axis=1)
    weakened = area(moved, np.isin(seen.rows[0], item))

    seen, scores = watch(banks_of(world), world.items, DEFAULT, world.seed), np.zeros(world.items)
    for t in range(seen.params.rounds):
        scores[seen.rows[t]] += np.linalg.norm(seen.change(t, FOREIGN)[0], axis=1)
    rows = seen.rows[-1]
    inside, outside = (mean_area(scores[rows], rows, banks_of(world)[bank]) for bank in (VICTIM, ADVERSARY))
    return Found(weakened, inside, outside)


def mean_area(scores: Floats, rows: Counts, bank: Bank) -> float:
    """Return the mean, over a bank's people, of the area under the curve for which of `rows` they had."""
    user, item, _ = bank
    rated = (np.isin(rows, item[user == person]) for person in np.unique(user))
    return float(np.mean([area(scores, had) for had in rated if 10 <= had.sum() <= len(rows) - 10]))


def decoded_start(a: Adversary) -> Found:
    """Area under the curve for who rated what, from one bank's sums; weakened: the run's seed gives its start."""
    world, k = a.world, HorizontalMfParams().embedding_size
    user, item, rating = banks_of(world)[VICTIM]
    people = np.sort(np.argsort(np.bincount(user))[-k - 1 :])  # as many as there are equations for each item
    mine = np.isin(user, people)
    small = np.searchsorted(people, user[mine]), item[mine], rating[mine]
    params, areas = {**WEAK, "min_raters_per_item": 10, "start_deviation": 0.1}, list[float]()
    for draw in (public, None):
        seen = watch({**banks_of(world), VICTIM: small}, world.items, params, world.seed, private=draw)
        change, w = seen.change(0, [VICTIM])
        rows = np.flatnonzero(w)
        # Σ_u e_ui [1 ; p_u] for each item, with the P_0 that the run seed gives.
        η, λ, V = seen.params.learning_rate, seen.params.reg, seen.before[0][rows]
        observed = change[rows] / w[rows, None] / η + λ * w[rows, None] * V
        start = seen.start(VICTIM, k + 1, private=False)
        e = np.linalg.solve(np.column_stack([np.ones(k + 1), start]).T, observed.T)  # (people, rows)
        had = np.zeros((k + 1, world.items), bool)
        had[small[0], small[1]] = True
        areas.append(area(np.abs(e).ravel(), had[:, seen.rows[0][rows]].ravel()))
    return Found(areas[0], areas[1], 0.5)
