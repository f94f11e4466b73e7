"""Integer indices of ids: a position in a sorted list, the same wherever the list is the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray


def sorted_ids(column: pa.ChunkedArray) -> pa.Array:
    """Return the distinct ids of a column, ascending by code point."""
    distinct = pc.unique(column)
    return distinct.take(pc.sort_indices(distinct))


def positions(column: pa.Array | pa.ChunkedArray, ids: pa.Array) -> NDArray[np.int64]:
    """Return the position of every id of a column in `ids`, -1 where it is not among them."""
    found = pc.fill_null(pc.index_in(column, value_set=ids), -1)
    return np.asarray(found.to_numpy(), dtype=np.int64)


def aligned_ids(column: pa.ChunkedArray, alignment: pa.Table) -> pa.Array:
    """Return the party's own id of every aligned index 0..m-1.

    `alignment` has `row` (in the party's distinct ids, ascending) and `index`; `column` is the party's id column.
    """
    rows = alignment.sort_by("index")["row"]
    return sorted_ids(column).take(rows.combine_chunks())


def rating_table(user: NDArray[np.int64], item: NDArray[np.int64], rating: NDArray[np.float64]) -> pa.Table:
    """Return ratings as the models read them: user int32, item int32, rating float32."""
    columns = {"user": user.astype(np.int32), "item": item.astype(np.int32), "rating": rating.astype(np.float32)}
    return pa.table(columns)


def rating_columns(table: pa.Table) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return user, item and rating of what `rating_table` made, each (n,) and of the type that it has there."""
    user, item, rating = (table[name].to_numpy() for name in ("user", "item", "rating"))
    return user, item, rating
