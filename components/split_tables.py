"""What a split leaves (train, users, items and the parts that are held out), as training and evaluation read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from base.canonical import canonical_bytes, digest, digest_bytes
from components.contract import Arrays
from features.indexing import rating_columns
from models.histories import Histories


def catalogue_digest(tables: Mapping[str, pa.Table]) -> str:
    """Return the digest of the sorted item ids."""
    return digest(tables["items"]["item_id"].to_pylist())


Streams = Callable[[str], np.random.Generator]


def private_streams(private_rng: Streams, tables: Mapping[str, pa.Table]) -> Streams:
    """Return the party's own streams by name, others when its training rows or people change.

    With the same streams on two nights all that did not change would cancel in the difference of two totals, and what
    is left would show the person who did.
    """
    columns = [
        *(column.tobytes() for column in rating_columns(tables["train"])),
        canonical_bytes(tables["users"]["user_id"].to_pylist()),
    ]
    rows = digest([digest_bytes(column) for column in columns])
    return lambda name: private_rng(f"{name} over {rows}")


def histories(tables: Mapping[str, pa.Table]) -> Histories:
    """Return the training histories."""
    user, item, _ = rating_columns(tables["train"])
    return Histories(user, item, tables["users"].num_rows, tables["items"].num_rows)


def as_array(text: str) -> np.ndarray:
    """Return a digest as a model keeps it, uint8 (32,)."""
    return np.frombuffer(bytes.fromhex(text), np.uint8)


def bound_to(model: Arrays, shared: tuple[str, ...]) -> bytes:
    """Return a digest of the arrays that all parties' parts share: what an evaluation's sum is bound to."""
    return bytes.fromhex(digest([digest_bytes(np.ascontiguousarray(model[name]).tobytes()) for name in shared]))
