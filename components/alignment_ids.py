"""A party's own ids as an alignment works on them: distinct, sorted, in buckets of one size.

The hash that puts ids into buckets is public and the same at all parties; so is the room in a bucket, which follows
from the padded number of ids alone.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.canonical import digest
from components.alignment import AlignParams
from components.alignment_rule import id_column
from components.contract import Context
from features.id_partition import bucket_numbers
from features.indexing import ids_digest

LARGEST_BUCKET = 1 << 18  # ids: about 100 MB while it is worked on
ANY_SIZE = 1 << 62  # where no bucket of ids is worked on at once


@dataclass(frozen=True)
class Ids:
    """A party's ids for one alignment."""

    values: pa.Array  # distinct, sorted by code point
    first: np.ndarray  # row of the table where each stands first, int64
    count: np.ndarray  # rows that hold it, int32
    padded: int  # N
    order: np.ndarray  # rows of `values`, bucket by bucket
    cuts: np.ndarray  # (B + 1,) where each bucket starts in `order`
    rule: bytes = bytes(32)  # digest of the rule that the ids are written by; zeros where the table names no spec
    digest: bytes = bytes(32)  # of `values`

    @property
    def points(self) -> int:
        """Return how many ids, padding included, the party shows in all buckets."""
        buckets = len(self.cuts) - 1
        return capacity(self.padded, buckets) * buckets

    def bucket(self, b: int) -> np.ndarray:
        """Return the rows of bucket b."""
        return self.order[self.cuts[b] : self.cuts[b + 1]]


def own_ids(ctx: Context, params: AlignParams, largest: int = LARGEST_BUCKET) -> Ids:
    """Return the party's ids; `DataError` for nulls, for duplicates that `on_duplicates` refuses, and full buckets.

    `largest` is the size up to which a bucket can be worked on at once. Peers read these errors: how many rows are
    wrong goes into the party's own metrics.
    """
    column = _id_column(ctx, params)
    values, rows = _distinct(column)
    pa.default_memory_pool().release_unused()  # else Arrow keeps what the dictionary took, 34 bytes an id
    times, first = np.zeros(len(values), np.int32), np.full(len(values), np.iinfo(np.int64).max)
    np.add.at(times, rows, 1)
    if repeated := int((times > 1).sum()):
        ctx.metric("duplicate", repeated)
    ctx.require(
        params.on_duplicates != "refuse" or not repeated, "ids stand in more than one row", expected="each id once",
        found="ids in several rows", remedy="see the metric duplicate; on_duplicates: first takes the first row of"
        " each, all keeps every row",
    )  # fmt: skip
    np.minimum.at(first, rows, np.arange(len(rows)))
    padded = max(-(-len(values) // params.pad_to) * params.pad_to, params.pad_to)
    by_bucket, cuts = _into_buckets(ctx, values, params.buckets)
    written = id_column(ctx, params)
    rule = bytes.fromhex(digest(written.normal_form.model_dump(mode="json"))) if written else bytes(32)
    ids = Ids(values, first, times, padded, by_bucket, cuts, rule, ids_digest(values))
    fullest, room = int(np.diff(cuts).max(initial=0)), capacity(padded, params.buckets)
    enough = -(-padded // (largest // 2))
    ctx.require(room <= largest, "buckets are too large", expected=f"at most {largest} ids in one",
                found=room, remedy=f"buckets: {enough} or more, at all parties")  # fmt: skip
    ctx.require(fullest <= room, "a bucket is fuller than chance allows", expected=f"at most {room} ids", found="more",
                remedy="fewer buckets, or a larger pad_to")  # fmt: skip
    return ids


def _id_column(ctx: Context, params: AlignParams) -> pa.ChunkedArray:
    """Return the column to align; `DataError` where there is none, or not of text, or with nulls."""
    tables, name = ctx.inputs["tables"], params.tables.get(ctx.party)
    ctx.require(name is not None, "no table to align", expected=f"tables.{ctx.party}", found="none",
                remedy=f"name a table of {ctx.party} in the parameter tables")  # fmt: skip
    ctx.require(name in tables, "no such table to align", expected=", ".join(sorted(tables)), found=name,
                remedy=f"correct tables.{ctx.party} in the parameters of the step")  # fmt: skip
    names = tables[name].column_names
    ctx.require(params.id_column in names, f"table {name} has no such column", expected=", ".join(names),
                found=params.id_column, remedy="correct id_column in the parameters of the step")  # fmt: skip
    column: pa.ChunkedArray = tables[name][params.id_column]
    is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    ctx.require(is_text, "ids to align are no text", expected="text", found=column.type,
                remedy="type: id for this column in the feature spec")  # fmt: skip
    if column.null_count:
        ctx.metric("null", column.null_count)
    ctx.require(not column.null_count, "ids to align are null", expected="ids in normal form", found="nulls",
                remedy="align a table of validate_tables; the metric null counts them")  # fmt: skip
    return column


def _distinct(column: pa.ChunkedArray) -> tuple[pa.Array, np.ndarray]:
    """Return the distinct ids, sorted, and for each row of the table which of them it holds, int32.

    At 10 million ids each array of 8 bytes an id is 80 MB: none is made that can be half as wide or a chunk at a time.
    """
    chunks = column.dictionary_encode().chunks  # one dictionary for all
    dictionary = chunks[0].dictionary if chunks else pa.array([], column.type)
    order = pc.sort_indices(dictionary)
    place = np.empty(len(order), np.int32)
    place[order.to_numpy()] = np.arange(len(order), dtype=np.int32)
    rows = [place[chunk.indices.to_numpy()] for chunk in chunks]
    return dictionary.take(order), np.concatenate(rows) if rows else place


def _into_buckets(ctx: Context, values: pa.Array, buckets: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows bucket by bucket, and where each bucket starts. The hash is public and the same at all parties."""
    if buckets == 1:
        return np.arange(len(values)), np.array([0, len(values)])
    salt = bucket_salt(ctx)
    bucket = np.empty(len(values), np.int32)
    for start in range(0, len(values), LARGEST_BUCKET):
        texts = values.slice(start, LARGEST_BUCKET).to_pylist()
        bucket[start : start + len(texts)] = bucket_numbers(texts, salt, buckets)
    order = np.argsort(bucket, kind="stable")
    return order, np.searchsorted(bucket[order], np.arange(buckets + 1))


def bucket_salt(ctx: Context) -> bytes:
    """Return the salt of the buckets of this run (16 bytes), public and the same at all parties."""
    return hashlib.sha256(f"accord alignment buckets 1/{ctx.run}/{ctx.step}".encode()).digest()[:16]


def capacity(padded: int, buckets: int) -> int:
    """Return how many points each bucket has: a binomial exceeds mean + 8σ with a chance below 2^-45."""
    mean = padded / buckets
    return padded if buckets == 1 else math.ceil(mean + 8 * math.sqrt(mean) + 8)
