"""Ratings are of items that the catalogue holds; both splits say so in the same words."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from components.contract import Context
from features.indexing import positions


def item_positions(ctx: Context, ratings: pa.Table, items: pa.Array, catalogue: str) -> NDArray[np.int64]:
    """Return the position in `items` of every rating's item (n,); `DataError` when one is not in the `catalogue`."""
    found = positions(ratings["item_id"], items)
    unknown = int((found < 0).sum())
    ctx.require(
        unknown == 0, "ratings of items that the catalogue does not hold", expected=0, found=unknown,
        remedy=f"complete {catalogue} or drop these ratings",
    )  # fmt: skip
    return found
