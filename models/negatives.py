"""Items that a person did not have, drawn for training: as many for each positive as the model asks for.

Pool `clean` (`models.ranking`): any item that is not among the person's training items, as likely as another. What is
held out counts as any other item: a draw that spares it would show where it is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from base.errors import DataError
from models.histories import Counts, Histories

Ints = NDArray[np.integer]


def draw(rng: np.random.Generator, h: Histories, user: Ints, count: int) -> Counts:
    """Return items (len(user), count) that each `user` of `h` did not have; one may come twice.

    `DataError` for a user who had every item.
    """
    if np.any(np.diff(h.start) >= h.items):
        raise DataError(
            "somebody had every item", expected="an item that a person did not have", found="none",
            where="negatives for training", remedy="a larger catalogue",
        )  # fmt: skip
    had = np.sort(h.user.astype(np.int64) * h.items + h.item)
    first = np.repeat(user.astype(np.int64) * h.items, count)
    drawn = first + rng.integers(0, h.items, len(first))
    while len(again := np.flatnonzero(_among(drawn, had))):
        drawn[again] = first[again] + rng.integers(0, h.items, len(again))
    return np.asarray((drawn - first).reshape(len(user), count))


def _among(values: Counts, ascending: Counts) -> NDArray[np.bool_]:
    place = np.searchsorted(ascending, values)
    return np.asarray(ascending[np.minimum(place, len(ascending) - 1)] == values)
