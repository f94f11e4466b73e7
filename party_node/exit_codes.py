"""The exit codes of `accord`, in bands by cause; docs/exit_codes.md has a paragraph for each."""

from __future__ import annotations

from base.errors import AccordError

OK = 0
UNEXPECTED = 1
USAGE = 2  # a wrong option or argument
INTERRUPTED = 130  # Ctrl-C


def exit_code(error: BaseException) -> int:
    """Return the exit code for what ended a command."""
    if isinstance(error, AccordError):
        return error.code
    return INTERRUPTED if isinstance(error, KeyboardInterrupt) else UNEXPECTED


def error_classes() -> list[type[AccordError]]:
    """Return every class of errors, by code."""
    found, todo = {AccordError}, [AccordError]
    while todo:
        todo += (new := [sub for sub in todo.pop().__subclasses__() if sub.__module__ == AccordError.__module__])
        found.update(new)
    return sorted(found, key=lambda cls: cls.code)
