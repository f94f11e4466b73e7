"""The far end of a measurement: JSON lines in, JSON lines out, in an interpreter that holds the peer's library alone.

    {"op": "encrypt", "n": 200}  ->  {"count": 200, "cpu": 0.31}      count / cpu is the rate
                                     {"error": "..."}

`cpu` is user and system time of all threads of this process. The process is bound to one core before the library is
loaded, so a library that asks how many threads it should start gets one; the environment says the same to OpenMP.
Libraries that log to standard output would break the lines, so their output goes to standard error.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Callable, Mapping
from typing import Any

Operation = Callable[..., Mapping[str, Any]]


class Clock:
    """CPU seconds of the blocks that it was entered for."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._start = 0.0

    def __enter__(self) -> Clock:
        self._start = _cpu()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds += _cpu() - self._start


def serve(load: Callable[[], tuple[Mapping[str, str], Mapping[str, Operation]]]) -> None:
    """Load the library (`load` imports it and returns its versions and operations) and answer until input ends."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    answers = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)
    try:
        versions, operations = load()
    except Exception as error:  # whatever an import may raise is the answer
        _answer(answers, {"error": _text(error)})
        return
    _answer(answers, {"versions": versions})
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = operations[request.pop("op")](**request)
        except Exception as error:  # the driver lists it beside the case
            answer = {"error": _text(error)}
        _answer(answers, answer)


def check(holds: bool, what: str) -> None:
    """Raise unless a result is right: a wrong one has no rate."""
    if not holds:
        raise ValueError(f"wrong result: {what}")


def _text(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {' '.join(line.strip() for line in lines[:2])}"[:300]


def _answer(answers: Any, answer: Mapping[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
