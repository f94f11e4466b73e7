"""Whose row is whose in a model, without an id in it: keyed hashes that only the party itself can compute.

A part of a model outlives the run that made it, in the store and in MLflow; a later run finds its people and items in
it by these.
"""

from __future__ import annotations

import hmac

import numpy as np
import pyarrow as pa

from components.contract import Context

BYTES = 16


def id_keys(ctx: Context, ids: pa.ChunkedArray) -> np.ndarray:
    """Return HMAC-SHA-256 of each id under a secret of the party, the same in all its accords, (n, 16) uint8."""
    # From the party's own stream, so that a run that is repeated from the same secrets gives the same part.
    secret = ctx.keys.keep("party/model.ids", lambda: ctx.private_rng("model ids").bytes(32))
    found = [hmac.digest(secret, text.encode(), "sha256")[:BYTES] for text in ids.to_pylist()]
    return np.frombuffer(b"".join(found), np.uint8).reshape(-1, BYTES)


def rows_before(keys: np.ndarray, before: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (rows, rows in `before`) of what is in both, each (m,)."""
    place = {key.tobytes(): n for n, key in enumerate(before)}
    found = np.array([place.get(key.tobytes(), -1) for key in keys], np.int64)
    rows = np.flatnonzero(found >= 0)
    return rows, found[rows]
