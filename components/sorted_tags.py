"""Tags of ids that cross in ascending order, a slice at a time, padding among them: so their order tells nothing."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from base.errors import CryptoError
from components.contract import Context
from components.signature_cache import as_keys, find
from crypto.curve import from_column, to_column

TAG = 32  # bytes
SLICE = 1 << 20  # tags in one message: 32 MB


def send_tags(ctx: Context, tags: np.ndarray) -> np.ndarray:
    """Send tags (n, 32) in ascending order to the receiver; return the row that each place stands for, (n,)."""
    order = np.argsort(as_keys(tags))
    for start in range(0, len(tags), SLICE):
        ctx.send("tags", pa.table({"tag": to_column(tags[order[start : start + SLICE]])}))
        ctx.progress(min(start + SLICE, len(tags)), len(tags), "tags")
    return order


def match_tags(ctx: Context, own: np.ndarray, sender: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (own rows, places among the sender's tags) of equal tags, read slice by slice; `own` is (n, 32).

    `CryptoError` for tags that repeat, stand in another order, or are of another number than announced.
    """
    keys = as_keys(own)
    order = np.argsort(keys)
    keys, last, rows, places = keys[order], keys[:0], [], []
    for start in range(0, count, SLICE):
        tags = as_keys(from_column(ctx.recv("tags", sender)["tag"], TAG))
        both = np.concatenate([last, tags])
        if len(tags) != min(SLICE, count - start) or not (both[1:] > both[:-1]).all():
            raise CryptoError("tags repeat, are not sorted or are of another number", where=f"tags of {sender}",
                              expected=f"{count} different tags")  # fmt: skip
        at, last = find(tags, keys), tags[-1:]
        rows.append(order[at[at >= 0]])
        places.append(start + np.flatnonzero(at >= 0))
        ctx.progress(start + len(tags), count, "tags")
    return np.concatenate(rows), np.concatenate(places)
