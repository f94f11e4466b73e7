"""What every alignment has in common: whose ids, in which buckets, who learns what, and the report.

One receiver and one or more senders (a star): the receiver aligns with each sender, so it learns every pairwise
intersection; what is common to ALL becomes the alignment. Each sender that may learn it (`reveal_to`) is sent the
positions of its own people in one order that the receiver draws.

Ids are put into buckets by a hash that all parties share, and every bucket is padded to one size that follows from the
padded number of ids: so no bucket, and no empty one, says anything about an id. A bucket is what is in memory at a
time, and where a further attempt goes on.

    ids   distinct, sorted; `row` = position among them      N   their number, padded to a multiple of `pad_to`
    B     buckets, the same at all parties (a parameter)     cap  points in each bucket: N/B and room for chance
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from annotated_types import Ge, Le

from base.canonical import digest
from base.errors import ConsentError, CryptoError
from components.contract import Context, Outputs, Params
from features.id_entropy import id_space
from features.id_partition import bucket_numbers
from features.indexing import DIGEST, ids_digest
from features.spec import IdRule
from transport.message import Message, Protection, WireSchema

SIZES = WireSchema("sizes", {"padded": pa.int64(), "buckets": pa.int32(), "rule": pa.binary(32)})
SEALED_POSITIONS = WireSchema("sealed_positions", {"sealed": pa.binary()})
LARGEST_BUCKET = 1 << 18  # ids: about 100 MB while it is worked on
ANY_SIZE = 1 << 62  # where no bucket of ids is worked on at once
PIECE = 1 << 20  # positions in one message
SHARE = 10  # a party may test one in so many of the possible ids
NOBODY = -1  # in place of a position: padding; in place of their number: that they are not told


class AlignParams(Params):
    """Whose column is aligned, and what comes of it; all alignments take these."""

    tables: Mapping[str, str]  # party -> table that holds its ids
    id_column: str  # text, normal form, no nulls
    on_duplicates: Literal["refuse", "first", "all"] = "refuse"  # an id in several rows: stop, take the first, keep all
    reveal_to: tuple[str, ...] = ()  # parties that get the alignment; none named = all that take part
    cardinality_only: bool = False  # end with the number in common: who is what only a deviating receiver learns
    min_overlap: Annotated[int, Ge(1)] = 100  # people in common; with fewer the step stops and no sender learns anyone
    cardinality_pass: bool = False  # count first: below min_overlap an honest receiver does not learn who either
    max_tests: Annotated[int, Ge(1)] = 100_000  # a peer's ids over the accord's life, padding included, all alignments
    pad_to: Annotated[int, Ge(1)] = 1024  # sizes are padded to a multiple of it
    buckets: Annotated[int, Ge(1), Le(1 << 16)] = 1  # B
    spark_above: Annotated[int, Ge(1)] = 5_000_000  # own ids; from there on Spark partitions and computes

    def learners(self, ctx: Context) -> tuple[str, ...]:
        """Return the parties that end with the alignment; `DataError` for parameters that do not fit the parties."""
        receivers, senders = ctx.parties("receiver"), ctx.parties("sender")
        ctx.require(len(receivers) == 1, "an alignment has one receiver", expected="one", found=len(receivers),
                    remedy="one party in the role receiver; the others are senders")  # fmt: skip
        ctx.require(
            not self.cardinality_only or len(senders) == 1, "the number in common is counted with one sender alone",
            expected="one sender", found=len(senders), remedy="a step for each sender, or cardinality_only: false",
        )  # fmt: skip
        taking_part = (*receivers, *senders)
        unknown = set(self.reveal_to) - set(taking_part)
        ctx.require(not unknown, "reveal_to names a party that does not take part", expected=", ".join(taking_part),
                    found=", ".join(sorted(unknown)))  # fmt: skip
        return () if self.cardinality_only else self.reveal_to or taking_part


# fmt: off
SIZE_MESSAGES = (
    Message("size", "receiver", "sender",   SIZES, Protection.PUBLIC, "N of the receiver, up to pad_to; its id rule"),
    Message("size", "sender",   "receiver", SIZES, Protection.PUBLIC, "N of the sender, up to pad_to; its id rule"),
)
MATCHED = Message("matched", "receiver", "sender", SEALED_POSITIONS, Protection.WRAPPED, "which of the sender's people are common to all, in the aligned order, padded to N; nothing where reveal_to is given and leaves it out")  # noqa: E501
# fmt: on


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
    rule = id_rule(ctx, params)
    written = bytes.fromhex(digest(rule.model_dump(mode="json"))) if rule else bytes(32)
    ids = Ids(values, first, times, padded, by_bucket, cuts, written, ids_digest(values))
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


def require_sparse(ctx: Context, params: AlignParams, tests: int, what: str, remedy: str) -> None:
    """Raise `ConsentError` when `tests` ids of a peer are more than a tenth of the possible ids; `what` tests them."""
    rule = id_rule(ctx, params)
    space = id_space(rule) if rule else None
    if space is not None and tests > space // SHARE:
        raise ConsentError(
            f"{what} would test a large part of all possible ids", expected=f"at most {space // SHARE}", found=tests,
            where=f"{ctx.party}, step {ctx.step}, column {params.id_column}", remedy=remedy,
        )  # fmt: skip


def id_rule(ctx: Context, params: AlignParams) -> IdRule | None:
    """Return the rule that the party's ids are written by, None where their table does not name its feature spec."""
    table: pa.Table = ctx.inputs["tables"][params.tables[ctx.party]]
    spec = (table.schema.metadata or {}).get(b"spec", b"").decode()
    return cast(IdRule, ctx.spec(spec).columns[params.id_column].normal_form) if spec else None


def capacity(padded: int, buckets: int) -> int:
    """Return how many points each bucket has: a binomial exceeds mean + 8σ with a chance below 2^-45."""
    mean = padded / buckets
    return padded if buckets == 1 else math.ceil(mean + 8 * math.sqrt(mean) + 8)


def exchange_sizes(ctx: Context, params: AlignParams, ids: Ids) -> dict[str, int]:
    """Tell and hear N and the id rule before anything else; return {peer: points in each of its buckets}.

    `DataError` when a peer has another number of buckets, or writes its ids by another rule: nothing would match.
    """
    peers = ctx.parties("sender") if ctx.role == "receiver" else ctx.parties("receiver")
    for peer in peers:
        row = (ids.padded, params.buckets, ids.rule)
        columns = zip(row, SIZES.columns.items(), strict=True)
        ctx.send("size", pa.table({name: pa.array([value], kind) for value, (name, kind) in columns}), peer)
    found = {}
    for peer in peers:
        rows = ctx.recv("size", peer).to_pylist()
        ctx.require(len(rows) == 1, f"sizes of {peer}", expected="one row", found=f"{len(rows)} rows",
                    remedy="the same version of the software at both parties")  # fmt: skip
        (told,) = rows
        ctx.require(told["rule"] == ids.rule, f"ids are written by another rule at {peer}", expected=ids.rule.hex(),
                    found=told["rule"].hex(), remedy="one id rule in the feature specs of both tables")  # fmt: skip
        ctx.require(told["buckets"] == params.buckets and told["padded"] >= 1, f"sizes of {peer}",
                    expected=f"{params.buckets} buckets", found=f"{told['buckets']} buckets")  # fmt: skip
        found[peer] = capacity(told["padded"], params.buckets)
    return found


def common_to_all(matches: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the receiver's rows that every sender has too, ascending; `matches` are its rows by sender."""
    found: list[np.ndarray] = [np.unique(rows) for rows in matches.values()]
    common = found[0]
    for rows in found[1:]:
        common = np.intersect1d(common, rows, assume_unique=True)
    return common


def send_matched(ctx: Context, peer: str, positions: np.ndarray | None, points: int) -> None:
    """Tell a sender the positions of its people in the aligned order, in pieces; None: that it does not learn them.

    points  all that the sender has shown, padding included: so many positions are sent whatever their number is, since
            the size of a message stands in ledgers that others read
    """
    data = np.full(1 + points, NOBODY, "<i8")
    if positions is not None:
        data[0] = len(positions)  # the first says how many there are
        data[1 : 1 + len(positions)] = positions
    for piece, start in enumerate(range(0, len(data), PIECE)):
        sealed = ctx.keys.wrap(peer, data[start : start + PIECE].tobytes(), _matched_context(ctx, piece))
        ctx.send("matched", pa.table({"sealed": pa.array([sealed], pa.binary())}), peer)


def receive_matched(ctx: Context, ids: Ids) -> np.ndarray | None:
    """Return the positions of this sender's people, or None where it does not learn them.

    `CryptoError` for more of them than this sender has ids, than the first number says, or without the padding.
    """
    (peer,) = ctx.parties("receiver")
    numbers = 1 + ids.points
    data = np.concatenate([_receive_piece(ctx, peer, piece) for piece in range(-(-numbers // PIECE))])
    count = int(data[0]) if len(data) == numbers else -2
    if not NOBODY <= count <= len(ids.values) or (data[1 + max(count, 0) :] != NOBODY).any():
        raise CryptoError("the receiver's matches are of another number", expected="as announced, padded to N",
                          where=f"matches of {peer}")  # fmt: skip
    return None if count == NOBODY else data[1 : 1 + count]


def rows_at(positions: np.ndarray, order: np.ndarray, count: int) -> np.ndarray:
    """Return the sender's rows at the receiver's positions; `CryptoError` for repeats, padding, or beyond the end.

    order   row of each place in what was sent; `count` or more stands for padding
    """
    inside = (positions >= 0) & (positions < len(order))
    if not inside.all() or len(np.unique(positions)) != len(positions) or (order[positions] >= count).any():
        raise CryptoError("the receiver's matches are not among the tags", expected="different tags of own ids")
    rows: np.ndarray = order[positions]
    return rows


def finish(ctx: Context, params: AlignParams, ids: Ids, rows: np.ndarray | None, overlap: int | None) -> Outputs:
    """Return the outputs of an alignment: `rows` in the aligned order, None where this party does not learn it."""
    report = join_report(ctx, params, ids, rows, overlap)
    for name in ("distinct", "aligned"):
        if report[name] is not None:
            ctx.metric({"distinct": "ids"}.get(name, name), report[name])
    if rows is None:
        return {"report": report}
    columns = {"row": rows.astype(np.int64), "index": np.arange(len(rows), dtype=np.int64), "first": ids.first[rows]}
    return {"alignment": pa.table(columns, metadata={DIGEST: ids.digest.hex()}), "report": report}


def join_report(ctx: Context, params: AlignParams, ids: Ids, rows: np.ndarray | None, overlap: int | None) -> Any:
    """Return counts of this party alone, never an id: what was read, why ids were invalid, what is aligned."""
    table = params.tables[ctx.party]
    validated: Mapping[str, Any] = ctx.inputs.get("report", {}).get(table, {})
    kinds = f"{params.id_column}."
    invalid = {
        rule.removeprefix(kinds): n for rule, n in validated.get("dropped", {}).items() if rule.startswith(kinds)
    }
    return {
        "table": table,
        "read": validated.get("read"),
        "null": invalid.pop("null", 0),
        "invalid": invalid,
        "dropped_duplicates": validated.get("dropped", {}).get("duplicate", 0),  # rows, by the key of the spec
        "rows": int(ids.count.sum()),
        "distinct": len(ids.values),
        "duplicate": int((ids.count > 1).sum()),
        "padded": ids.padded,
        "buckets": params.buckets,
        "aligned": overlap if rows is None else len(rows),
        "rows_joined": None if rows is None else _joined(params, ids, rows),
    }


def _joined(params: AlignParams, ids: Ids, rows: np.ndarray) -> int:
    return int(ids.count[rows].sum()) if params.on_duplicates == "all" else len(rows)


def _matched_context(ctx: Context, piece: int) -> bytes:
    return f"accord alignment 1/{ctx.run}/{ctx.step}/{ctx.attempt}/{piece}".encode()


def _receive_piece(ctx: Context, peer: str, piece: int) -> np.ndarray:
    table = ctx.recv("matched", peer)
    opened = ctx.keys.unwrap(peer, table["sealed"][0].as_py() if len(table) == 1 else b"", _matched_context(ctx, piece))
    if not opened or len(opened) % 8:
        raise CryptoError("the receiver's matches are of another form", expected="positions of 8 bytes, one or more",
                          where=f"matches of {peer}")  # fmt: skip
    return np.frombuffer(opened, "<i8")


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
