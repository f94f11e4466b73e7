"""Whom attacks are about: three banks, of which the first is the adversary's.

MovieLens-100K where ACCORD_DATA has it, shared out by seed; else generated people, of whom nothing is measured.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import mannwhitneyu

from bench.sets import BANKS, SETS
from models.histories import Counts, Histories
from models.symmetric import Floats
from models.thresholds import enough_raters

ADVERSARY, *FOREIGN = BANKS
PEOPLE, ITEMS = 600, 1200  # of generated data
Person = frozenset[int]  # the items that somebody had


@dataclass(frozen=True)
class World:
    """A data set at three banks: histories in the order of time, and the ratings in the same order."""

    origin: str
    seed: int
    banks: Mapping[str, Histories]
    ratings: Mapping[str, Floats]  # (n,), beside the rows of the histories

    @property
    def items(self) -> int:
        """How many items the catalogue has."""
        return self.banks[ADVERSARY].items

    def people(self, parties: Sequence[str] = BANKS, least: int = 1) -> list[Person]:
        """Return the people's items at the parties, without items of fewer than `least` raters at a party."""
        kept = [enough_raters(self.banks[party], least) for party in parties]
        return [frozenset(one.tolist()) for h in kept for one in np.split(h.item, h.start[1:-1])]

    def smaller(self, people: int, items: int) -> World:
        """Return the world of so many people of each bank and so many items, both drawn."""
        rng = np.random.default_rng([self.seed, people, items])
        number = np.full(self.items, -1, np.int32)
        number[np.sort(rng.permutation(self.items)[:items])] = np.arange(items, dtype=np.int32)
        banks, ratings = {}, {}
        for bank, h in self.banks.items():
            users = np.sort(rng.permutation(h.users)[:people])
            person = np.full(h.users, -1, np.int32)
            person[users] = np.arange(len(users), dtype=np.int32)
            keep = (person[h.user] >= 0) & (number[h.item] >= 0)
            banks[bank] = Histories(person[h.user[keep]], number[h.item[keep]], len(users), items)
            ratings[bank] = self.ratings[bank][keep]
        return replace(self, banks=banks, ratings=ratings)

    def without(self, bank: str, users: Counts) -> World:
        """Return the world before these users of a bank came, who are numbered anew there."""
        h = self.banks[bank]
        stay = np.setdiff1d(np.arange(h.users), users)
        rows = np.isin(h.user, stay)
        banks = {**self.banks, bank: h.take(stay)}
        return replace(self, banks=banks, ratings={**self.ratings, bank: self.ratings[bank][rows]})


def world(seed: int) -> World:
    """Return MovieLens-100K, or generated data, shared out by seed."""
    if os.environ.get("ACCORD_DATA"):
        raw = SETS["ml-100k"](Path(os.environ["ACCORD_DATA"]) / "ml-100k")
        rows, origin = np.column_stack([raw.user, raw.item, raw.rating, _times(raw.time)]), "ml-100k, all ratings"
        items = np.unique(raw.items)
    else:
        rows, origin = generated(seed), "generated: ACCORD_DATA names no folder"
        items = np.arange(ITEMS)
    return _shared_out(rows, items, origin, seed)


def generated(seed: int) -> Counts:
    """Return rows of person, item, rating and time: popularity falls as 1 / rank, so that many items are rare."""
    rng = np.random.default_rng([seed, 0x5EED])
    popularity, rows = 1 / np.arange(1, ITEMS + 1), list[tuple[int, int, int, int]]()
    for person, size in enumerate(np.clip(25 * rng.lognormal(0, 0.7, PEOPLE), 8, 100).astype(int)):
        for item in rng.choice(ITEMS, size, replace=False, p=popularity / popularity.sum()).tolist():
            rows.append((person, item, int(rng.integers(1, 6)), int(rng.integers(1, 10**6))))
    return np.array(rows)


def _times(time: Counts | None) -> Counts:
    assert time is not None
    return time


def _shared_out(rows: Counts, items: Counts, origin: str, seed: int) -> World:
    rng = np.random.default_rng([seed, 0xBA2C])
    numbers, user = np.unique(rows[:, 0], return_inverse=True)
    item, tie = np.searchsorted(items, rows[:, 1]), rng.permutation(len(items))
    order = np.lexsort((tie[item], rows[:, 3], user))
    user, item, rating = user[order], item[order].astype(np.int32), rows[order, 2].astype(np.float64)
    bank, banks, ratings = rng.permutation(np.arange(len(numbers)) % len(BANKS)), {}, {}
    for n, party in enumerate(BANKS):
        mine, own = bank[user] == n, np.flatnonzero(bank == n)
        person = np.searchsorted(own, user[mine]).astype(np.int32)
        banks[party] = Histories(person, item[mine], len(own), len(items))
        ratings[party] = rating[mine]
    return World(origin, seed, banks, ratings)


def area(scores: Floats, positive: NDArray[np.bool_]) -> float:
    """Return the area under the ROC curve of n scores: 0.5 is chance; ties count half."""
    found = mannwhitneyu(scores[positive], scores[~positive]).statistic
    return float(found / (positive.sum() * (~positive).sum()))


@dataclass(frozen=True)
class Found:
    """How far an attack gets, in its unit."""

    weakened: float
    default: float
    chance: float  # without the attack: by guessing, or by what the adversary knows anyway
    of: int = 0  # how many things a share is of; 0 where it is no share of things
