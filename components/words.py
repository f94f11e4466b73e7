"""Vectors on their way to a sum and back: fixed-point values packed into 64-bit words, in pieces that a message holds.

w   words (W + 1,) uint64 of `crypto.masks.pack`: 64/lane values each, a check word last
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from base.errors import MessageRefused
from components.contract import Context
from crypto.masks import words_of
from crypto.packing import Lanes
from transport.message import WireSchema

_LAYOUT = ("lane", "fraction", "summands", "size", "round")
WORDS = WireSchema("words", {"w": pa.uint64()}, _LAYOUT)
PIECE = 1 << 22  # words in one message: 32 MiB


def send_words(
    ctx: Context, name: str, words: np.ndarray, lanes: Lanes, size: int, round_number: int, to: str | None = None
) -> None:
    """Send all words to the receivers of message `name`, or to one of them, in pieces."""
    layout = dict(zip(_LAYOUT, map(str, (lanes.lane, lanes.fraction, lanes.summands, size, round_number)), strict=True))
    schema = pa.schema([pa.field("w", pa.uint64())], metadata=layout)
    for start in range(0, len(words), PIECE):
        ctx.send(name, pa.table([pa.array(words[start : start + PIECE])], schema=schema), to)


def recv_words(
    ctx: Context, name: str, from_: str | None = None, expected: tuple[Lanes, int, int] | None = None
) -> tuple[np.ndarray, Lanes, int, int]:
    """Return (words, lanes, size, round) of one vector; `MessageRefused` for pieces that do not fit together.

    `expected`: layout, size and round, for whoever knows them; another one is refused at the first piece.
    """
    table = ctx.recv(name, from_)
    lane, fraction, summands, size, round_number = layout = _layout(table, ctx, name)
    if expected not in (None, (Lanes(lane, fraction, summands), size, round_number)):
        raise MessageRefused("a vector is not of this round", where=f"step {ctx.step}, message {name}")
    lanes, pieces = Lanes(lane, fraction, summands), [table["w"].to_numpy()]
    missing = words_of(lanes, size) - len(table)
    while missing > 0 and len(table):
        table = ctx.recv(name, from_)
        pieces.append(table["w"].to_numpy())
        missing -= len(table) if _layout(table, ctx, name) == layout else missing + 1
    if missing:
        raise MessageRefused(
            "the pieces of a vector do not fit together", expected=f"{words_of(lanes, size)} words of one layout",
            where=f"step {ctx.step}, message {name}",
        )  # fmt: skip
    return np.concatenate(pieces), lanes, size, round_number


def _layout(table: pa.Table, ctx: Context, name: str) -> list[int]:
    found = [(table.schema.metadata or {}).get(key.encode(), b"").decode() for key in _LAYOUT]
    if not all(text.isascii() and text.isdigit() and len(text) <= 12 for text in found):
        raise MessageRefused("a vector's layout is not numbers", where=f"step {ctx.step}, message {name}")
    return [int(text) for text in found]
