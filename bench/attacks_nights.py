"""What an adversary reads between two nights of training: counts of raters, and sums of changes from one start."""

from __future__ import annotations

import numpy as np

from bench.attacks_crossing import Adversary
from bench.attacks_data import FOREIGN, Found, World, area
from bench.attacks_rounds import mean_area
from bench.attacks_watch import VICTIM, WEAK, Bank, another_order, banks_of, mean_of, watch, without_rows

ONE_ROUND = {"rounds": 1, "local_epochs": 1}


def newcomer(world: World) -> tuple[dict[str, Bank], frozenset[int]]:
    """Return the banks before one active person came to the last one, and that person's items; numbers stay."""
    user, item, rating = banks_of(world)[VICTIM]
    activity = np.bincount(user)
    person = np.argsort(activity)[-min(20, len(activity) // 2)]
    stay = user != person
    before = {**banks_of(world), VICTIM: (user[stay], item[stay], rating[stay])}
    return before, frozenset(item[~stay].tolist())


# Attacks, with what each counts


def counts(a: Adversary) -> Found:
    """Share of one newcomer's items that the difference of two nights' counts shows; weakened: an epoch a night."""
    before, had = newcomer(a.world)
    shares = list[float]()
    for labels in (("monday", "tuesday"), ("month", "month")):
        both = []
        for n, (banks, epoch) in enumerate(zip((before, banks_of(a.world)), labels, strict=True)):
            params, run = {**ONE_ROUND, "epoch": epoch}, f"counts-{epoch}-{n}"
            seen = watch(banks, a.world.items, params, a.world.seed, lasting=a.nights.nodes, run=run)
            both.append(seen.counts(FOREIGN))
        shown = set(np.flatnonzero(both[1] - both[0]).tolist())
        shares.append(len(shown & had) / len(had) if shown <= had else 0.0)
    return Found(shares[0], shares[1], 0.0)


def changes(a: Adversary) -> Found:
    """Area under the curve for a newcomer's items, by how sums of two nights differ that begin with one model.

    Weakened: one step over all ratings, which no order hides. Chance: for people who were there on both nights.
    """
    (before, had), areas = newcomer(a.world), list[float]()
    mean, known = mean_of(before), 0.5
    for params in ({**WEAK, "min_raters_per_item": 10}, {"rounds": 1}):
        first = watch(before, a.world.items, params, a.world.seed, mean=mean, private=without_rows)
        second = watch(banks_of(a.world), a.world.items, params, a.world.seed, mean=mean, private=another_order)
        rows, *at = np.intersect1d(first.rows[0], second.rows[0], return_indices=True)
        (one, w), (two, more) = (seen.change(0, FOREIGN) for seen in (first, second))
        w, more = np.maximum(w[at[0]], 1), np.maximum(more[at[1]], 1)
        scores = np.linalg.norm(two[at[1]] / more[:, None] - one[at[0]] / w[:, None], axis=1) * np.sqrt(w)
        areas.append(area(scores, np.isin(rows, list(had))))
        known = mean_area(scores, rows, before[VICTIM])
    return Found(areas[0], areas[1], known)


def changed_rating(a: Adversary, people: int = 4) -> Found:
    """Share of people of whom the row that differs most between two nights is the item whose rating they changed.

    All nights of a pipeline have one seed. Weakened: private choices depend on it alone, not on the rows.
    """
    world, shares = a.world, list[float]()
    banks, mean = banks_of(world), mean_of(banks_of(world))
    user, item, rating = banks[VICTIM]
    shared = np.flatnonzero((np.bincount(item, minlength=world.items) >= 10)[item])
    rows = np.random.default_rng(world.seed).permutation(shared)[:people]
    for draw in (without_rows, None):
        first = watch(banks, world.items, {"rounds": 1}, world.seed, mean=mean, private=draw)
        found = 0
        for row in rows:
            changed = rating.copy()
            changed[row] = 1.0 if rating[row] > 3 else 5.0
            other = {**banks, VICTIM: (user, item, changed)}
            second = watch(other, world.items, {"rounds": 1}, world.seed, mean=mean, private=draw)
            moved = np.linalg.norm(second.change(0, FOREIGN)[0] - first.change(0, FOREIGN)[0], axis=1)
            found += int(first.rows[0][np.argmax(moved)] == item[row])
        shares.append(found / people)
    return Found(shares[0], shares[1], 1 / len(first.rows[0]), people)
