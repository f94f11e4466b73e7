"""Where a step that trains in rounds goes on after a crash, at all parties alike."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from components.contract import Context


def first_round(ctx: Context) -> int:
    """Return the round to go on with: the one after the checkpoint that all parties hold, or 0."""
    kept = ctx.checkpoint.resume()
    return 0 if kept is None else kept[0] + 1


def keep_round(ctx: Context) -> Callable[[int], None]:
    """Return what an aggregator does after a round: keep its number, for all parties resume where all are."""
    return lambda t: ctx.checkpoint.save(t, {"round": np.array([t])})


def first_measured(ctx: Context, name: str, value: bytes) -> bytes:
    """Return what this run measured first under `name`: a later attempt may repeat a round only as it was.

    It goes when the run ends.
    """
    place = f"run/{ctx.run}/{name}.{ctx.step}"
    if (kept := ctx.keys.get(place)) is None:
        ctx.keys.put(place, value)
    return value if kept is None else kept
