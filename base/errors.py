"""One family of errors: what was expected, what was found, where, and how to resolve it.

Every error that Accord raises on purpose is an `AccordError`. Its fields are names, shapes, counts and digests; an id,
a feature value, a label, a key or a token never goes into one. The class decides the exit code of the command line
(`docs/exit_codes.md`), in bands by cause.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class AccordError(Exception):
    """Base of all errors; `code` is the exit code of the command line."""

    code = 1
    retryable = False

    def __init__(
        self,
        what: str,
        *,
        expected: object = None,
        found: object = None,
        where: str | None = None,
        remedy: str | None = None,
        party: str | None = None,
    ) -> None:
        """Say `what` went wrong in one clause; the rest is optional and printed one to a line."""
        super().__init__(what)
        self.what = what
        self.expected = None if expected is None else str(expected)
        self.found = None if found is None else str(found)
        self.where = where
        self.remedy = remedy
        self.party = party

    def __str__(self) -> str:
        """Return the error as a person reads it."""
        head = f"{self.party}: {self.what}" if self.party else self.what
        rows = (("where", self.where), ("expected", self.expected), ("found", self.found), ("remedy", self.remedy))
        return "\n".join([head, *(f"  {name:<9}{text}" for name, text in rows if text)])

    def to_wire(self) -> dict[str, Any]:
        """Return the error as plain JSON for a peer or a screen."""
        return {"code": self.code, **{name: getattr(self, name) for name in ("what", *_FIELDS)}}


class SpecError(AccordError):
    """A YAML that a person wrote is wrong: the error names file, line and key."""

    code = 10


class ConsentError(AccordError):
    """The accord, the policy of a node or a missing approval does not allow what was asked."""

    code = 20


class ApprovalMissing(ConsentError):
    """The template has not been approved by a person at this party."""

    code = 21


class PeerError(AccordError):
    """A peer did not do what the protocol needs."""

    code = 30
    retryable = True


class PeerDown(PeerError):
    """A peer cannot be reached."""

    code = 31


class PeerForeign(PeerError):
    """A peer's certificate, name or signature is not the one that the accord names."""

    code = 32
    retryable = False


class WireVersionMismatch(PeerError):
    """A peer speaks another version of the wire."""

    code = 33
    retryable = False


class SpecMismatch(PeerError):
    """A peer holds another feature spec, catalogue, component version or accord."""

    code = 34
    retryable = False


class DeadlinePassed(PeerError):
    """A wait ended; the error says who was awaited, for what, and since when."""

    code = 35


class DataError(AccordError):
    """The data of a party cannot be used as they are."""

    code = 40


class ExpectationFailed(DataError):
    """A rule of the feature spec does not hold: rule, column and count."""

    code = 41


class CryptoError(AccordError):
    """A cryptographic check failed or a value does not fit its lane."""

    code = 50


class MessageRefused(AccordError):
    """A message is not in the component's table, too large, or not of its schema."""

    code = 60


class StateError(AccordError):
    """A run, step or attempt is not in the state that the request needs."""

    code = 70


class Cancelled(StateError):
    """Somebody stopped the step; `what` says who and why."""

    code = 71


class EnvironmentMissing(AccordError):
    """The machine lacks something: Java, a port, disk, a file."""

    code = 80


_FIELDS = ("expected", "found", "where", "remedy", "party")
_BY_CODE = {
    cls.code: cls
    for cls in (
        AccordError, SpecError, ConsentError, ApprovalMissing, PeerError, PeerDown, PeerForeign, WireVersionMismatch,
        SpecMismatch, DeadlinePassed, DataError, ExpectationFailed, CryptoError, MessageRefused, StateError, Cancelled,
        EnvironmentMissing,
    )
}  # fmt: skip


def from_wire(document: Mapping[str, Any]) -> AccordError:
    """Rebuild a peer's error; the class comes from a closed table of codes, never from a name on the wire."""
    code = document.get("code")
    cls = _BY_CODE.get(code, AccordError) if isinstance(code, int) else AccordError
    what, *rest = (_short(document.get(name)) for name in ("what", *_FIELDS))
    return cls(what or "unnamed error", **dict(zip(_FIELDS, rest, strict=True)))


def _short(value: object) -> str | None:
    """Return what a peer wrote as text of bounded length without control characters: it goes to a log and a screen."""
    return None if value is None else "".join(c if c.isprintable() or c == "\n" else "?" for c in str(value)[:2000])
