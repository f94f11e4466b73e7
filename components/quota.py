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
        if used + amount > limit:
            break
        kept = ctx.keys.keep(f"{purse}.{slot}", f"{amount} {version}".encode).decode()
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


def _require_same(ctx: Context, what: str, before: int, amount: int) -> None:
    if amount != before:
        raise StateError(
            f"another number of {what} than was counted for this run",
            expected=before,
            found=amount,
            where=f"{ctx.party}, step {ctx.step}",
            remedy="start a new run",
        )
