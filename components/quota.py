"""What may be given out only so often over the life of a key or a snapshot: counted in the node's key store.

A purse is a row of slots that are written once and never change, so a count cannot go back: not by a retry, and not by
a node that is restarted. The same version is the same spending, however often it happens, and of the same amount: else
who paid for one could use it for thousands.
"""

from __future__ import annotations

from itertools import count

from base.errors import ConsentError, StateError
from components.contract import Context


def spend(ctx: Context, purse: str, amount: int, limit: int, version: str, what: str, remedy: str) -> int:
    """Return the slot (0, 1, ...) of this spending; `ConsentError` when the purse would exceed `limit`.

    version  names the spending; one that is in the purse already costs nothing more, `StateError` for another amount
    what     what is given out, in words, for the error
    """
    used = 0
    for slot in count():
        new = f"{amount} {version}" if used + amount <= limit else None
        kept = _slot(ctx, f"{purse}.{slot}", new)
        if kept is None:
            break
        before, found = kept.split(" ", 1)
        if found == version:
            _require_same(ctx, what, int(before), amount)
            return slot
        used += int(before)
    raise ConsentError(
        f"no further {what} may be given out",
        expected=f"at most {limit}",
        found=f"{used} given out, {amount} more asked for",
        where=f"{ctx.party}, step {ctx.step}",
        remedy=remedy,
    )


def raise_parameter(name: str) -> str:
    """Return the remedy where parameter `name` of the step is the limit, and the accord's term `name` bounds it."""
    return (
        f"raise the step parameter {name}, at most to {name} of the accord; beyond it a new version of the accord,"
        " which goes on counting, weighed against the number of possible ids"
    )


class _FreeError(Exception):
    """A slot that nobody has written."""


def _slot(ctx: Context, name: str, new: str | None) -> str | None:
    """Return what the slot holds, `new` where it is free; None for a free slot when there is nothing new to write."""

    def make() -> bytes:
        if new is None:
            raise _FreeError
        return new.encode()

    try:
        return ctx.keys.keep(name, make).decode()
    except _FreeError:
        return None


def _require_same(ctx: Context, what: str, before: int, amount: int) -> None:
    if amount != before:
        raise StateError(
            f"another number of {what} than was counted for this run",
            expected=before,
            found=amount,
            where=f"{ctx.party}, step {ctx.step}",
            remedy="start a new run",
        )
