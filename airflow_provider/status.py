"""What a node says about a job, as people read it in a task's log, and as Airflow has to react to it.

The node's `status` answer: {job, run, attempt, state, parties: {party: {state, progress, seconds, bytes_out, bytes_in,
rows, error}}, error, outputs: {name: digest}}.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from base.errors import AccordError, StateError, from_wire

FINAL = frozenset({"succeeded", "failed", "cancelled"})


class Progress:
    """Turns successive answers into lines: a party's change of state, and each further twentieth of its work."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[str, int]] = {}

    def lines(self, status: Mapping[str, Any]) -> Iterator[str]:
        """Yield what is new since the last answer."""
        for party, part in sorted(status.get("parties", {}).items()):
            progress = part.get("progress") or {"done": 0, "total": 1}
            now = (str(part["state"]), int(20 * progress["done"] / max(1, progress["total"])))
            if self._seen.get(party) != now:
                self._seen[party] = now
                yield f"{party}: {_describe(part)}"


def _describe(part: Mapping[str, Any]) -> str:
    words = [str(part["state"])]
    progress, seconds = part.get("progress"), part.get("seconds")
    if progress:
        words.append(f"{progress['done']}/{progress['total']} {progress['unit']}")
    if part.get("rows"):
        words.append(f"{part['rows']} rows")
    if part.get("bytes_out") or part.get("bytes_in"):
        words.append(f"out {_size(part.get('bytes_out') or 0)}, in {_size(part.get('bytes_in') or 0)}")
    if seconds is not None:
        words.append(f"{seconds:.1f} s")
        if part["state"] == "running" and progress and 0 < progress["done"] < progress["total"]:
            words.append(f"about {seconds * (progress['total'] / progress['done'] - 1):.0f} s left")
    return ", ".join(words)


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 100_000 else f"{count / 1e3:.1f} kB"


def failures(status: Mapping[str, Any]) -> list[AccordError]:
    """Return the errors of a job that did not succeed, the one that caused the others first, each once."""
    parties = sorted(status.get("parties", {}).items())
    documents = [
        status.get("error"),
        *({"party": name, **part["error"]} for name, part in parties if part.get("error")),
    ]
    kept: dict[tuple[str | None, ...], AccordError] = {}
    for error in (from_wire(document) for document in documents if document):
        first = kept.setdefault((error.what, error.where, error.found), error)
        first.party = first.party or error.party
    errors = list(kept.values())
    if not errors:
        errors = [StateError(f"the step ended as {status['state']} and the node gives no reason", found=status["job"])]
    return errors


def airflow_error(error: AccordError) -> AirflowException:
    """Return what Airflow has to be told: try again, or stop because another try cannot help."""
    return AirflowException(str(error)) if error.retryable else AirflowFailException(str(error))
