"""Push-sum between parties: shares of what each holds, on their way (`models.push_sum`).

The parties of a line add up a vector of each. A share leaves the sender's mass when its channel has the receiver's
signed receipt, and a channel delivers once, so mass is conserved whatever the network loses or repeats.

    q  vector of a party, integers of `bits` bits (size,)     K  parties of the line
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from base.errors import MessageRefused, SpecMismatch
from components.contract import Context
from models.push_sum import Node, Parcel, schedule, to_digits, total_of
from transport.message import WireSchema

SHARES = WireSchema("shares", {"s": pa.int32()}, ("weight", "number", "context"))
PIECE = 1 << 23  # digits in one message: 32 MiB


def add_along(
    ctx: Context, line: tuple[str, ...], rng: np.random.Generator, q: np.ndarray, bits: int, context: bytes
) -> np.ndarray:
    """Return Σ q over the line (size,), int64, the same at all of it, by messages `share`.

    `rng`: public, the same at all. `context`: digest of what the sum is over; `SpecMismatch` when a peer has another.
    """
    K, home = len(line), line.index(ctx.party)
    node = Node(home, to_digits(q, bits))
    for shifts in schedule(K, rng):
        for parcel in node.push([(home + shift) % K for shift in shifts]):
            _send(ctx, parcel, line[parcel.receiver], context)
            node.confirm(parcel.key)  # `send` returns with the receipt, or not at all
        for shift in shifts:
            sender = (home - shift) % K
            head, s = _recv(ctx, line[sender], node.s.size, context)
            node.take(Parcel(sender, home, int(head["number"]), s, int(head["weight"])))
    return total_of(node.average(), K, bits)


def _send(ctx: Context, parcel: Parcel, to: str, context: bytes) -> None:
    meta = {"weight": str(parcel.w), "number": str(parcel.number), "context": context.hex()}
    schema = pa.schema([pa.field("s", pa.int32())], metadata=meta)
    for start in range(0, parcel.s.size, PIECE):
        s = pa.array(parcel.s[start : start + PIECE]).cast(pa.int32())  # refuses what does not fit
        ctx.send("share", pa.table([s], schema=schema), to)


def _recv(ctx: Context, from_: str, size: int, context: bytes) -> tuple[dict[str, str], np.ndarray]:
    """Return (metadata, digits) of one share."""
    pieces, head, missing = list[np.ndarray](), dict[str, str](), size
    while missing > 0:
        table = ctx.recv("share", from_)
        meta = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
        if meta["context"] != context.hex():
            raise SpecMismatch(
                "the neighbourhoods do not agree on what a sum is over", expected="one model, rows and layout",
                party=from_, remedy="compare the inputs of this step",
            )  # fmt: skip
        head, missing = head or meta, missing - len(table)
        if not len(table) or meta != head or missing < 0 or not (meta["weight"] + meta["number"]).isdecimal():
            raise MessageRefused(
                "the pieces of a share do not fit together", expected=f"{size} digits", found=len(table), party=from_,
                where=f"step {ctx.step}, message share",
            )  # fmt: skip
        pieces.append(table["s"].to_numpy().astype(np.int64))
    return head, np.concatenate(pieces)
