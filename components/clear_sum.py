"""Sums in the clear: the aggregator reads every part. For measuring what protection costs, where an accord names it.

The parts travel as the same packed words as under masks, so that bytes and rounding compare.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from base.errors import ConsentError, StateError
from components.contract import Context
from components.words import WORDS, recv_words, send_words
from crypto.masks import pack, unpack
from crypto.packing import Lanes
from crypto.secagg_public import MIN_PARTIES
from transport.message import Message, Protection


def sum_messages(reveals: str) -> tuple[Message, ...]:
    """Return the rows of a message table for `Summer` and `relay`; `reveals` says what the total tells."""
    return (
        Message(
            "clear", "data_holder", "aggregator", WORDS, Protection.CLEAR, "EVERYTHING: the party's part, readable"
        ),
        Message("sum", "aggregator", "data_holder", WORDS, Protection.AGGREGATE, reveals),
    )


class Summer:
    """A data_holder's side of the sums of one step."""

    def __init__(self, ctx: Context) -> None:
        """Nothing to agree on; `ConsentError` with fewer than three, as everywhere."""
        self._ctx, self._roster = ctx, ctx.parties("data_holder")
        if len(self._roster) < MIN_PARTIES:
            raise ConsentError(
                "a sum of so few parties shows each what the other sent", expected=MIN_PARTIES, found=len(self._roster)
            )

    def total(
        self, values: np.ndarray, lanes: Lanes, round_number: int, bound: bytes, name: str = "vector"
    ) -> np.ndarray:
        """See `secure_sum.Total`; what the sum is over is not compared here."""
        send_words(self._ctx, "clear", pack(values, lanes, name), lanes, values.size, round_number)
        words, *_ = recv_words(self._ctx, "sum", expected=(lanes, values.size, round_number))
        return unpack(words, lanes, values.size, len(self._roster))


def relay(ctx: Context, rounds: Iterable[int], after: Callable[[int], None] = lambda round_number: None) -> None:
    """Add what it reads."""
    for _ in rounds:
        vectors = [recv_words(ctx, "clear", from_=party) for party in ctx.parties("data_holder")]
        if len({(lanes, size, number) for _, lanes, size, number in vectors}) != 1:
            raise StateError("the parts are not of one round", found=len(vectors))
        (words, *_), *others = vectors
        total = words.copy()
        for other, *_ in others:
            total += other
        _, lanes, size, round_number = vectors[0]
        send_words(ctx, "sum", total, lanes, size, round_number)
        after(round_number)
