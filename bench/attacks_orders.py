"""What an adversary does with ST of SLIST: one person's order of items."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bench.attacks_crossing import Adversary
from bench.attacks_data import FOREIGN, Found, World
from bench.attacks_pairs import KEPT, gram
from models import slist
from models.histories import Counts
from models.symmetric import Floats
from models.thresholds import enough_raters

FURTHEST = 40  # places that are told apart
UNIT = 2.0**-16  # the last bit of a value


def lone_orders(ST: Floats, between: Floats, unit: float = UNIT, furthest: int = FURTHEST) -> Floats:
    """Return D (I, I): how many places j comes after i in one person's history, where ST_ij says it exactly, else NaN.

    `between` (n,): what one person with the items n + 1 places apart adds to ST; `unit`: the last bit of a value.
    """
    table = {round(value / unit): n + 1 for n, value in enumerate(between[:furthest])}
    whole = np.rint(ST / unit).astype(int)
    D = np.full(ST.shape, np.nan)
    for value, places in table.items():
        D[whole == value] = places
    np.fill_diagonal(D, np.nan)
    D[~np.isnan(D) & ~np.isnan(D.T)] = np.nan
    return D


def chains(D: Floats, seeds: int, rng: np.random.Generator, density: float = 0.6) -> list[tuple[Counts, Floats]]:
    """Return (items, places) of fragments in which at least `density` of the distances fit, grown from single pairs."""
    S, found = np.where(np.isnan(D), -D.T, D), []
    pairs = np.argwhere(D > 0)
    for i, j in rng.permutation(pairs)[:seeds]:
        more = np.flatnonzero(np.abs(S[i] - (S[i, j] + S[j])) < 0.5)
        items, place = np.append(more, [i, j]), np.append(S[i, more], [0, S[i, j]])
        fits = np.abs(S[np.ix_(items, items)] - (place[None] - place[:, None])) < 0.5
        while len(items) > 3 and fits.sum(axis=1).min() < density * (len(items) - 1):
            keep = np.arange(len(items)) != fits.sum(axis=1).argmin()
            items, place, fits = items[keep], place[keep], fits[np.ix_(keep, keep)]
        found.append((items, place))
    return found


def gaps() -> Floats:
    """Return what one person with two items n + 1 places apart adds to ST, n = 0, 1, ..."""
    decays = slist.Decays()
    past, future = (np.exp(-np.arange(60) / δ) for δ in (decays.past, decays.future))
    return np.convolve(past, future)[:60]


def orders(a: Adversary, weakened: bool) -> Floats:
    """Return the distances that ST of the other banks shows of one person, NaN where it shows none."""
    n, foreign = a.world.items, a.read("slist", weakened).foreign
    G, D = gram(foreign, n), lone_orders(foreign[n * (n + 1) : -1].reshape(n, n), gaps())
    # By the default a pair has three people or more behind it, of whom one alone may have had the items in this order.
    return D if weakened else np.where((G >= 3) & (G <= 9), D, np.nan)


def places(world: World, least: int) -> Floats:
    """Return the place of each item in each foreign history as its bank kept it (people, I), NaN where it is not."""
    kept = [enough_raters(world.banks[bank], least) for bank in FOREIGN]
    found = [np.full((h.users, world.items), np.nan) for h in kept]
    for h, place in zip(kept, found, strict=True):
        place[h.user, h.item] = np.arange(len(h)) - h.start[h.user]
    return np.concatenate(found)


def somebody(place: Floats, items: Counts, at: Floats) -> bool:
    """Tell whether one person has these items at these places, seen from the first."""
    own = place[:, items] - place[:, items[:1]]
    return bool(np.any(np.all(own == np.asarray(at) - at[0], axis=1)))


def around(D: Floats, item: int) -> tuple[Counts, Floats]:
    """Return what row and column of one item say: items, and their places seen from it, itself first."""
    told = np.where(np.isnan(D[item]), -D[:, item], D[item])
    near: NDArray[np.int64] = np.flatnonzero(~np.isnan(told))
    return np.append(item, near), np.append(0.0, told[near])


def longest(a: Adversary) -> Found:
    """Items in the longest run of one person's order that is read right; chance: one item."""
    world, everybody, kept = a.world, places(a.world, 1), places(a.world, KEPT)
    raters = sum(world.banks[bank].raters for bank in FOREIGN)
    D = orders(a, True)
    lone = [around(D, int(i)) for i in np.flatnonzero(raters == 1)]
    weakened = max((len(items) for items, at in lone if somebody(everybody, items, at)), default=1)
    grown = chains(orders(a, False), 3000, np.random.default_rng(world.seed))
    return Found(weakened, max((len(items) for items, at in grown if somebody(kept, items, at)), default=1), 1.0)


def distances(a: Adversary, sample: int = 1000) -> Found:
    """Share of the distances read that are somebody's; STATED: by the default too, between two items of a pair."""
    shares = list[float]()
    for weakened, place in ((True, places(a.world, 1)), (False, places(a.world, KEPT))):
        D = orders(a, weakened)
        pairs = np.random.default_rng(1).permutation(np.argwhere(D > 0))[:sample]
        right = sum(somebody(place, pair, np.array([0.0, D[tuple(pair)]])) for pair in pairs)
        shares.append(right / max(len(pairs), 1))
    return Found(shares[0], shares[1], 1 / FURTHEST)
