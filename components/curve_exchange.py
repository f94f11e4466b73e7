"""One receiver and one sender compare their ids on Curve25519, bucket by bucket.

The core of `align_ecdh`, and the cardinality pass of every alignment. Meadows (1986); Huberman, Franklin and Hogg
(1999), section 3; what H, scalars and tags are stands in `crypto.curve`.

    receiver → sender     a·H(x)       one bucket, padded to its capacity, in an order that only the receiver knows
    sender → receiver     b·H(y)       the same of the sender
    sender → receiver     tags of b·(a·H(x)), in the order in which the points came; or permuted, then a receiver that
                          follows the protocol sees how many are common and not who, until the sender tells the
                          permutation (or never)
    receiver              tags of a·(b·H(y)); equal tags are common ids

The name of the run in H and in the tags is that of the run, the step and the two parties: so in a star no answer of one
sender fits another's, and points handed on to it match nothing.

*Padding* is the hash of a secret random text, masked like an id. *Order* and padding come from secrets that last for
the run: a further attempt that repeats a bucket sends the same bytes again. With padding drawn anew, the peer would
see which points stay, which are the real ones.

A DEVIATING RECEIVER READS PERMUTED ANSWERS. With a scalar of its own for each id it computes from the sender's points
which tag each id would get, and looks it up in the answer: it learns who, and pays n·m multiplications. The permutation
holds against a receiver that follows the protocol; against others only the count of tests does.

*Quota.* Whoever sends n points tests n ids, so each party counts the peer's points, padding included, under
`tests.PEER` over the life of the accord. The same points in a further attempt cost nothing; others are counted again.
A nightly run costs N tests each night, about 365·N in a year, though honest nights test the same ids again: a scalar of
one run cannot show that they are the same. So `max_tests` of the accord is what a deviating peer may test in all, and
one run may test a tenth of the possible ids at most.

*Further attempts* go on with the ids, sizes and rule of the first: rows and places of a checkpoint mean others' people
in another list. What they depend on is kept for the run, as a digest that outlives the scalar.

ASSUMPTIONS and what is not constant time: `crypto.curve`. The points of a permuted answer are counted bucket by bucket,
and buckets are public: with few ids in one, a count would say who. So each end refuses to be counted unless each of
its buckets holds SMALLEST of its real ids, or there is one bucket; and with few ids in all.

    n, m   points in each bucket of the two, padding included        place   bucket·n + position within what was sent
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa

from base.errors import CryptoError, StateError
from components.alignment import LARGEST_BUCKET, AlignParams, Ids, bucket_salt, capacity, require_sparse
from components.contract import Context
from components.quota import spend
from crypto.curve import POINT, CurveSecret, from_column, tag_bytes, tags, to_column
from crypto.ladder import WIDTH
from crypto.secret import Secret
from features.id_partition import Work, partition, read_bucket
from transport.message import FIXED_BINARY, Message, Protection, WireSchema

POINTS = WireSchema("points", {"point": POINT})
TAGS = WireSchema("curve_tags", {"tag": FIXED_BINARY})
NOTHING = WireSchema("nothing", {})
MOST = 1 << 16  # buckets
SMALLEST = 1 << 12  # own ids in a bucket whose answer is permuted, unless it is the only one
FEWEST = 20  # own ids of which a number alone is told: each count but 0 and all leaves 20 or more possible sets
COUNTED = "how many of the receiver's ids the sender has, in each bucket; a receiver that deviates sees which"
GROUP = 1 << 21  # ids that Spark masks before the first of them is sent
_SPENDING = 8  # bytes that name a spending
_DIGEST = 32
_PAGE = 256  # buckets whose digests are kept together: 8 kB are rewritten for each bucket


def pass_messages(answer: str = COUNTED) -> tuple[Message, ...]:
    """Return the rows of an exchange; `answer` says what the answer reveals."""
    masked = "nothing but N: without the {} scalar an id and padding look alike"
    # fmt: off
    return (
        Message("masked", "receiver", "sender",   POINTS,  Protection.BLINDED, masked.format("receiver's"), max_count=MOST),  # noqa: E501
        Message("masked", "sender",   "receiver", POINTS,  Protection.BLINDED, masked.format("sender's"), max_count=MOST),  # noqa: E501
        Message("answer", "sender",   "receiver", TAGS,    Protection.BLINDED, answer, max_count=MOST),
        Message("passed", "receiver", "sender",   NOTHING, Protection.PUBLIC,  "that min_overlap is reached, as the receiver says; sent in a cardinality pass"),  # noqa: E501
    )
    # fmt: on


@dataclass(frozen=True)
class _Group:
    """Buckets that Spark has masked, in a folder."""

    buckets: range
    rows: np.ndarray  # of the ids in them, ascending
    folder: Path


class Exchange(Secret):
    """One party's end of the exchange with one peer."""

    def __init__(self, ctx: Context, params: AlignParams, ids: Ids, pair: tuple[str, str], theirs: int) -> None:
        """Take or draw the secrets of the run, and count the peer's points; nothing is sent.

        `StateError` when a further attempt has other ids or sizes; `ConsentError` for more tests than may be.

        pair    (receiver, sender)        theirs   points in each of the peer's buckets, as `exchange_sizes` gives it
        """
        self._ctx, self._params, self._ids, self.theirs = ctx, params, ids, theirs
        (self.peer,) = set(pair) - {ctx.party}
        self.own = capacity(ids.padded, params.buckets)
        ctx.require(
            theirs <= LARGEST_BUCKET, f"buckets of {self.peer} are too large",
            expected=f"at most {LARGEST_BUCKET} points", found=theirs, remedy="more buckets, at all parties",
        )  # fmt: skip
        remedy = "a smaller pad_to; otherwise ids of more digits: in a space so full, membership cannot be hidden"
        require_sparse(ctx, params, theirs * params.buckets, f"one run with {self.peer}", remedy)
        self._run = "/".join((ctx.run, ctx.step, *pair))
        self._width = tag_bytes(self.own * params.buckets, theirs * params.buckets)
        self._name = f"run/{ctx.run}/curve.{ctx.step}.{self.peer}"
        self._bind()
        kept = self._kept()
        self._secret = CurveSecret.from_bytes(kept[:32], self._run, ids.rule.hex())
        self._padding, self._spending = kept[32:64], kept[64:].hex()
        self._large, self._masked = len(ids.values) >= params.spark_above, cast(_Group | None, None)
        self._spend(theirs * params.buckets, "")

    def require_countable(self) -> None:
        """Refuse so few own ids, in all or in a bucket, that the number in common would say who.

        Below `min_overlap` no count is of use. Where who is common may follow a count, `min_overlap` says how few may
        be named; where the number is all that is told, it is told of FEWEST ids or more.
        """
        ctx, params, ids = self._ctx, self._params, self._ids
        enough = max(params.min_overlap, FEWEST) if params.cardinality_only else params.min_overlap
        ctx.require(
            len(ids.values) >= enough, "own ids are too few to be counted", expected=f"{enough} or more",
            found="fewer", remedy="more people, or no count in this accord",
        )  # fmt: skip
        ctx.require(
            params.buckets == 1 or int(np.diff(ids.cuts).min()) >= SMALLEST, "buckets are too small to be counted",
            expected=f"{SMALLEST} own ids or more in each, or one bucket", found="fewer",
            remedy="fewer buckets, at all parties",
        )  # fmt: skip

    def masked(self, b: int) -> pa.Table:
        """Return bucket b as it is sent: masked points, padding among them, in the private order."""
        rows = self._ids.bucket(b)
        ids = self._by_spark(b, rows) if self._large else self._secret.mask(self._texts(rows), self._run)
        padding = self._secret.mask([self._pad(b, i) for i in range(self.own - len(rows))], self._run)
        return pa.table({"point": to_column(np.concatenate([ids, padding])[self._order(b)])})

    def mask_again(self, b: int, table: pa.Table) -> np.ndarray:
        """Return the tags (m, width) of the peer's bucket b; `CryptoError` for points that are refused."""
        points = from_column(table["point"])
        self._check_number(len(points), self.theirs, "points")
        self._count(b, points)
        return tags(self._secret.mask_again(points, self._run), self._run, self._width)

    def answered(self, table: pa.Table) -> np.ndarray:
        """Return the peer's answer to an own bucket, tags (n, width); `CryptoError` for repeats or another number."""
        found = from_column(table["tag"], self._width)
        self._check_number(len(found), self.own, "tags")
        if len(set(_bytes(found))) != len(found):
            raise CryptoError("tags repeat", expected="each tag once", where=f"answer of {self.peer}")
        return found

    def permutation(self, b: int) -> np.ndarray:
        """Return how the answer to the peer's bucket b is permuted, (m,): place k of it holds the tag of point p[k]."""
        return self._ctx.private_rng(f"permutation {self._run} {b}").permutation(self.theirs)

    def rows(self, places: np.ndarray) -> np.ndarray:
        """Return the rows of the own ids at these places; `CryptoError` for repeats, padding, or beyond the end."""
        inside = (places >= 0) & (places < self.own * self._params.buckets)
        rows = np.full(len(places), -1)
        if inside.all() and len(np.unique(places)) == len(places):
            for b, here in by_bucket(places, self.own):
                bucket = self._ids.bucket(b)
                entries = self._order(b)[places[here] % self.own]
                rows[here] = np.append(bucket, -1)[np.minimum(entries, len(bucket))]
        if (rows < 0).any():
            raise CryptoError("matches are not among the own ids", expected="different places of ids, not of padding",
                              where=f"matches with {self.peer}")  # fmt: skip
        return rows

    def close(self) -> None:
        """Forget the scalar and what was counted; that the run is bound to these ids stays until the run is closed."""
        pages = range(-(-self._params.buckets // _PAGE))
        for name in (self._name, *(f"{self._name}.{page}" for page in pages)):
            self._ctx.keys.forget(name)

    def _bind(self) -> None:
        """Keep what the run depends on; `StateError` for a further attempt that depends on something else."""
        ctx, ids, name = self._ctx, self._ids, f"run/{self._ctx.run}/bound.{self._ctx.step}.{self.peer}"
        sizes = np.array([ids.padded, self.own, self.theirs, self._params.buckets], "<i8").tobytes()
        bound = hashlib.sha256(b"accord alignment run 1" + ids.digest + ids.rule + sizes).digest()
        if ctx.attempt > 1 and ctx.keys.get(name) not in (None, bound):
            raise StateError(
                f"the alignment with {self.peer} is not that of the earlier attempt",
                expected="ids, id rule, buckets and both sizes as before", found="others",
                where=f"{ctx.party}, step {ctx.step}", remedy="start a new run",
            )  # fmt: skip
        ctx.keys.put(name, bound)

    def _kept(self) -> bytes:
        """Return scalar, padding secret and name of the spending: those of an earlier attempt, or new ones."""
        kept = self._ctx.keys.get(self._name) if self._ctx.attempt > 1 else None
        if kept is None:
            self.close()
            scalar = CurveSecret(self._run, self._ids.rule.hex()).to_bytes()
            kept = scalar + self._ctx.secret_bytes(32 + _SPENDING)
            self._ctx.keys.put(self._name, kept)
        return kept

    def _texts(self, rows: np.ndarray) -> list[str]:
        found: list[str] = self._ids.values.take(pa.array(rows)).to_pylist()
        return found

    def _by_spark(self, b: int, rows: np.ndarray) -> np.ndarray:
        """Return the masked ids of bucket b; Spark masks it with those that follow, to disk, GROUP ids at a time.

        So a peer waits for a group and not for all of them, and a further attempt repeats no bucket that is done.
        """
        if self._masked is None or b not in self._masked.buckets:
            self._masked = self._mask_group(b)
        found, points = read_bucket(self._masked.folder, b)
        if not np.array_equal(self._masked.rows[found], rows):
            raise StateError("Spark returned other ids", expected="those of the bucket", found="others",
                             where=f"{self._ctx.party}, step {self._ctx.step}")  # fmt: skip
        return points

    def _mask_group(self, b: int) -> _Group:
        ctx, cuts, B = self._ctx, self._ids.cuts, self._params.buckets
        end = max(int(np.searchsorted(cuts, cuts[b] + GROUP, side="right")) - 1, b + 1)
        group = _Group(range(b, end), np.sort(self._ids.order[cuts[b] : cuts[end]]), ctx.spill())
        work = _masking(self._secret.to_bytes(), self._run, self._ids.rule.hex())
        values = self._ids.values.take(pa.array(group.rows))
        partition(ctx.spark(), values, B, bucket_salt(ctx), work, WIDTH, group.folder)
        return group

    def _pad(self, b: int, i: int) -> str:
        return hmac.digest(self._padding, f"{b}/{i}".encode(), "sha256").hex()

    def _order(self, b: int) -> np.ndarray:
        return self._ctx.private_rng(f"order {self._run} {b}").permutation(self.own)

    def _check_number(self, found: int, expected: int, what: str) -> None:
        if found != expected:
            raise CryptoError(f"another number of {what} than announced", expected=expected, found=found,
                              where=f"bucket of {self.peer}")  # fmt: skip

    def _count(self, b: int, points: np.ndarray) -> None:
        """Count the points once more when they are others than those of an earlier attempt."""
        page, at = f"{self._name}.{b // _PAGE}", b % _PAGE * _DIGEST
        kept = bytearray(self._ctx.keys.get(page) or bytes(_PAGE * _DIGEST))
        before, digest = bytes(kept[at : at + _DIGEST]), hashlib.sha256(points.tobytes()).digest()
        if any(before) and before != digest:
            self._spend(len(points), f".{b}.{digest.hex()}")
        kept[at : at + _DIGEST] = digest
        self._ctx.keys.put(page, bytes(kept))

    def _spend(self, amount: int, further: str) -> None:
        remedy = "sign a new accord, or raise max_tests after weighing it against the number of possible ids"
        spend(self._ctx, f"tests.{self.peer}", amount, self._params.max_tests, self._spending + further,
              f"tests of ids of {self.peer}", remedy)  # fmt: skip


def meet(ctx: Context, exchanges: Mapping[str, Exchange], b: int) -> dict[str, np.ndarray]:
    """Compare bucket b with every sender; return {sender: matches (common, 2)}: places in its answer and of its ids."""
    for sender, exchange in exchanges.items():
        ctx.send("masked", exchange.masked(b), sender)
    found = {}
    for sender, exchange in exchanges.items():
        theirs = _bytes(exchange.mask_again(b, ctx.recv("masked", sender)))
        at = {tag: place for place, tag in enumerate(theirs, b * exchange.theirs)}
        mine = enumerate(_bytes(exchange.answered(ctx.recv("answer", sender))), b * exchange.own)
        pairs = [(place, at[tag]) for place, tag in mine if tag in at]
        found[sender] = np.array(pairs, np.int64).reshape(-1, 2)
    return found


def answer(ctx: Context, exchange: Exchange, b: int, permuted: bool) -> None:
    """Send the own bucket b, and the tags of the receiver's."""
    ctx.send("masked", exchange.masked(b), exchange.peer)
    found = exchange.mask_again(b, ctx.recv("masked", exchange.peer))
    if permuted:
        found = found[exchange.permutation(b)]
    ctx.send("answer", pa.table({"tag": to_column(found)}), exchange.peer)


def count_common(ctx: Context, params: AlignParams, exchanges: Mapping[str, Exchange]) -> dict[str, int]:
    """Run a cardinality pass as receiver; return {sender: ids in common}, or stop with all senders alike."""
    common = dict.fromkeys(exchanges, 0)
    for exchange in exchanges.values():
        exchange.require_countable()
    for b in range(params.buckets):
        for sender, matches in meet(ctx, exchanges, b).items():
            common[sender] += len(matches)
        ctx.progress(b + 1, params.buckets, "buckets counted")
    pass_on(ctx, params, common)
    return common


def be_counted(ctx: Context, params: AlignParams, exchange: Exchange) -> None:
    """Run a cardinality pass as sender; return when it is passed."""
    exchange.require_countable()
    for b in range(params.buckets):
        answer(ctx, exchange, b, permuted=True)
    ctx.recv("passed", exchange.peer)


def pass_on(ctx: Context, params: AlignParams, common: Mapping[str, int]) -> None:
    """Tell all senders that the pass is passed, or stop: how few are in common is not said, a sender sees the error."""
    require_enough(ctx, params, min(common.values()))
    for sender in common:
        ctx.send("passed", pa.table({}), sender)


def require_enough(ctx: Context, params: AlignParams, common: int) -> None:
    """Raise `DataError` for fewer in common than `min_overlap`, without the number."""
    ctx.require(common >= params.min_overlap, "too few in common", expected=params.min_overlap, found="fewer",
                remedy="see in the reports of validate_tables how ids are written at each party")  # fmt: skip


def by_bucket(places: np.ndarray, size: int) -> list[tuple[int, np.ndarray]]:
    """Return (bucket, indices of the places that lie in it) for each bucket that holds one."""
    order = np.argsort(places // size, kind="stable")
    buckets, starts = np.unique(places[order] // size, return_index=True)
    return list(zip(buckets.tolist(), np.split(order, starts[1:]), strict=True)) if len(places) else []


def _masking(scalar: bytes, run: str, rule: str) -> Work:
    """Return what masks ids on Spark's executors: they get the scalar as bytes, see `features.id_partition`."""
    return lambda texts: CurveSecret.from_bytes(scalar, run, rule).mask(texts, run)


def _bytes(rows: np.ndarray) -> list[bytes]:
    found: list[bytes] = np.ascontiguousarray(rows).view(f"V{rows.shape[1]}").ravel().tolist()
    return found


def close_all(exchanges: Mapping[str, Exchange]) -> None:
    """Forget what was kept for further attempts with all peers."""
    for exchange in exchanges.values():
        exchange.close()
