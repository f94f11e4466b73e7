"""The most popular items for everyone: what any recommender has to beat.

n  (I,)  users of each item; a sum over parties
"""

from __future__ import annotations

import numpy as np

from models.histories import Counts, Histories
from models.symmetric import Floats


def statistics(h: Histories) -> Counts:
    """Return n (I,), users of each item."""
    return h.raters


def scores(n: Counts, h: Histories, users: Counts) -> Floats:
    """Return the scores (len(users), I): n for everyone, own items included."""
    return np.tile(n.astype(np.float64), (len(users), 1))
