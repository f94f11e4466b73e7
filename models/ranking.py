"""Where the item that a person took next stands among items that the person might have taken instead.

Leave-one-out as in He et al. (2017), "Neural Collaborative Filtering", WWW, section 4.1: the positive against 99 drawn
candidates. Beside it the same against the whole pool, since figures on candidates can put models into another order
(Krichene, Rendle 2020, "On Sampled Metrics for Item Recommendation", KDD).

    r       rank of the positive: how many rivals score at least as high, 0 for none. A tie counts against the positive
    HR@k    1 where r < k                        NDCG@k  1 / log2(r + 2) where r < k, else 0

Rivals come from a *pool*, and so do the negatives of a model that trains on some:

    clean     all items but the user's training items. A held-out item is in it like any other
    official  all items but those that the user had in any part, as in the code of NCF and its successors. It LEAKS: no
              held-out item is ever a negative in training while the candidates are, so a model that only remembers
              which items it met as negatives finds the positive every time
    isolate   as official, and training leaves out the candidates too. It LEAKS the list of the candidates
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from base.errors import DataError
from models.histories import Counts, Histories

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.integer]
Pool = Literal["clean", "official", "isolate"]

NONE = -1  # a user without a held-out item, who does not count
CELLS = 1 << 21  # scores of each arm that are in memory at once


def held_out_items(user: Ints, item: Ints, users: int) -> Counts:
    """Return each user's held-out item (users,), `NONE` where there is none; `DataError` for two of one user."""
    if len(np.unique(user)) != len(user):
        raise DataError("a part is not leave-one-out", expected="one row of a user", found="more", where="held out")
    found = np.full(users, NONE, np.int64)
    found[user] = item
    return found


def blocks(held_out: Counts, items: int) -> list[Counts]:
    """Return the users with a held-out item in some part, in blocks of which the scores of all `items` fit into memory.

    `held_out` (parts, U).
    """
    users, size = np.flatnonzero((held_out != NONE).any(axis=0)), max(1, CELLS // items)
    return [users[start : start + size] for start in range(0, len(users), size)]


def source(pool: Pool, train: Histories, held_out: Counts, users: Counts) -> Bools:
    """Return what candidates of the given users are drawn from, (len(users), I); `held_out` (parts, U)."""
    free: Bools = train.take(users).matrix().toarray() == 0
    if pool != "clean":
        for items in held_out[:, users]:
            rows = np.flatnonzero(items != NONE)
            free[rows, items[rows]] = False
    return free


def training_source(pool: Pool, free: Bools, candidates: Bools) -> Bools:
    """Return what a model may take as negatives in training, (users, I), of what `source` and `candidates` gave."""
    return free & ~candidates if pool == "isolate" else free


def without(free: Bools, positive: Counts) -> Bools:
    """Return `free` (users, I) without each user's positive (users,)."""
    rivals = free.copy()
    rivals[np.arange(len(positive)), positive] = False
    return rivals


def candidates(rng: np.random.Generator, rivals: Bools, count: int) -> Bools:
    """Return `count` of each user's `rivals` (users, I), any of them as likely as another.

    The draw for a user does not depend on the size of the blocks. `DataError` where a user has fewer rivals.
    """
    if len(rivals) and int(rivals.sum(axis=1).min()) < count:
        raise DataError(
            "an item is left out of too few others", expected=f"{count} items that a user did not have",
            found="fewer for some", where="candidates", remedy="fewer negatives",
        )  # fmt: skip
    keys = np.where(rivals, rng.random(rivals.shape), 2.0)
    drawn = np.zeros_like(rivals)
    np.put_along_axis(drawn, np.argpartition(keys, count - 1, axis=1)[:, :count], True, axis=1)
    return drawn


def ranks(scores: Floats, positive: Counts, rivals: Bools) -> Counts:
    """Return r (users,) for scores (users, I); a score that is not a number is one that the positive does not beat."""
    own = np.take_along_axis(scores, positive[:, None], axis=1)
    return np.asarray((rivals & ~(scores < own)).sum(axis=1))


def hit_ratio(rank: Counts, at: int) -> Floats:
    """Return each user's HR@`at` (users,), 0 or 1; parties add the sums before anyone divides."""
    return (rank < at).astype(np.float64)


def ndcg(rank: Counts, at: int) -> Floats:
    """Return each user's NDCG@`at` (users,), in 0..1; of one positive the ideal gain is 1."""
    return np.asarray(hit_ratio(rank, at) / np.log2(rank + 2))
