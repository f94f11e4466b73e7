"""Integer indices of ids: a position in a sorted list, the same wherever the list is the same."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from base.errors import DataError

DIGEST = b"ids"  # in the metadata of an alignment: of which ids it is
_SLICE = 1 << 18  # ids


def sorted_ids(column: pa.ChunkedArray) -> pa.Array:
    """Return the distinct ids of a column, ascending by code point."""
    distinct = pc.unique(column)
    return distinct.take(pc.sort_indices(distinct))


def positions(column: pa.Array | pa.ChunkedArray, ids: pa.Array) -> NDArray[np.int64]:
    """Return the position of every id of a column in `ids`, -1 where it is not among them."""
    found = pc.fill_null(pc.index_in(column, value_set=ids), -1)
    return np.asarray(found.to_numpy(), dtype=np.int64)


def alignment_table(rows: NDArray[np.int64], digest: bytes) -> pa.Table:
    """Return an alignment: `row`, in the distinct ids with this `ids_digest`, of every aligned `index` 0..m-1."""
    columns = {"row": rows.astype(np.int64), "index": np.arange(len(rows), dtype=np.int64)}
    return pa.table(columns, metadata={DIGEST: digest.hex()})


def aligned_ids(column: pa.ChunkedArray, alignment: pa.Table) -> pa.Array:
    """Return the party's own id of every aligned index 0..m-1.

    `alignment` is as `alignment_table` makes it, `column` the party's id column. `DataError` where the alignment does
    not say of which ids it is, or is of others: its rows would be other people.
    """
    ids, aligned = sorted_ids(column), (alignment.schema.metadata or {}).get(DIGEST)
    if aligned is None:
        raise DataError(
            "an alignment does not say of which ids it is", expected="the digest of the aligned ids", found="none",
            remedy="the alignment of an alignment step",
        )  # fmt: skip
    if aligned != ids_digest(ids).hex().encode():
        raise DataError(
            "another table than was aligned", expected="the ids of the alignment", found="other ids",
            remedy="name the table of the alignment step here too, or align again if the data are new",
        )  # fmt: skip
    return ids.take(alignment.sort_by("index")["row"].combine_chunks())


def ids_digest(ids: pa.Array) -> bytes:
    """Return 32 bytes that stand for this list of ids: SHA-256 of their lengths and texts, a slice at a time."""
    digest = hashlib.sha256()
    for start in range(0, len(ids), _SLICE):
        texts = [i.encode() for i in ids.slice(start, _SLICE).to_pylist()]
        digest.update(np.array([len(texts), *map(len, texts)], "<i8").tobytes())
        digest.update(b"".join(texts))
    return digest.digest()


def rating_table(user: NDArray[np.int64], item: NDArray[np.int64], rating: NDArray[np.float64]) -> pa.Table:
    """Return ratings as the models read them: user int32, item int32, rating float32."""
    columns = {"user": user.astype(np.int32), "item": item.astype(np.int32), "rating": rating.astype(np.float32)}
    return pa.table(columns)


def rating_columns(table: pa.Table) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return user, item and rating of what `rating_table` made, each (n,) and of the type that it has there."""
    user, item, rating = (table[name].to_numpy() for name in ("user", "item", "rating"))
    return user, item, rating
