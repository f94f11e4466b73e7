"""Canonical bytes and digests of JSON documents: one spelling, so that two parties hash the same thing.

Keys sorted, no blanks, UTF-8, NaN refused: the subset of RFC 8785 that documents of strings, integers, booleans and
short decimal fractions need.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any


def canonical_bytes(document: Any) -> bytes:
    """Return the one byte string of a JSON document; ValueError for NaN and infinity."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def digest(document: Any) -> str:
    """Return the SHA-256 of a JSON document's canonical bytes, in hex."""
    return hashlib.sha256(canonical_bytes(document)).hexdigest()


def digest_bytes(data: bytes) -> str:
    """Return the SHA-256 of bytes, in hex."""
    return hashlib.sha256(data).hexdigest()
