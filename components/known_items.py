"""Ratings are of items that the catalogue holds: all splits say so in the same words, and pass on the same items."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from components.contract import Context
from features.indexing import positions


def numeric_items(catalogue: pa.Table, items: pa.Array) -> pa.Table:
    """Return the items' ids, ascending, and what the catalogue says of them in numbers (`models.attribute_map`)."""
    first = positions(items, catalogue["item_id"].combine_chunks())
    numbers = [field.name for field in catalogue.schema if pa.types.is_primitive(field.type)]
    return catalogue.select(["item_id", *numbers]).take(first).combine_chunks()


def item_positions(ctx: Context, ratings: pa.Table, items: pa.Array, catalogue: str) -> NDArray[np.int64]:
    """Return the position in `items` of every rating's item (n,); `DataError` when one is not in the `catalogue`."""
    found = positions(ratings["item_id"], items)
    unknown = int((found < 0).sum())
    ctx.require(
        unknown == 0, "ratings of items that the catalogue does not hold", expected=0, found=unknown,
        remedy=f"complete {catalogue} or drop these ratings",
    )  # fmt: skip
    return found
