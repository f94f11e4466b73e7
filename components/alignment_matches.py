"""Who is common to all, and how the receiver tells each sender where its own people stand in the aligned order."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from base.errors import CryptoError
from components.alignment import AlignParams
from components.alignment_ids import Ids
from components.contract import Context
from transport.message import Message, Protection, WireSchema

SEALED_POSITIONS = WireSchema("sealed_positions", {"sealed": pa.binary()})
PIECE = 1 << 20  # positions in one message
NOBODY = -1  # in place of a position: padding; in place of their number: that they are not told
# fmt: off
MATCHED = Message("matched", "receiver", "sender", SEALED_POSITIONS, Protection.WRAPPED, "which of the sender's people are common to all, in the aligned order, padded to N; nothing where reveal_to is given and leaves it out")  # noqa: E501
# fmt: on


def common_to_all(matches: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the receiver's rows that every sender has too, ascending; `matches` are its rows by sender."""
    found: list[np.ndarray] = [np.unique(rows) for rows in matches.values()]
    common = found[0]
    for rows in found[1:]:
        common = np.intersect1d(common, rows, assume_unique=True)
    return common


def require_enough(ctx: Context, params: AlignParams, common: int) -> None:
    """Raise `DataError` for fewer in common than `min_overlap`, without the number."""
    ctx.require(common >= params.min_overlap, "too few in common", expected=params.min_overlap, found="fewer",
                remedy="see in the reports of validate_tables how ids are written at each party")  # fmt: skip


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


def receive_matched(ctx: Context, ids: Ids, learners: tuple[str, ...]) -> np.ndarray | None:
    """Return the positions of this sender's people, or None where it does not learn them.

    `CryptoError` for more of them than this sender has ids, than the first number says, or without the padding;
    `DataError` where the receiver tells others than `learners`.
    """
    (peer,) = ctx.parties("receiver")
    numbers = 1 + ids.points
    data = np.concatenate([_receive_piece(ctx, peer, piece) for piece in range(-(-numbers // PIECE))])
    count = int(data[0]) if len(data) == numbers else -2
    if not NOBODY <= count <= len(ids.values) or (data[1 + max(count, 0) :] != NOBODY).any():
        raise CryptoError("the receiver's matches are of another number", expected="as announced, padded to N",
                          where=f"matches of {peer}")  # fmt: skip
    ctx.require((count != NOBODY) == (ctx.party in learners), f"matches told by {peer}",
                expected=f"to {', '.join(learners) or 'nobody'}", found="others")  # fmt: skip
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


def _receive_piece(ctx: Context, peer: str, piece: int) -> np.ndarray:
    table = ctx.recv("matched", peer)
    opened = ctx.keys.unwrap(peer, table["sealed"][0].as_py() if len(table) == 1 else b"", _matched_context(ctx, piece))
    if not opened or len(opened) % 8:
        raise CryptoError("the receiver's matches are of another form", expected="positions of 8 bytes, one or more",
                          where=f"matches of {peer}")  # fmt: skip
    return np.frombuffer(opened, "<i8")


def _matched_context(ctx: Context, piece: int) -> bytes:
    return f"accord alignment 1/{ctx.run}/{ctx.step}/{ctx.attempt}/{piece}".encode()
