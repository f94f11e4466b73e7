"""What parties tell each other before anything else: N, the number of buckets, and the rule of their ids."""

from __future__ import annotations

import pyarrow as pa

from components.alignment import AlignParams
from components.alignment_ids import Ids, capacity
from components.contract import Context
from transport.message import Message, Protection, WireSchema

SIZES = WireSchema("sizes", {"padded": pa.int64(), "buckets": pa.int32(), "rule": pa.binary(32)})
# fmt: off
SIZE_MESSAGES = (
    Message("size", "receiver", "sender",   SIZES, Protection.PUBLIC, "N of the receiver, up to pad_to; its id rule"),
    Message("size", "sender",   "receiver", SIZES, Protection.PUBLIC, "N of the sender, up to pad_to; its id rule"),
)
# fmt: on


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
