"""What may cross a border: message tables, wire schemas, and the key that makes a delivery unique.

A component declares every message that it sends in one tuple of `Message`. `Channel` refuses whatever is not in it, and
`docs/messages.md` is generated from it, so the table cannot lie.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow as pa

from base.canonical import digest
from base.errors import MessageRefused

WIRE_VERSION = 1
MAX_BYTES = 64 * 2**20
MAX_COUNT = 10_000
FIXED_BINARY = "fixed_size_binary"  # any width: a ciphertext is as wide as its key
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:+-]{0,127}")


class Protection(StrEnum):
    """How a message is protected besides TLS."""

    PUBLIC = "public"  # may be read by whoever receives it: digests, public keys, signatures
    PAILLIER = "paillier"  # ciphertexts under a key that the receiver does not hold
    PAILLIER_ANSWER = "paillier_answer"  # ciphertexts under the receiver's key
    WRAPPED = "wrapped"  # sealed for the receiver's node key
    BLINDED = "blinded"  # uniformly random for the receiver
    HASHED_SIGNATURE = "hashed_signature"  # SHA-256 of a signature that only the key holder can compute
    MASKED = "masked"  # uniformly random until every party has given its own mask, and then only in sum
    AGGREGATE = "aggregate"  # a sum over three parties or more, readable
    CLEAR = "clear"  # one party's own numbers, readable: for measuring
    KEYED_HASH = "keyed_hash"  # HMAC-SHA-256 under a key that the receiver holds too: it can try ids


@dataclass(frozen=True)
class WireSchema:
    """Columns and metadata keys of a message; anything else is refused at both ends."""

    name: str
    columns: Mapping[str, pa.DataType | str]
    metadata: tuple[str, ...] = ()

    def check(self, table: pa.Table) -> None:
        """Raise `MessageRefused` unless the table has these columns, types and metadata keys, and no others."""
        found = {f.name: f.type for f in table.schema}
        meta = {k.decode(): v for k, v in (table.schema.metadata or {}).items()}
        fits = list(found) == list(self.columns) and all(_fits(found[n], t) for n, t in self.columns.items())
        if not fits or any(f.metadata for f in table.schema):
            raise MessageRefused(
                f"a table is not of schema {self.name}", expected=self.describe(), found=_describe(found)
            )
        if set(meta) != set(self.metadata) or any(len(value) > 512 for value in meta.values()):
            raise MessageRefused(
                f"the metadata of schema {self.name} differ", expected=sorted(self.metadata), found=sorted(meta)
            )

    def describe(self) -> str:
        """Return the columns as text."""
        return _describe(self.columns)

    @property
    def digest(self) -> str:
        """SHA-256 of the schema's description; stands in the ledger."""
        return digest([self.name, self.describe(), list(self.metadata)])


@dataclass(frozen=True)
class Message:
    """One row of a component's message table."""

    name: str
    sender: str  # role
    receiver: str  # role
    schema: WireSchema
    protection: Protection
    reveals: str  # what the receiver learns, in words
    max_bytes: int = field(default=MAX_BYTES, compare=False)
    max_count: int = field(default=MAX_COUNT, compare=False)  # from one sender to one receiver in an attempt
    only_if: tuple[tuple[str, str | bool], ...] = ()  # (parameter, value): with one of these; none named = always
    and_if: tuple[str, str | bool] | None = None  # and with this

    def admitted(self, params: Mapping[str, object]) -> bool:
        """Tell whether a step with these parameters, defaults filled in, declares this message."""
        fits = [params[name] == value for name, value in self.only_if]
        return (not fits or any(fits)) and (self.and_if is None or params[self.and_if[0]] == self.and_if[1])


@dataclass(frozen=True, order=True)
class MessageKey:
    """Names one delivery; the receiver drops a second one with the same key. All parts are safe in a path."""

    run: str
    step: str
    attempt: int
    name: str
    sender: str  # party
    receiver: str  # party
    seq: int  # 0, 1, ...: the n-th message of this name from sender to receiver in this attempt

    def __post_init__(self) -> None:
        """Refuse parts that could leave a directory or mislead a log."""
        check_names(self.run, self.step, self.name, self.sender, self.receiver)
        if not (0 <= self.seq < 2**31 and 1 <= self.attempt < 2**31):
            raise MessageRefused("a number of a message key is out of range")

    def __str__(self) -> str:
        """Return the key as a path of plain names."""
        return f"{self.run}/{self.step}/{self.attempt}/{self.name}/{self.sender}/{self.receiver}/{self.seq}"


def check_names(*parts: str) -> None:
    """Raise `MessageRefused` unless every part is a plain name, safe in a path and in a log."""
    for part in parts:
        if not _NAME.fullmatch(part) or ".." in part:
            raise MessageRefused("a part of a message key is not a plain name", expected=_NAME.pattern)


def _fits(found: pa.DataType, declared: pa.DataType | str) -> bool:
    if isinstance(declared, str):
        return bool(pa.types.is_fixed_size_binary(found)) and found.byte_width <= 4096
    return bool(found == declared)


def _describe(columns: Mapping[str, pa.DataType | str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())
