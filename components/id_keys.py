"""Whose row is whose in a model, without an id in it: keyed hashes that only the party itself can compute.

A part of a model outlives the run that made it, in the store and in MLflow; a later run finds its people and items in
it by these.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from components.contract import Arrays, Context

BYTES = 16


def id_keys(ctx: Context, ids: pa.ChunkedArray) -> np.ndarray:
    """Return HMAC-SHA-256 of each id under a secret of the party, the same in all its accords, (n, 16) uint8."""
    # From the party's own stream, so that a run that is repeated from the same secrets gives the same part.
    secret = ctx.keys.keep("party/model.ids", lambda: ctx.private_rng("model ids").bytes(32))
    found = [hmac.digest(secret, text.encode(), "sha256")[:BYTES] for text in ids.to_pylist()]
    return np.frombuffer(b"".join(found), np.uint8).reshape(-1, BYTES)


def part_keys(ctx: Context, tables: Mapping[str, pa.Table]) -> dict[str, np.ndarray]:
    """Return `user_keys` and `item_keys` of a part over these tables."""
    return {f"{who}_keys": id_keys(ctx, tables[f"{who}s"][f"{who}_id"]) for who in ("user", "item")}


def require_start(
    ctx: Context, start: Arrays, kind: str, array: str, size: object, before: Callable[[], object]
) -> None:
    """Raise `DataError` unless the part to go on from is of this kind, which `array` tells, and of this size."""
    ctx.require(
        array in start, "the model to go on from is of another kind", expected=kind, found="another",
        remedy="name a manifest of this model in load_model",
    )  # fmt: skip
    ctx.require(
        size == before(), "the model to go on from has another size", expected=before(), found=size,
        remedy="the size of that model, or no `start`",
    )  # fmt: skip


def rows_before(keys: np.ndarray, before: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (rows, rows in `before`) of what is in both, each (m,)."""
    place = {key.tobytes(): n for n, key in enumerate(before)}
    found = np.array([place.get(key.tobytes(), -1) for key in keys], np.int64)
    rows = np.flatnonzero(found >= 0)
    return rows, found[rows]
