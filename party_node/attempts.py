"""Attempts at steps, as one party takes part in them: reserve, start, watch, stop.

A step starts in two phases: the initiator reserves the worker of every party of the step, in the order of names, and
starts it only when it holds all. Runs that overlap therefore wait for each other and cannot deadlock. A reservation
that is not renewed lapses, and so does an attempt that its initiator no longer watches. A later attempt at a step ends
an earlier one; the worker runs one step at a time, so an earlier attempt cannot write into a later one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import structlog
from sqlalchemy import func, select, update

from base.errors import AccordError, Cancelled, ConsentError, DeadlinePassed, PeerError, StateError, from_wire
from party_node.database import Attempt, Database, Run, job_name
from party_node.ledger_store import SqlLedgerStore
from party_node.runs import Runs
from party_node.supervisor import Supervisor
from runtime.checkpoint import FileCheckpoint
from runtime.execute import StepTask
from runtime.party import Home
from transport.inbox import DirectoryInbox

RESERVE_SECONDS = 20.0  # a reservation that is not renewed lapses
LEASE_SECONDS = 60.0  # an attempt that its initiator has not watched for so long is stopped
DEADLINE_SECONDS = 24 * 3600  # no step may hold a worker for longer
RESERVED, RUNNING = "reserved", "running"
SUCCEEDED, FAILED, CANCELLED = "succeeded", "failed", "cancelled"
log = structlog.get_logger()
ENDED = (SUCCEEDED, FAILED, CANCELLED)


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


class Attempts:
    """The attempts of one party and the one worker that runs them."""

    def __init__(
        self,
        home: Home,
        database: Database,
        runs: Runs,
        ledger: SqlLedgerStore,
        inbox: DirectoryInbox,
        worker: Supervisor,
    ) -> None:
        """Attempts that were going on when the node died have failed."""
        self._home, self._database, self._runs, self._ledger, self._worker = home, database, runs, ledger, worker
        self._inbox = inbox
        self._lock = threading.RLock()
        self._live: dict[str, Live] = {}
        error = PeerError("the node was restarted in the middle of the step", party=home.party)
        with database.write() as session:
            session.execute(
                update(Attempt)
                .where(Attempt.state.not_in(ENDED))
                .values(state=FAILED, error=error.to_wire(), ended=time.time())
            )

    # --- what the initiator asks

    def reserve(self, peer: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Hold the worker for an attempt, or say that it is busy; asking again renews."""
        run = self._runs.require_open(str(body["run"]), peer)
        task = self._task(run, str(body["step"]), int(body["attempt"]))
        job = _job(task)
        with self._lock:
            self._supersede(task)
            self._lapse()
            if any(other != job for other in self._live):
                return {"busy": True, "rounds": []}
            if job not in self._live:
                with self._database.write() as session:
                    names = {"run": task.run, "step": task.step, "attempt": task.attempt}
                    session.add(Attempt(**names, state=RESERVED, created=time.time()))
                self._live[job] = Live(task, peer)
            self._live[job].seen = time.monotonic()
        return {"busy": False, "rounds": self._checkpoints(task).rounds()}

    def start(self, peer: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Run a reserved attempt in the worker; all parties resume at the round `resume`, or begin."""
        live, deadline = self._mine(peer, body), deadline_seconds(body["deadline_seconds"])
        self._runs.require_unchanged(live.task.run, live.task.step)
        resume = None if body["resume"] is None else int(body["resume"])
        if resume is not None and resume not in self._checkpoints(live.task).rounds():
            raise StateError("the agreed checkpoint is not here", expected=f"round {resume}", party=self._home.party)
        with self._lock:
            if live.started is None:
                live.started = live.seen = time.monotonic()
                live.deadline = live.started + deadline
                self._update(live.task, state=RUNNING, started=time.time())
                log.info("attempt has started", job=_job(live.task), resume=resume)
                try:
                    self._worker.run(_job(live.task), {"task": {**asdict(live.task), "resume": resume}}, self._hear)
                except AccordError as error:
                    self._finish(_job(live.task), live, FAILED, error)
                    raise
        return {}

    def watch(self, peer: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return state, progress, seconds, rows, bytes and error of this party's part; renews its lease."""
        self._runs.require_open(str(body["run"]), peer)
        run, step, attempt = str(body["run"]), str(body["step"]), int(body["attempt"])
        with self._lock:
            live = self._live.get(job_name(run, step, attempt))
            if live is not None:
                live.seen = time.monotonic()
        row = self.get(run, step, attempt)
        end = row.ended or time.time()
        traffic = self._ledger.traffic(run, step, attempt)
        return {
            "state": row.state,
            "progress": live.progress if live else None,
            "seconds": round(end - row.started, 3) if row.started else 0.0,
            "bytes_out": traffic["out"],
            "bytes_in": traffic["in"],
            "rows": row.rows,
            "error": row.error,
        }

    def stop(self, peer: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """End an attempt because another party failed or somebody cancelled; the error says which."""
        job = _asked(body)
        with self._lock:
            live = self._live.get(job)
            if live is not None and live.initiator == peer:
                self._end(live, from_wire(body["error"]))
        return {}

    # --- what the door and the node ask

    def task(self, run: str, step: str, attempt: int) -> StepTask:
        """Return the task of an attempt that goes on here; messages for any other are refused."""
        live = self._live.get(job_name(run, step, attempt))
        if live is None:
            raise self._over(run, step, attempt)
        if live.stopping is not None:
            raise live.stopping
        return live.task

    def _over(self, run: str, step: str, attempt: int) -> AccordError:
        """Return why an attempt is over, so that a message that comes late does not hide the first cause."""
        with self._database.read() as session:
            row = session.get(Attempt, (run, step, attempt))
        if row is not None and row.error is not None:
            return from_wire(row.error)
        name = job_name(run, step, attempt)
        return StateError("no such attempt goes on at this party", found=name, party=self._home.party)

    def sweep(self) -> None:
        """Stop what nobody watches or what is overdue; the node calls it every second."""
        with self._lock:
            self._lapse()
            now = time.monotonic()
            for live in list(self._live.values()):
                if live.started is None or live.stopping is not None:
                    continue
                if now - live.seen > LEASE_SECONDS:
                    what = f"{live.initiator} has not asked for this attempt"
                    self._end(live, self._overdue(live, what, f"every {LEASE_SECONDS:g} s"))
                elif live.deadline is not None and now > live.deadline:
                    self._end(live, self._overdue(live, "the step took too long", "an end before its deadline"))

    def going_on(self) -> list[dict[str, Any]]:
        """Return what goes on here, for the operator."""
        with self._lock:
            return [
                {"job": job, "state": RUNNING if live.started else RESERVED, "progress": live.progress}
                for job, live in self._live.items()
            ]

    @contextmanager
    def at_rest(self, accord: str) -> Iterator[None]:
        """Let no attempt begin meanwhile; `StateError` when one of a run of `accord` goes on."""
        with self._lock:
            self._lapse()
            if busy := [job for job, live in self._live.items() if self._runs.get(live.task.run).accord == accord]:
                raise StateError(
                    "a run of the accord goes on",
                    expected="no step of it at this party",
                    found=", ".join(busy),
                    where=f"accord {accord}",
                    remedy="wait until the step has ended, or cancel it",
                    party=self._home.party,
                )
            yield

    def stop_all(self, error: AccordError) -> None:
        """End everything: the node stops."""
        with self._lock:
            for live in list(self._live.values()):
                self._end(live, error)

    def get(self, run: str, step: str, attempt: int) -> Attempt:
        """Return the row of an attempt; `StateError` when there is none."""
        with self._database.read() as session:
            row = session.get(Attempt, (run, step, attempt))
        if row is None:
            raise StateError("there is no such attempt", found=job_name(run, step, attempt), party=self._home.party)
        return row

    def last(self, run: str, step: str) -> int:
        """Return the highest number of an attempt at a step here; 0 when there is none."""
        with self._database.read() as session:
            query = select(func.max(Attempt.attempt)).where(Attempt.run == run, Attempt.step == step)
            return session.scalar(query) or 0

    # --- parts

    def _task(self, run: Run, step: str, attempt: int) -> StepTask:
        spec = self._runs.spec(run)
        if step not in spec.steps:
            raise ConsentError("the run has no such step", expected=", ".join(spec.steps), found=step[:64])
        part = spec.steps[step]
        if self._home.party not in spec.step_parties(step):
            raise ConsentError("this party has no role in the step", found=step, party=self._home.party)
        return StepTask(
            run=run.run,
            pipeline=run.pipeline,
            step=step,
            attempt=attempt,
            seed=run.seed,
            component=part.component,
            params=part.params,
            inputs=part.inputs,
            roles=spec.step_roles(step),
            party=self._home.party,
        )

    def _supersede(self, task: StepTask) -> None:
        """A later attempt ends earlier ones; a number that was here before is refused."""
        highest = self.last(task.run, task.step)
        if highest >= task.attempt and _job(task) not in self._live:
            raise StateError(
                "an attempt of this number or later was here before",
                expected=f"an attempt after {highest}",
                found=task.attempt,
                where=f"run {task.run}, step {task.step}",
                party=self._home.party,
            )
        for live in list(self._live.values()):
            if (live.task.run, live.task.step) == (task.run, task.step) and live.task.attempt < task.attempt:
                self._end(live, Cancelled(f"attempt {task.attempt} of the step has begun", party=self._home.party))

    def _mine(self, peer: str, body: Mapping[str, Any]) -> Live:
        live = self._live.get(_asked(body))
        if live is None or live.initiator != peer:
            raise StateError("the attempt is not reserved here", party=self._home.party, remedy="reserve it again")
        return live

    def _lapse(self) -> None:
        now = time.monotonic()
        for job, live in list(self._live.items()):
            if live.started is None and now - live.seen > RESERVE_SECONDS:
                error = self._overdue(live, f"{live.initiator} did not start what it had reserved", "a start")
                self._finish(job, live, FAILED, error)

    def _end(self, live: Live, error: AccordError) -> None:
        """Stop a live attempt for `error`; it leaves when its worker has stopped."""
        if live.stopping is None:
            live.stopping = error
            if live.started is None:
                self._finish(_job(live.task), live, *_outcome(error))
            else:
                self._worker.cancel(_job(live.task), error)

    def _hear(self, event: dict[str, Any]) -> None:
        """Take an event of the worker."""
        with self._lock:
            live = self._live.get(event["job"])
            if live is None:
                return
            if event["event"] == "progress":
                live.progress = {name: event[name] for name in ("done", "total", "unit")}
            elif event["event"] == "done":
                found = {name: event[name] for name in ("outputs", "metrics", "rows", "tracking")}
                self._finish(event["job"], live, SUCCEEDED, None, **found)
            else:
                error = live.stopping or from_wire(event["error"])
                self._finish(event["job"], live, *_outcome(error))

    def _finish(self, job: str, live: Live, state: str, error: AccordError | None, **found: Any) -> None:
        document = error.to_wire() if error else None
        self._update(live.task, state=state, error=document, ended=time.time(), progress=live.progress, **found)
        del self._live[job]
        self._inbox.forget(live.task.run, live.task.step, live.task.attempt)
        log.info("attempt has ended", job=job, state=state, error=document)

    def _update(self, task: StepTask, **values: Any) -> None:
        self._database.update(Attempt, (task.run, task.step, task.attempt), **values)

    def _checkpoints(self, task: StepTask) -> FileCheckpoint:
        return FileCheckpoint(self._home.path("store", "checkpoints", task.run, task.step))

    def _overdue(self, live: Live, what: str, expected: str) -> DeadlinePassed:
        where = f"run {live.task.run}, step {live.task.step}, attempt {live.task.attempt}"
        return DeadlinePassed(what, expected=expected, where=where, party=self._home.party)


def deadline_seconds(value: Any) -> float:
    """Return a step's deadline as somebody asks for it; `ConsentError` unless it is above 0 and at most a day."""
    if type(value) in (int, float) and 0 < value <= DEADLINE_SECONDS:  # NaN is refused too
        return float(value)
    expected = f"above 0 and at most {DEADLINE_SECONDS} s"
    raise ConsentError("a deadline is out of range", expected=expected, found=str(value)[:40])


def _job(task: StepTask) -> str:
    return job_name(task.run, task.step, task.attempt)


def _asked(body: Mapping[str, Any]) -> str:
    return job_name(str(body["run"]), str(body["step"]), int(body["attempt"]))


def _outcome(error: AccordError) -> tuple[str, AccordError]:
    return (CANCELLED if isinstance(error, Cancelled) else FAILED), error
