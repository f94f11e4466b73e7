"""The exit codes of `accord`, in bands by cause; docs/exit_codes.md has a paragraph for each."""

from __future__ import annotations

from base.errors import AccordError, Cancelled, EnvironmentMissing, PeerError, PeerForeign

OK = 0
UNEXPECTED = 1
USAGE = 2  # a wrong option or argument
INTERRUPTED = 130  # Ctrl-C


def exit_code(error: BaseException) -> int:
    """Return the exit code for what ended a command."""
    if isinstance(error, AccordError):
        return error.code
    return INTERRUPTED if isinstance(error, KeyboardInterrupt) else UNEXPECTED


def can_go_on(error: BaseException) -> bool:
    """Return whether the same run may succeed later: nothing that it is bound to was at fault.

    A peer, a connection, a certificate, a machine, a deadline or somebody's stop; also what has no name here, since a
    process that ran out of memory is among it. Everything else needs other data, terms or another pipeline.
    """
    if type(error) is AccordError or (isinstance(error, PeerError) and error.retryable):
        return True
    return isinstance(error, (PeerForeign, EnvironmentMissing, Cancelled, KeyboardInterrupt))


def error_classes() -> list[type[AccordError]]:
    """Return every class of errors, by code."""
    found, todo = {AccordError}, [AccordError]
    while todo:
        todo += (new := [sub for sub in todo.pop().__subclasses__() if sub.__module__ == AccordError.__module__])
        found.update(new)
    return sorted(found, key=lambda cls: cls.code)
