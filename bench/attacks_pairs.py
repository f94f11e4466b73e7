"""What an adversary does with a sum of pairs: G of EASE, and G from B."""

from __future__ import annotations

from contextlib import suppress
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from base.errors import AccordError
from bench.attacks_crossing import Adversary
from bench.attacks_data import ADVERSARY, FOREIGN, Found, Person, World
from components import released_statistics
from models import ease
from models.histories import Counts
from models.symmetric import Floats, enough_ridge, from_upper

REG = 500.0  # λ, public
KEPT = 10  # raters that a bank asks of an item by default
READ = 0.8  # a Jaccard index above it reads somebody


def peeled(G: Counts) -> list[Person]:
    """Return the histories (frozensets of items) that come off a Gram matrix of whole numbers, one after the other.

    An item with one rater left shows that person's history as its row. One with two shows what both have (2) and what
    one of them has (1), and these fall into two parts when pairs that nobody has hold them apart.
    """
    R, found, tried = G.copy(), list[Person](), set[tuple[int, int]]()

    def take(items: Counts) -> None:
        R[np.ix_(items, items)] -= 1
        found.append(frozenset(items.tolist()))

    while True:
        left = np.diag(R)
        for i in np.flatnonzero((left == 1) | (left == 2)).tolist():
            if (i, R[i].sum()) in tried:
                continue
            tried.add((i, R[i].sum()))
            parts = _one(R, i) if left[i] == 1 else _two(R, i)
            if parts:
                for items in parts:
                    take(items)
                break
        else:
            return found


def _one(R: Counts, i: int) -> list[Counts]:
    items = np.flatnonzero(R[i] == 1)
    return [items] if (R[np.ix_(items, items)] > 0).all() else []


def _two(R: Counts, i: int) -> list[Counts]:
    both, some = np.flatnonzero(R[i] == 2), np.flatnonzero(R[i] == 1)
    side = _two_sides(R[np.ix_(some, some)] == 0)
    return [] if side is None else [np.append(both, some[side]), np.append(both, some[~side])]


def _two_sides(apart: NDArray[np.bool_]) -> NDArray[np.bool_] | None:
    """Return a side (n,) for each so that what is `apart` (n, n) is; None when there is no way, or more than one."""
    side = np.full(len(apart), -1)
    side[:1], stack = 0, [0] if len(apart) else []
    while stack:
        k = stack.pop()
        others = np.flatnonzero(apart[k])
        if np.any(side[others] == side[k]):
            return None
        new = others[side[others] < 0]
        side[new] = 1 - side[k]
        stack.extend(new.tolist())
    return None if np.any(side < 0) else side == 0


def cliques(G: Counts, least: int, seeds: int = 100) -> list[Person]:
    """Return sets of items that all go together, from the pairs of `least` people between the rarest items.

    What goes with both items of a pair that one person has is that person's history and what others add to it; items
    that miss most of the others go, until all pairs are there.
    """
    i, j = np.nonzero(np.triu(least == G, 1))
    first = np.argsort(G[i, i] + G[j, j], kind="stable")[:seeds]
    return [_clique(least <= G, pair) for pair in zip(i[first], j[first], strict=True)]


def _clique(together: NDArray[np.bool_], pair: tuple[int, int]) -> Person:
    items = np.flatnonzero(together[pair[0]] & together[pair[1]])
    apart = ~together[np.ix_(items, items)]
    alive, missing, own = np.ones(len(items), bool), apart.sum(axis=1), np.isin(items, pair)
    while True:
        most = np.where(alive & ~own, missing, -1)
        k = most.argmax()
        if most[k] <= 0:
            return frozenset(items[alive].tolist())
        alive[k] = False
        missing = missing - apart[k]


def gram_from_weights(B: Floats, least: int) -> Floats:
    """Return G (I, I) from B of EASE alone, off the diagonal; `least` is the smallest count that is not zero.

    B_ij = −P_ij / P_jj and P is symmetric, so B_ir / B_ri = P_ii / P_rr: P but for a factor. Its inverse is G + λI but
    for a factor, and that G counts people gives the factor. The diagonal less λ is G's; λ is a public parameter.
    """
    live = np.flatnonzero(B.any(axis=0))
    b = B[np.ix_(live, live)]
    r = np.abs(b).sum(axis=0).argmax()
    p = np.divide(b[:, r], b[r], out=np.ones(len(live)), where=b[r] != 0)
    H = np.linalg.inv((np.eye(len(live)) - b) * p)
    values = np.sort(np.abs(H[~np.eye(len(live), dtype=bool)]))
    unit = values[values > values[-1] * 1e-6][0] / least
    G = np.zeros_like(B)
    G[np.ix_(live, live)] = H / unit
    return G


def newcomers(D: Counts) -> list[Person]:
    """Return histories read from the difference of two G: the row of each item that one of the new people has."""
    return [frozenset(np.flatnonzero(D[i] > 0).tolist()) for i in np.flatnonzero(np.diag(D) == 1)]


def gram(vector: Floats, items: int) -> Counts:
    """Return G (I, I) of a total."""
    return np.rint(from_upper(vector[: items * (items + 1) // 2], items)).astype(np.int64)


def weights(total: Counts) -> Floats:
    """Return B as every bank solves it without `complete`."""
    G = total.astype(np.float64)
    return ease.solve(G, enough_ridge(G, REG))


def given_back(total: Counts, least: int) -> Counts:
    """Return G as B alone gives it back."""
    found = np.rint(gram_from_weights(weights(total), least)).astype(np.int64)
    own = np.where(found.diagonal() > 0, found.diagonal() - round(REG), 0)  # λ is public, unless it was doubled
    np.fill_diagonal(found, total.diagonal() if least > 1 else own)
    return found


def nearest(found: list[Person], people: list[Person]) -> float:
    """Return the largest Jaccard index between something found and somebody; 0 where nothing was found."""
    return max((_index(one, other) for one in found for other in people), default=0.0)


def came(world: World, people: int) -> tuple[World, list[Person]]:
    """Return the world before so many people of the last bank came, and who came."""
    bank = FOREIGN[-1]
    h = world.banks[bank]
    new = np.random.default_rng([world.seed, people]).permutation(h.users)[:people]
    h = h.take(new)
    return world.without(bank, new), [frozenset(one.tolist()) for one in np.split(h.item, h.start[1:-1])]


def _index(one: Person, other: Person) -> float:
    return len(one & other) / len(one | other)


def _exact(found: list[Person], people: list[Person]) -> float:
    return len(set(people) & set(found)) / len(set(people))


def totals(a: Adversary) -> tuple[Counts, Counts]:
    """Return G as the total says it, with nothing left out and by the defaults."""
    n = a.world.items
    return gram(a.read("ease", True).total, n), gram(a.read("ease", False).total, n)


def foreign(a: Adversary) -> tuple[Counts, Counts]:
    """Return the other banks' part of G, with nothing left out and by the defaults."""
    n = a.world.items
    return gram(a.read("ease", True).foreign, n), gram(a.read("ease", False).foreign, n)


# Attacks, with what each counts


def peel(a: Adversary) -> Found:
    """Share of all people whose history comes off the total that everybody is told."""
    people = a.world.people()
    weakened, default = (_exact(peeled(G), people) for G in totals(a))
    return Found(weakened, default, 0.0, len(people))


def peel_foreign(a: Adversary) -> Found:
    """Share of the other banks' people whose history comes off the total less the own part."""
    people = a.world.people(FOREIGN)
    weakened, default = (_exact(peeled(G), people) for G in foreign(a))
    return Found(weakened, default, 0.0, len(people))


def peel_weights(a: Adversary) -> Found:
    """Share of all people whose history comes off what B, and nothing else, gives back of G."""
    people, (open_, default) = a.world.people(), totals(a)
    weakened, read = (_exact(peeled(given_back(G, least)), people) for G, least in ((open_, 1), (default, 3)))
    return Found(weakened, read, 0.0, len(people))


def clique(a: Adversary) -> Found:
    """Share of cliques around the rarest pairs that are somebody's history, or what a bank kept of one."""
    people, (open_, default) = set(a.world.people(FOREIGN)) | set(a.world.people(FOREIGN, KEPT)), foreign(a)
    weakened, read = (
        float(np.mean([one in people for one in found])) for found in (cliques(open_, 1), cliques(default, 3))
    )
    return Found(weakened, read, 0.0)


def clique_overlap(a: Adversary) -> Found:
    """Largest Jaccard index of a clique and what a bank kept of somebody; chance: of people who are not in the sum."""
    open_, default = foreign(a)
    found, kept = cliques(default, 3), a.world.people(FOREIGN, KEPT)
    weakened = nearest(cliques(open_, 1, 20), a.world.people(FOREIGN))
    return Found(weakened, nearest(found, kept), nearest(found, a.world.people([ADVERSARY], KEPT)))


def one_night(a: Adversary) -> Found:
    """Share of one person's items that the difference of two nights' G shows; weakened: the rule of epochs is off."""
    before, (person,) = came(a.world, 1)
    first = a.nights.run("ease", before.banks, epoch="nights")[0].foreign
    a.nights.run("ease", before.banks, epoch="nights")  # the same again is not refused
    default = np.zeros(())
    with suppress(AccordError):  # the bank whose people changed lets nothing out
        default = a.nights.run("ease", a.world.banks, epoch="nights")[0].foreign - first
    with patch.object(released_statistics, "_once", lambda *args: None):
        second = a.nights.run("ease", a.world.banks, epoch="nights")[0].foreign
    return Found(_shown(a, second - first, person), _shown(a, default, person) if default.size > 1 else 0.0, 0.0)


def _shown(a: Adversary, difference: Floats, person: Person) -> float:
    """Return the share of a person's items that the diagonal of a difference shows; 0 when it shows another one."""
    shown = set(np.flatnonzero(gram(difference, a.world.items).diagonal()).tolist())
    return len(shown & person) / len(person) if shown <= person else 0.0


def epochs_apart(a: Adversary, few: int = 10, many: int = 100) -> Found:
    """Share of those who came between two releases whose history is read; weakened: few came, default: many."""
    after = a.read("ease", False).foreign
    shares = list[float]()
    for people in (few, many):
        before, new = came(a.world, people)
        first = a.nights.run("ease", before.banks, epoch=f"month-{people}")[0].foreign
        found = newcomers(gram(after - first, a.world.items))
        shares.append(sum(nearest(found, [one]) > READ for one in new) / people)
    return Found(shares[0], shares[1], 0.0)
