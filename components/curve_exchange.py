"""One receiver and one sender compare their ids on Curve25519, bucket by bucket.

The core of `align_ecdh`, and of the cardinality pass of every alignment. Meadows (1986); Huberman, Franklin and Hogg
(1999), section 3; what H, scalars and tags are stands in `crypto.curve`.

    receiver → sender     a·H(x)       one bucket, padded to its capacity, in an order that only the receiver knows
    sender → receiver     b·H(y)       the same of the sender
    sender → receiver     tags of b·(a·H(x)), in the order in which the points came; or permuted, then a receiver that
                          follows the protocol sees how many are common and not who, until the sender tells the
                          permutation (or never); see `components.cardinality_pass` for one that does not follow it
    receiver              tags of a·(b·H(y)); equal tags are common ids

The name of the run in H and in the tags is that of the run, the step and the two parties: so in a star no answer of one
sender fits another's, and points handed on to it match nothing.

ASSUMPTIONS and what is not constant time: `crypto.curve`. Padding and order: `components.curve_buckets`. What is kept
for further attempts, and the quota of tests: `components.curve_run`.

    n, m   points in each bucket of the two, padding included        place   bucket·n + position within what was sent
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from base.errors import CryptoError
from components.alignment import AlignParams
from components.alignment_ids import LARGEST_BUCKET, Ids, capacity
from components.alignment_rule import require_sparse
from components.contract import Context
from components.curve_buckets import OwnBuckets
from components.curve_run import CurveRun
from crypto.curve import POINT, from_column, tag_bytes, tags, to_column
from crypto.secret import Secret
from transport.message import FIXED_BINARY, Message, Protection, WireSchema

POINTS = WireSchema("points", {"point": POINT})
TAGS = WireSchema("curve_tags", {"tag": FIXED_BINARY})
MOST = 1 << 16  # buckets


def exchange_messages(answer: str) -> tuple[Message, ...]:
    """Return the rows of an exchange; `answer` says what the answer reveals."""
    masked = "nothing but N: without the {} scalar an id and padding look alike"
    # fmt: off
    return (
        Message("masked", "receiver", "sender",   POINTS, Protection.BLINDED, masked.format("receiver's"), max_count=MOST),  # noqa: E501
        Message("masked", "sender",   "receiver", POINTS, Protection.BLINDED, masked.format("sender's"), max_count=MOST),  # noqa: E501
        Message("answer", "sender",   "receiver", TAGS,   Protection.BLINDED, answer, max_count=MOST),
    )
    # fmt: on


class Exchange(Secret):
    """One party's end of the exchange with one peer."""

    def __init__(self, ctx: Context, params: AlignParams, ids: Ids, pair: tuple[str, str], theirs: int) -> None:
        """Take or draw the secrets of the run, and count the peer's points; nothing is sent.

        `StateError` when a further attempt has other ids or sizes; `ConsentError` for more tests than may be.

        pair    (receiver, sender)        theirs   points in each of the peer's buckets, as `exchange_sizes` gives it
        """
        (self.peer,) = set(pair) - {ctx.party}
        self.own, self.theirs = capacity(ids.padded, params.buckets), theirs
        ctx.require(
            theirs <= LARGEST_BUCKET, f"buckets of {self.peer} are too large",
            expected=f"at most {LARGEST_BUCKET} points", found=theirs, remedy="more buckets, at all parties",
        )  # fmt: skip
        remedy = "a smaller pad_to; otherwise ids of more digits: in a space so full, membership cannot be hidden"
        require_sparse(ctx, params, theirs * params.buckets, f"one run with {self.peer}", remedy)
        sizes = np.array([ids.padded, self.own, theirs, params.buckets], "<i8").tobytes()
        bound = hashlib.sha256(b"accord alignment run 1" + ids.digest + ids.rule + sizes).digest()
        self._ctx, self._run = ctx, CurveRun(ctx, params, ids, pair, bound)
        self._buckets = OwnBuckets(ctx, params, ids, self._run)
        self._width = tag_bytes(self.own * params.buckets, theirs * params.buckets)
        self._run.spend(theirs * params.buckets)

    def masked(self, b: int) -> pa.Table:
        """Return bucket b as it is sent: masked points, padding among them, in the private order."""
        return pa.table({"point": to_column(self._buckets.masked(b))})

    def mask_again(self, b: int, table: pa.Table) -> np.ndarray:
        """Return the tags (m, width) of the peer's bucket b; `CryptoError` for points that are refused."""
        points = from_column(table["point"])
        self._check_number(len(points), self.theirs, "points")
        self._run.count(b, points)
        return tags(self._run.scalar.mask_again(points, self._run.name), self._run.name, self._width)

    def answered(self, table: pa.Table) -> np.ndarray:
        """Return the peer's answer to an own bucket, tags (n, width); `CryptoError` for repeats or another number."""
        found = from_column(table["tag"], self._width)
        self._check_number(len(found), self.own, "tags")
        if len(set(_bytes(found))) != len(found):
            raise CryptoError("tags repeat", expected="each tag once", where=f"answer of {self.peer}")
        return found

    def permutation(self, b: int) -> np.ndarray:
        """Return how the answer to the peer's bucket b is permuted, (m,): place k of it holds the tag of point p[k]."""
        return self._ctx.private_rng(f"permutation {self._run.name} {b}").permutation(self.theirs)

    def rows(self, places: np.ndarray) -> np.ndarray:
        """Return the rows of the own ids at these places; `CryptoError` for repeats, padding, or beyond the end."""
        return self._buckets.rows(places)

    def close(self) -> None:
        """Forget the scalar and what was counted; see `CurveRun`."""
        self._run.close()

    def _check_number(self, found: int, expected: int, what: str) -> None:
        if found != expected:
            raise CryptoError(f"another number of {what} than announced", expected=expected, found=found,
                              where=f"bucket of {self.peer}")  # fmt: skip


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


def close_all(exchanges: Mapping[str, Exchange]) -> None:
    """Forget what was kept for further attempts with all peers."""
    for exchange in exchanges.values():
        exchange.close()


def _bytes(rows: np.ndarray) -> list[bytes]:
    found: list[bytes] = np.ascontiguousarray(rows).view(f"V{rows.shape[1]}").ravel().tolist()
    return found
