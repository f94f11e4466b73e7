"""How often a label_holder may look at the columns of the same people: a count that the node's key store keeps.

Every view of s = Wᵀx under a fresh W tells k+1 further numbers about each x; after d/(k+1) views x itself is known. All
views together may tell at most a third of the d columns, over all runs, seeds and snapshots.
"""

from __future__ import annotations

from itertools import count

from base.errors import ConsentError
from components.contract import Context


def count_view(ctx: Context, peer: str, width: int, columns: int, version: str) -> int:
    """Return the number (0, 1, ...) of the view `version`; `ConsentError` when `peer` has used up its third.

    width    numbers about each person that the view tells (k+1)
    version  names what the view depends on; the same version is the same view, however often it is sent

    Each slot of the key store is written once and never changes.
    """
    used = 0
    for view in count():
        if 3 * (used + width) > columns:
            break
        kept = ctx.keys.keep(f"view.{peer}.{view}", f"{width} {version}".encode).decode()
        before, found = kept.split(" ", 1)
        if found == version:
            return view
        used += int(before)
    raise ConsentError(
        "no further view of these people's columns may be released",
        expected=f"at most {columns // 3} numbers a person over all models: a third of the columns",
        found=f"{used} released, {width} more asked for",
        where=f"{ctx.party}, step {ctx.step}",
        remedy="go on with the earlier model and refit its label side, lower embedding_size, or offer more columns",
    )
