"""What a split leaves (train, users, items and the parts that are held out), as training and evaluation read it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from base.canonical import digest, digest_bytes
from components.contract import Arrays
from features.indexing import rating_columns
from models.histories import Histories


def catalogue_digest(tables: Mapping[str, pa.Table]) -> str:
    """Return the digest of the sorted item ids."""
    return digest(tables["items"]["item_id"].to_pylist())


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
