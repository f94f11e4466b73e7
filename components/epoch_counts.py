"""Counts of raters as they leave a bank: once in an epoch of the accord, and until the next the same.

The difference of two nights' counts is what the people between them rated, as with the diagonal of a Gram matrix
(`released_statistics`). So the counts of an epoch's first training stand for all trainings of the epoch: new people
train the rows from the first night on, but weigh in from the next epoch.
"""

from __future__ import annotations

import json

import numpy as np

from base.canonical import digest
from base.errors import ConsentError
from components.contract import Context


def counts_of_epoch(ctx: Context, epoch: str, of: str, min_raters: int, counts: np.ndarray) -> np.ndarray:
    """Return the party's own counts (I + 2,) of this epoch, which are `counts` when there are none yet.

    Kept by `of` what they are (model and catalogue), and by roster. `ConsentError` when they were released with another
    threshold: the items between the two would show.
    """
    name = f"counts.{epoch or 'first'}.{digest([of, *ctx.parties('data_holder')])}"
    kept = ctx.keys.get(name)
    if kept is None:
        ctx.keys.put(name, json.dumps([min_raters, counts.tolist()]).encode())
        return counts
    before, found = json.loads(kept)
    if before != min_raters:
        raise ConsentError(
            "counts of this epoch left the house with another threshold", expected=before, found=min_raters,
            where=f"{ctx.party}, step {ctx.step}, min_raters_per_item",
            remedy="the threshold of this epoch, or agree on a new epoch in the accord",
        )  # fmt: skip
    return np.array(found, np.int64)
