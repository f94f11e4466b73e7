"""The small documents around a body: the header before it, the end marker behind it, the receipt that comes back.

Each is a flat JSON object of exactly the named keys; anything else is refused before a byte of the body is read. The
body's digest stands in the end marker, so that a stream that was cut cannot be mistaken for a short one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self

from base.canonical import canonical_bytes
from base.errors import MessageRefused, WireVersionMismatch
from transport.message import WIRE_VERSION, MessageKey

FEATURES = frozenset({"arrow_stream", "claims"})  # what this version can read; a header names what it needs
SLICE_BYTES = 4 * 2**20  # 1-4 MiB batches are fastest on Flight; far below every proxy's limit
MAX_DOCUMENT = 8192  # bytes of one document
_KEY = tuple(part.name for part in fields(MessageKey))


@dataclass(frozen=True)
class Document:
    """A flat JSON object whose keys and types are those of the dataclass."""

    title: ClassVar[str]

    def to_bytes(self) -> bytes:
        """Return the canonical JSON."""
        return canonical_bytes(vars(self))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read foreign bytes; raise `MessageRefused` unless they are exactly this document."""
        if len(data) > MAX_DOCUMENT:
            raise _refuse(cls.title, f"at most {MAX_DOCUMENT} bytes", f"{len(data)} bytes")
        try:
            found = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise _refuse(cls.title, "JSON", type(error).__name__) from None
        return cls.from_dict(found)

    @classmethod
    def from_dict(cls, found: Any) -> Self:
        """Check keys and types of a foreign JSON value."""
        expected = {part.name: str(part.type) for part in fields(cls)}
        if not isinstance(found, dict) or set(found) != set(expected):
            raise _refuse(cls.title, ", ".join(sorted(expected)), "other keys")
        wrong = [name for name, kind in expected.items() if not _is(found[name], kind)]
        if wrong:
            raise _refuse(cls.title, ", ".join(f"{n} {expected[n]}" for n in wrong), "other types or numbers below 0")
        return cls(**found)


@dataclass(frozen=True)
class Header(Document):
    """What is about to come: enough to authorise it and to bound its size before anything is allocated."""

    title: ClassVar[str] = "header"
    run: str
    step: str
    attempt: int
    name: str
    sender: str
    receiver: str
    seq: int
    schema: str  # digest of the WireSchema
    protection: str
    rows: int
    size: int  # bytes of the body
    features: str = "arrow_stream claims"  # needed to read it, blank-separated
    wire: int = WIRE_VERSION

    @property
    def key(self) -> MessageKey:
        """The delivery's name; raise `MessageRefused` for parts that are not plain names."""
        return MessageKey(**{name: getattr(self, name) for name in _KEY})

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read a foreign header; another wire version or an unknown feature is named before anything else."""
        try:
            found = json.loads(data) if len(data) <= MAX_DOCUMENT else None
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict):
            _check_version(found.get("wire"), found.get("features"))
        return super().from_bytes(data)


@dataclass(frozen=True)
class Claim(Document):
    """One end's signed word that its ledger holds the message, and where; the other end keeps it."""

    title: ClassVar[str] = "claim"
    index: int  # of the entry in the chain of the run
    hash: str  # of that entry, which binds all before it
    signature: str  # hex, Ed25519


@dataclass(frozen=True)
class Marker(Document):
    """The end of a stream: what must have arrived."""

    title: ClassVar[str] = "end marker"
    slices: int
    size: int
    digest: str
    index: int
    hash: str
    signature: str

    @property
    def claim(self) -> Claim:
        """The sender's claim."""
        return Claim(self.index, self.hash, self.signature)


@dataclass(frozen=True)
class Statement:
    """What both ledgers say about one message (protocols.md §5)."""

    key: MessageKey
    schema: str
    protection: str
    rows: int
    size: int  # bytes of the body
    digest: str  # HMAC under the key of the message, or SHA-256 for ciphertexts

    def document(self) -> dict[str, Any]:
        """Return the flat JSON form; both ends sign it."""
        return {**vars(self.key), **{name: value for name, value in vars(self).items() if name != "key"}}

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Statement:
        """Rebuild a stored statement."""
        rest = dict(document)
        return cls(MessageKey(**{name: rest.pop(name) for name in _KEY}), **rest)


@dataclass(frozen=True)
class Parcel:
    """One message as a carrier sees it, before TLS."""

    header: Header
    body: bytes = field(repr=False)  # an Arrow IPC stream
    marker: Marker

    @property
    def key(self) -> MessageKey:
        """The delivery's name."""
        return self.header.key


def slices(body: bytes) -> Iterator[memoryview]:
    """Cut a body into views of at most `SLICE_BYTES`."""
    view = memoryview(body)
    return (view[start : start + SLICE_BYTES] for start in range(0, len(body), SLICE_BYTES))


def count_slices(size: int) -> int:
    """Return the number of slices of a body of `size` bytes."""
    return -(-size // SLICE_BYTES)


def _is(value: Any, kind: str) -> bool:
    if kind == "int":
        return type(value) is int and 0 <= value < 2**53
    return type(value) is str and len(value) <= 512


def _check_version(wire: Any, features: Any) -> None:
    if type(wire) is not int or wire != WIRE_VERSION:
        raise WireVersionMismatch(
            "a peer speaks another version of the wire",
            expected=f"wire version {WIRE_VERSION}",
            found=f"wire version {wire}" if type(wire) is int else "no wire version",
            remedy="install the same release of Accord at all parties",
        )
    missing = set(str(features).split()) - FEATURES
    if missing:
        raise WireVersionMismatch(
            "a peer needs a feature of the wire that this node lacks",
            expected=" ".join(sorted(FEATURES)),
            found=f"{len(missing)} more",
            remedy="install the same release of Accord at all parties",
        )


def _refuse(title: str, expected: str, found: str) -> MessageRefused:
    return MessageRefused(f"the {title} of a message is not of its form", expected=expected, found=found)
