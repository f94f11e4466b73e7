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
    pieces = Pieces(ctx, name, expected)
    while not pieces.whole:
        pieces.add(ctx.recv(name, from_))
    return pieces.vector()


class Pieces:
    """One vector while its pieces come."""

    def __init__(self, ctx: Context, name: str, expected: tuple[Lanes, int, int] | None = None) -> None:
        """Take pieces of message `name`; `expected` as in `recv_words`."""
        self._where, self._expected = f"step {ctx.step}, message {name}", expected
        self._layout, self._found, self._missing = list[int](), list[np.ndarray](), 1

    @property
    def whole(self) -> bool:
        """Whether nothing is missing."""
        return self._missing == 0

    def add(self, table: pa.Table) -> None:
        """Take the next piece; `MessageRefused` when it does not fit those before."""
        layout = _layout(table, self._where)
        if not self._layout:
            self._layout, (lanes, size, _) = layout, _about(layout)
            if self._expected not in (None, _about(layout)):
                raise MessageRefused("a vector is not of this round", where=self._where)
            self._missing = words_of(lanes, size)
        if layout != self._layout or not 0 < len(table) <= self._missing:
            lanes, size, _ = _about(self._layout)
            raise MessageRefused(
                "the pieces of a vector do not fit together", expected=f"{words_of(lanes, size)} words of one layout",
                where=self._where,
            )  # fmt: skip
        self._found.append(table["w"].to_numpy())
        self._missing -= len(table)

    def vector(self) -> tuple[np.ndarray, Lanes, int, int]:
        """Return (words, lanes, size, round)."""
        return np.concatenate(self._found), *_about(self._layout)


def number_of(table: pa.Table) -> int:
    """Return the round that a message names in its metadata; `MessageRefused` when that is no number."""
    text = (table.schema.metadata or {}).get(b"round", b"").decode()
    if not (text.isascii() and text.isdigit() and len(text) <= 12):
        raise MessageRefused("a message names no round")
    return int(text)


def _about(layout: list[int]) -> tuple[Lanes, int, int]:
    lane, fraction, summands, size, round_number = layout
    return Lanes(lane, fraction, summands), size, round_number


def _layout(table: pa.Table, where: str) -> list[int]:
    found = [(table.schema.metadata or {}).get(key.encode(), b"").decode() for key in _LAYOUT]
    if not all(text.isascii() and text.isdigit() and len(text) <= 12 for text in found):
        raise MessageRefused("a vector's layout is not numbers", where=where)
    return [int(text) for text in found]
