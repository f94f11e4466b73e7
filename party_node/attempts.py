"""Attempts at steps, as the initiator asks one party for them: reserve, start, watch, stop.

A step starts in two phases: the initiator reserves the worker of every party of the step, in the order of names, and
starts it only when it holds all. Runs that overlap therefore wait for each other and cannot deadlock. What goes on
is in `party_node.live_attempts`, what became of it in `party_node.attempt_rows`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from base.errors import ConsentError, StateError, from_wire
from party_node.attempt_rows import AttemptRows
from party_node.database import Run, job_name
from party_node.ledger_store import SqlLedgerStore
from party_node.live_attempts import LiveAttempts
from party_node.runs import Runs
from runtime.checkpoint import FileCheckpoint
from runtime.execute import StepTask
from runtime.party import Home

DEADLINE_SECONDS = 24 * 3600  # no step may hold a worker for longer


class Attempts:
    """One party's part in attempts."""

    def __init__(self, home: Home, runs: Runs, ledger: SqlLedgerStore, rows: AttemptRows, live: LiveAttempts) -> None:
        """Answer for the steps of `runs`; traffic is what `ledger` has recorded."""
        self._home, self._runs, self._ledger, self._rows, self._live = home, runs, ledger, rows, live

    def reserve(self, peer: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Hold the worker for an attempt, or say that it is busy; asking again renews."""
        run = self._runs.require_open(str(body["run"]), peer)
        task = self._task(run, str(body["step"]), int(body["attempt"]))
        if not self._live.reserve(task, peer):
            return {"busy": True, "rounds": []}
        return {"busy": False, "rounds": self._checkpoints(task).rounds()}

    def start(self, peer: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Run a reserved attempt in the worker; all parties resume at the round `resume`, or begin."""
        live, seconds = self._live.reserved(_asked(body), peer), deadline_seconds(body["deadline_seconds"])
        self._runs.require_unchanged(live.task.run, live.task.step)
        resume = None if body["resume"] is None else int(body["resume"])
        if resume is not None and resume not in self._checkpoints(live.task).rounds():
            raise StateError("the agreed checkpoint is not here", expected=f"round {resume}", party=self._home.party)
        self._live.start(live, resume, seconds)
        return {}

    def watch(self, peer: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return state, progress, seconds, rows, bytes and error of this party's part; renews its lease."""
        self._runs.require_open(str(body["run"]), peer)
        run, step, attempt = str(body["run"]), str(body["step"]), int(body["attempt"])
        progress = self._live.watch(job_name(run, step, attempt))
        row = self._rows.get(run, step, attempt)
        end = row.ended or time.time()
        traffic = self._ledger.traffic(run, step, attempt)
        return {
            "state": row.state,
            "progress": progress,
            "seconds": round(end - row.started, 3) if row.started else 0.0,
            "bytes_out": traffic["out"],
            "bytes_in": traffic["in"],
            "rows": row.rows,
            "error": row.error,
        }

    def stop(self, peer: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """End an attempt because another party failed or somebody cancelled; the error says which."""
        self._live.stop(_asked(body), peer, from_wire(body["error"]))
        return {}

    @contextmanager
    def at_rest(self, accord: str) -> Iterator[None]:
        """Let no attempt begin meanwhile; `StateError` when one of a run of `accord` goes on."""
        with self._live.lock:
            self._live.lapse()
            if busy := [live.job for live in self._live.going_on() if self._runs.get(live.task.run).accord == accord]:
                raise StateError(
                    "a run of the accord goes on",
                    expected="no step of it at this party",
                    found=", ".join(busy),
                    where=f"accord {accord}",
                    remedy="wait until the step has ended, or stop it where it was started: Ctrl-C at accord run,"
                    " or mark its task as failed in Airflow",
                    party=self._home.party,
                )
            yield

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

    def _checkpoints(self, task: StepTask) -> FileCheckpoint:
        return FileCheckpoint(self._home.path("store", "checkpoints", task.run, task.step))


def deadline_seconds(value: Any) -> float:
    """Return a step's deadline as somebody asks for it; `ConsentError` unless it is above 0 and at most a day."""
    if type(value) in (int, float) and 0 < value <= DEADLINE_SECONDS:  # NaN is refused too
        return float(value)
    expected = f"above 0 and at most {DEADLINE_SECONDS} s"
    raise ConsentError("a deadline is out of range", expected=expected, found=str(value)[:40])


def _asked(body: Mapping[str, Any]) -> str:
    return job_name(str(body["run"]), str(body["step"]), int(body["attempt"]))
