"""What a party leaves out of its statistics before they are summed, so that no item or pair in them is of few people.

From a Gram matrix without this, items with one or two raters give whole histories away, one after the other. With it a
sum is still not differentially private. What a party left out it may put back for itself after the sum (`completed`),
and what the others left out it may expect to be there (`expected_counts`): both from what it has anyway.
"""

from __future__ import annotations

import numpy as np
from scipy.special import pdtr

from models.histories import Histories
from models.symmetric import Floats

MOST = 500.0  # of a rate: c < least is then least − 1 but for a few hundredths, and e^−rate is still a number


def enough_raters(h: Histories, least: int) -> Histories:
    """Return the histories without the items that fewer than `least` of these users had; the order stays."""
    keep = h.raters[h.item] >= least
    return Histories(h.user[keep], h.item[keep], h.users, h.items)


def enough_pairs(G: Floats, least: int, *others: Floats) -> tuple[Floats, ...]:
    """Return G and the others, all (I, I), with 0 for pairs that fewer than `least` people had by G = XᵀX.

    The diagonals stay: `enough_raters` is the rule for single items.
    """
    kept = least <= G
    np.fill_diagonal(kept, True)
    return tuple(np.where(kept, A, 0.0) for A in (G, *others))


def completed(
    total: tuple[Floats, ...], own: tuple[Floats, ...], released: tuple[Floats, ...], share: float
) -> tuple[Floats, ...]:
    """Return a party's sums with what it withheld put back, for its own use: they never leave it.

    Each argument is (G, ...), all (I, I): the sum over parties, the party's statistics, what it released of them. Where
    nobody released a pair, the party's own people stand for all; `share` is their part of all people, in (0, 1].
    """
    weight = np.where(total[0] == 0, 1 / share, 1.0)
    return tuple(T + weight * (A - R) for T, A, R in zip(total, own, released, strict=True))


def expected_counts(total: Floats, own: Floats, released: Floats, share: float, others: int, least: int) -> Floats:
    """Return G over all people (I, I) as a party can best know it, for its own use: own counts are exact.

    A pair that others let out is counted. Each of the `others` that did not let it out had c < `least` people with it,
    and c is expected as of a Poisson number: half from the own count, half from what items that have nothing to do with
    each other would have in common. `total`, `own`, `released` (of G) and `share` as in `completed`.
    """
    theirs, raters = total - released, np.diag(own)
    chance = np.outer(raters, raters)
    np.fill_diagonal(chance, 0.0)
    chance *= (own.sum() - raters.sum()) / max(chance.sum(), 1.0)
    rate = np.minimum((own + chance) / 2 * (1 / share - 1) / others, MOST)
    silent = np.maximum(others - np.floor(theirs / least), 0)  # at least so many let nothing out
    withheld = silent * rate * pdtr(least - 2, rate) / pdtr(least - 1, rate) if least > 1 else np.zeros_like(own)
    np.fill_diagonal(withheld, np.where(np.diag(theirs) == 0, raters * (1 / share - 1), 0))
    return np.asarray(own + theirs + withheld)
