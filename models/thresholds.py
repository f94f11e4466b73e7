"""What a party leaves out of its statistics before they are summed, so that no item or pair in them is of few people.

From a Gram matrix without this, items with one or two raters give whole histories away, one after the other. With it a
sum is still not differentially private. What a party left out it may put back for itself after the sum (`completed`).
"""

from __future__ import annotations

import numpy as np

from models.histories import Histories
from models.symmetric import Floats


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
