"""Attempts that go on at one party, and the one worker that runs them.

A reservation that is not renewed lapses, and so does an attempt that its initiator no longer watches. A later attempt
at a step ends an earlier one; the worker runs one step at a time, so an earlier attempt cannot write into a later one.
"""

from __future__ import annotations

import threading
import time
from dataclasses import asdict, dataclass, field
from typing import Any

import structlog

from base.errors import AccordError, Cancelled, DeadlinePassed, StateError, from_wire
from party_node.attempt_rows import CANCELLED, FAILED, RESERVED, RUNNING, SUCCEEDED, AttemptRows
from party_node.database import job_name
from party_node.supervisor import Supervisor
from runtime.execute import StepTask
from transport.inbox import DirectoryInbox

RESERVE_SECONDS = 20.0  # a reservation that is not renewed lapses
LEASE_SECONDS = 60.0  # an attempt that its initiator has not watched for so long is stopped
log = structlog.get_logger()


@dataclass
class Live:
    """An attempt that has not ended: in memory, because a restart of the node ends it."""

    task: StepTask
    initiator: str
    seen: float = field(default_factory=time.monotonic)
    started: float | None = None
    deadline: float | None = None  # monotonic
    progress: dict[str, Any] | None = None
    stopping: AccordError | None = None

    @property
    def job(self) -> str:
        """The attempt's name here and at the worker."""
        return job_name(self.task.run, self.task.step, self.task.attempt)

    def shown(self) -> dict[str, Any]:
        """Return what the operator sees of it."""
        return {"job": self.job, "state": RUNNING if self.started else RESERVED, "progress": self.progress}


class LiveAttempts:
    """What goes on at one party; every method may be called by any thread."""

    def __init__(self, party: str, rows: AttemptRows, inbox: DirectoryInbox, worker: Supervisor) -> None:
        """Nothing goes on yet."""
        self._party, self._rows, self._inbox, self._worker = party, rows, inbox, worker
        self._live: dict[str, Live] = {}
        self.lock = threading.RLock()  # while it is held nothing begins and nothing ends

    def reserve(self, task: StepTask, initiator: str) -> bool:
        """Hold the worker for an attempt, or renew that; return False while it is held for another."""
        wanted = Live(task, initiator)
        with self.lock:
            self._supersede(wanted)
            self.lapse()
            if any(other != wanted.job for other in self._live):
                return False
            if wanted.job not in self._live:
                self._rows.add(task)
                self._live[wanted.job] = wanted
            self._live[wanted.job].seen = time.monotonic()
            return True

    def reserved(self, job: str, initiator: str) -> Live:
        """Return the attempt that `initiator` has reserved; `StateError` when there is none."""
        live = self._live.get(job)
        if live is None or live.initiator != initiator:
            raise StateError("the attempt is not reserved here", party=self._party, remedy="reserve it again")
        return live

    def start(self, live: Live, resume: int | None, seconds: float) -> None:
        """Let the worker run an attempt, for so many seconds at most; to ask again changes nothing."""
        with self.lock:
            if live.started is not None:
                return
            live.started = live.seen = time.monotonic()
            live.deadline = live.started + seconds
            self._rows.update(live.task, state=RUNNING, started=time.time())
            log.info("attempt has started", job=live.job, resume=resume)
            try:
                self._worker.run(live.job, {"task": {**asdict(live.task), "resume": resume}}, self._hear)
            except AccordError as error:
                self._finish(live, FAILED, error)
                raise

    def watch(self, job: str) -> dict[str, Any] | None:
        """Return the progress of an attempt and renew its lease; None for one that does not go on."""
        with self.lock:
            live = self._live.get(job)
            if live is None:
                return None
            live.seen = time.monotonic()
            return live.progress

    def stop(self, job: str, initiator: str, error: AccordError) -> None:
        """End an attempt for `error` when it is this initiator's and goes on."""
        with self.lock:
            live = self._live.get(job)
            if live is not None and live.initiator == initiator:
                self._end(live, error)

    def stop_all(self, error: AccordError) -> None:
        """End everything: the node stops."""
        with self.lock:
            for live in list(self._live.values()):
                self._end(live, error)

    def task(self, run: str, step: str, attempt: int) -> StepTask:
        """Return the task of an attempt that goes on here; messages for any other are refused."""
        live = self._live.get(job_name(run, step, attempt))
        if live is None:
            raise self._over(run, step, attempt)
        if live.stopping is not None:
            raise live.stopping
        return live.task

    def going_on(self) -> list[Live]:
        """Return what goes on here."""
        with self.lock:
            return list(self._live.values())

    def sweep(self) -> None:
        """Stop what nobody watches or what is overdue; the node calls it every second."""
        with self.lock:
            self.lapse()
            now = time.monotonic()
            for live in list(self._live.values()):
                if live.started is None or live.stopping is not None:
                    continue
                if now - live.seen > LEASE_SECONDS:
                    what = f"{live.initiator} has not asked for this attempt"
                    self._end(live, self._overdue(live, what, f"every {LEASE_SECONDS:g} s"))
                elif live.deadline is not None and now > live.deadline:
                    self._end(live, self._overdue(live, "the step took too long", "an end before its deadline"))

    def lapse(self) -> None:
        """End reservations that nobody has renewed."""
        now = time.monotonic()
        with self.lock:
            for live in list(self._live.values()):
                if live.started is None and now - live.seen > RESERVE_SECONDS:
                    what = f"{live.initiator} did not start what it had reserved"
                    self._finish(live, FAILED, self._overdue(live, what, "a start"))

    def _over(self, run: str, step: str, attempt: int) -> AccordError:
        """Return why an attempt is over, so that a message that comes late does not hide the first cause."""
        row = self._rows.find(run, step, attempt)
        if row is not None and row.error is not None:
            return from_wire(row.error)
        name = job_name(run, step, attempt)
        return StateError("no such attempt goes on at this party", found=name, party=self._party)

    def _supersede(self, wanted: Live) -> None:
        """A later attempt ends earlier ones; a number that was here before is refused."""
        task = wanted.task
        highest = self._rows.last(task.run, task.step)
        if highest >= task.attempt and wanted.job not in self._live:
            raise StateError(
                "an attempt of this number or later was here before",
                expected=f"an attempt after {highest}",
                found=task.attempt,
                where=f"run {task.run}, step {task.step}",
                party=self._party,
            )
        for live in list(self._live.values()):
            if (live.task.run, live.task.step) == (task.run, task.step) and live.task.attempt < task.attempt:
                self._end(live, Cancelled(f"attempt {task.attempt} of the step has begun", party=self._party))

    def _end(self, live: Live, error: AccordError) -> None:
        """Stop a live attempt for `error`; it leaves when its worker has stopped."""
        if live.stopping is None:
            live.stopping = error
            if live.started is None:
                self._finish(live, *_outcome(error))
            else:
                self._worker.cancel(live.job, error)

    def _hear(self, event: dict[str, Any]) -> None:
        """Take an event of the worker."""
        with self.lock:
            live = self._live.get(event["job"])
            if live is None:
                return
            if event["event"] == "progress":
                live.progress = {name: event[name] for name in ("done", "total", "unit")}
            elif event["event"] == "done":
                found = {name: event[name] for name in ("outputs", "metrics", "rows", "tracking")}
                self._finish(live, SUCCEEDED, None, **found)
            else:
                outcome = _outcome(live.stopping or from_wire(event["error"]))
                self._finish(live, *outcome, metrics=event.get("metrics"))  # none from a worker that died

    def _finish(self, live: Live, state: str, error: AccordError | None, **found: Any) -> None:
        document = error.to_wire() if error else None
        self._rows.update(live.task, state=state, error=document, ended=time.time(), progress=live.progress, **found)
        del self._live[live.job]
        self._inbox.forget(live.task.run, live.task.step, live.task.attempt)
        log.info("attempt has ended", job=live.job, state=state, error=document)

    def _overdue(self, live: Live, what: str, expected: str) -> DeadlinePassed:
        where = f"run {live.task.run}, step {live.task.step}, attempt {live.task.attempt}"
        return DeadlinePassed(what, expected=expected, where=where, party=self._party)


def _outcome(error: AccordError) -> tuple[str, AccordError]:
    return (CANCELLED if isinstance(error, Cancelled) else FAILED), error
