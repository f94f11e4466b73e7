"""How often a label_holder may look at the columns of the same people.

Every view of s = Wᵀx under a fresh W tells k+1 further numbers about each x; after d/(k+1) views x itself is known. All
views together may tell at most a third of the d columns, over all runs, seeds and snapshots.
"""

from __future__ import annotations

from components.contract import Context
from components.quota import spend


def count_view(ctx: Context, peer: str, width: int, columns: int, version: str) -> int:
    """Return the number (0, 1, ...) of the view `version`; `ConsentError` when `peer` has used up its third.

    width    numbers about each person that the view tells (k+1)
    version  names what the view depends on; the same version is the same view, however often it is sent
    """
    remedy = "go on with the earlier model and refit its label side, lower embedding_size, or offer more columns"
    return spend(ctx, f"view.{peer}", width, columns // 3, version, "numbers about each person's columns", remedy)
