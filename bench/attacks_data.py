"""Whom attacks are about: three banks, of which the first is the adversary's, and what crosses between them.

MovieLens-100K where ACCORD_DATA has it, shared out by seed; else generated people, of whom nothing is measured.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.stats import mannwhitneyu

from bench.parties import Lasting, run_step
from bench.sets import BANKS, SETS
from components import horizontal_ease, horizontal_ials, horizontal_slist
from components.contract import Component, Context
from components.secure_sum import open_total
from crypto.packing import Lanes
from models import ease, slist
from models.histories import Counts, Histories
from models.symmetric import Floats
from models.thresholds import enough_raters

ADVERSARY, *FOREIGN = BANKS
ROLES = {"data_holder": BANKS, "aggregator": ("bureau",)}
OPEN = MappingProxyType({"min_raters": 1, "min_pairs": 1})  # the weakened setting: nothing is left out
PARTS: Mapping[str, tuple[Any, Component]] = {
    "ease": (horizontal_ease, horizontal_ease.COMPONENT),
    "slist": (horizontal_slist, horizontal_slist.COMPONENT),
    "ials": (horizontal_ials, horizontal_ials.COMPONENT),
}
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
class Seen:
    """One total that the adversary read, and what is left of it without its own part."""

    total: Floats
    foreign: Floats


class Watched:
    """A secure sum that tells what went in and came out: (values, lanes, round, total)."""

    def __init__(self, add: Any, tell: Callable[[Any, Lanes, int, Any], None]) -> None:
        """Watch `add`, what `open_total` gives."""
        self._add, self._tell = add, tell

    def __call__(self, values: Any, lanes: Lanes, round_number: int, *more: Any) -> Any:
        """Add, and tell."""
        found = self._add(values, lanes, round_number, *more)
        self._tell(values, lanes, round_number, found)
        return found

    def __getattr__(self, name: str) -> Any:
        """Return what else a sum says of itself."""
        return getattr(self._add, name)


class Nights:
    """Steps that run one after the other, with key stores that last; the adversary follows them as it should."""

    def __init__(self, folder: Path) -> None:
        """Keep what the parties keep below `folder`."""
        self.nodes, self._runs = Lasting(folder), 0

    def run(self, kind: str, banks: Mapping[str, Histories], **params: Any) -> list[Seen]:
        """Return what the adversary read of each sum, once it has crossed; models are not computed: nobody looks."""
        module, part = PARTS[kind]
        seen, self._runs = list[Seen](), self._runs + 1

        def tell(values: Floats, lanes: Lanes, round_number: int, found: Floats) -> None:
            own = np.ldexp(lanes.quantise(values.ravel()).astype(np.float64), -lanes.fraction)
            seen.append(Seen(found.astype(np.float64), found - own))

        def watching(ctx: Context, *given: Any, **named: Any) -> Any:
            add = open_total(ctx, *given, **named)
            return Watched(add, tell) if ctx.party == ADVERSARY else add

        with ExitStack() as stack:
            for where, name, other in (
                (module, "open_total", watching), (ease, "solve", lambda G, reg: G[:0]),
                (slist, "solve", lambda G, SS, ST, reg, α: G[:0]),
                (horizontal_ials, "_alone", lambda h, Q, params, loss: Q),
            ):  # fmt: skip
                stack.enter_context(patch.object(where, name, other))
            run_step(part, ROLES, _inputs(banks), params, lasting=self.nodes, run=f"night-{self._runs}")
        return seen


class Adversary:
    """The first bank, and what it has read so far; each sum crosses once."""

    def __init__(self, world: World, nights: Nights) -> None:
        """Nothing read yet."""
        self.world, self.nights = world, nights
        self._seen = dict[tuple[str, bool], Seen]()

    def read(self, kind: str, weakened: bool) -> Seen:
        """Return the one total of EASE or SLIST, by the defaults or with nothing left out."""
        if (kind, weakened) not in self._seen:
            params = {"epoch": f"{kind}-open", **OPEN} if weakened else {"epoch": f"{kind}-default"}
            (self._seen[kind, weakened],) = self.nights.run(kind, self.world.banks, **params)
        return self._seen[kind, weakened]


@dataclass(frozen=True)
class Found:
    """How far an attack gets, in its unit."""

    weakened: float
    default: float
    chance: float  # without the attack: by guessing, or by what the adversary knows anyway


@contextmanager
def adversary(world: World) -> Iterator[Adversary]:
    """Yield the adversary; the parties' stores are gone in the end."""
    with tempfile.TemporaryDirectory() as folder:
        yield Adversary(world, Nights(Path(folder)))


def _inputs(banks: Mapping[str, Histories]) -> dict[str, dict[str, Any]]:
    items = pa.table({"item_id": [f"{i:05}" for i in range(banks[ADVERSARY].items)]})
    return {
        bank: {
            "ratings": {
                "train": pa.table({"user": h.user, "item": h.item, "rating": np.ones(len(h), np.float32)}),
                "users": pa.table({"user_id": [f"{bank}{u}" for u in range(h.users)]}),
                "items": items,
            }
        }
        for bank, h in banks.items()
    }
