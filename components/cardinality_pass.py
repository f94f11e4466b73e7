"""The cardinality pass of every alignment: how many are common, before anybody sees who.

An exchange (`components.curve_exchange`) with permuted answers: a receiver that follows the protocol sees how many are
common and not who. With fewer than `min_overlap` the step stops there.

The points of a permuted answer are counted bucket by bucket, and buckets are public: with few ids in one, a count would
say who. So each end refuses to be counted unless each of its buckets holds SMALLEST of its real ids, or there is one
bucket; and with few ids in all.

A DEVIATING RECEIVER READS PERMUTED ANSWERS. With a scalar of its own for each id it computes from the sender's points
which tag each id would get, and looks it up in the answer: it learns who, and pays n·m multiplications. The permutation
holds against a receiver that follows the protocol; against others only the count of tests does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from components.alignment import AlignParams
from components.alignment_ids import Ids
from components.alignment_matches import require_enough
from components.contract import Context
from components.curve_exchange import Exchange, answer, exchange_messages, meet
from transport.message import Message, Protection, WireSchema

SMALLEST = 1 << 12  # own ids in a bucket whose answer is permuted, unless it is the only one
FEWEST = 20  # own ids of which a number alone is told: each count but 0 and all leaves 20 or more possible sets
NOTHING = WireSchema("nothing", {})
# fmt: off
_COUNTED = (("cardinality_pass", True), ("cardinality_only", True))
PASSED = Message("passed", "receiver", "sender", NOTHING, Protection.PUBLIC, "that min_overlap is reached, as the receiver says", only_if=_COUNTED)  # noqa: E501
_COUNT = exchange_messages("how many of the receiver's ids the sender has, in each bucket; a receiver that deviates sees which")  # noqa: E501
PASS_MESSAGES = (*(replace(message, only_if=_COUNTED) for message in _COUNT), PASSED)
# fmt: on


def pass_exchanges(ctx: Context, params: AlignParams, ids: Ids, sizes: Mapping[str, int]) -> dict[str, Exchange]:
    """Return the exchanges of a cardinality pass by peer, none without one; `sizes` as `exchange_sizes` gives them."""
    if not params.counts:
        return {}
    pairs = {peer: (ctx.party, peer) if ctx.role == "receiver" else (peer, ctx.party) for peer in sizes}
    return {peer: Exchange(ctx, params, ids, pair, sizes[peer]) for peer, pair in pairs.items()}


def count_common(ctx: Context, params: AlignParams, ids: Ids, exchanges: Mapping[str, Exchange]) -> dict[str, int]:
    """Run a cardinality pass as receiver; return {sender: ids in common}, or stop with all senders alike."""
    common = dict.fromkeys(exchanges, 0)
    require_countable(ctx, params, ids)
    for b in range(params.buckets):
        for sender, matches in meet(ctx, exchanges, b).items():
            common[sender] += len(matches)
        ctx.progress(b + 1, params.buckets, "buckets counted")
    pass_on(ctx, params, common)
    return common


def be_counted(ctx: Context, params: AlignParams, ids: Ids, exchange: Exchange) -> None:
    """Run a cardinality pass as sender; return when it is passed."""
    require_countable(ctx, params, ids)
    for b in range(params.buckets):
        answer(ctx, exchange, b, permuted=True)
    ctx.recv("passed", exchange.peer)


def require_countable(ctx: Context, params: AlignParams, ids: Ids) -> None:
    """Refuse so few own ids, in all or in a bucket, that the number in common would say who.

    Below `min_overlap` no count is of use. Where who is common may follow a count, `min_overlap` says how few may be
    named; where the number is all that is told, it is told of FEWEST ids or more.
    """
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


def pass_on(ctx: Context, params: AlignParams, common: Mapping[str, int]) -> None:
    """Tell all senders that the pass is passed, or stop: how few are in common is not said, a sender sees the error."""
    require_enough(ctx, params, min(common.values()))
    for sender in common:
        ctx.send("passed", pa.table({}), sender)
