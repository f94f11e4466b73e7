"""Jobs at the initiator: what clients submit, watch and cancel, each with an idempotency key.

Airflow may submit twice, lose an answer, retry and cancel in any order, so a key (dag/run/step/try) always means the
same job: the same key gets its job again; another key for a step that is going on attaches to it and takes it over; a
step that has succeeded stays so; anything else begins a new attempt. A cancel whose key no longer holds the job does
nothing.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping
from typing import Any

from sqlalchemy import select, update

from base.errors import AccordError, Cancelled, ConsentError, PeerError, StateError
from party_node.attempt_rows import CANCELLED, ENDED, FAILED, SUCCEEDED, AttemptRows
from party_node.attempts import deadline_seconds
from party_node.coordinator import Coordinator
from party_node.database import Attempt, Database, Job, Key, Run
from party_node.policy import Caller
from party_node.runs import Runs
from runtime.party import Home

QUEUED = "queued"
_KEY = re.compile(r"[^\x00-\x1f\x7f]{1,400}")


class Jobs:
    """The jobs that this node's clients started."""

    def __init__(
        self, home: Home, database: Database, runs: Runs, attempts: AttemptRows, coordinator: Coordinator
    ) -> None:
        """Jobs that were going on when the node died have failed; a retry begins a new attempt."""
        self._home, self._database, self._runs, self._attempts = home, database, runs, attempts
        self._coordinator = coordinator
        self._opening = threading.Lock()
        self._cancels: dict[str, AccordError] = {}
        error = PeerError("the initiator's node was restarted in the middle of the step", party=home.party)
        with database.write() as session:
            gone = update(Job).where(Job.state.not_in(ENDED))
            session.execute(gone.values(state=FAILED, error=error.to_wire(), ended=time.time()))

    def submit(self, caller: Caller, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the job of a key: the one it has, the one that goes on, or a new attempt."""
        key, run_key, step = _key(body, "key"), _key(body, "run_key"), str(body["step"])
        wish = body.get("deadline_seconds")
        asked = None if wish is None else deadline_seconds(wish)
        with self._opening:
            known = self._by_key(key)
            if known is not None:
                return self._answer(known)
            run = self._run(run_key, body)
            steps = self._runs.spec(run).steps
            if step not in steps:
                raise StateError("the run has no such step", expected=", ".join(steps), found=step[:64])
            latest = self._latest(run.run, step)
            if latest is not None and latest.state not in (FAILED, CANCELLED):
                self._take_over(latest, key)
                return self._answer(self._get(latest.name))
            job = self._new(run, step, key, asked or steps[step].deadline_minutes * 60.0)
        threading.Thread(target=self._drive, args=(job.name,), name=f"job-{step}", daemon=True).start()
        return self._answer(job)

    def status(self, caller: Caller, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the state of a job at every party; whoever asks keeps it alive."""
        job = self._get(str(body["job"]))
        with self._database.write() as session:
            session.execute(_this(job).values(watched=time.time()))
        return self._answer(job)

    def cancel(self, caller: Caller, body: Mapping[str, Any]) -> dict[str, Any]:
        """Stop a job at all parties, unless another key holds it by now; an operator needs no key."""
        job = self._get(str(body["job"]))
        holds = body.get("key") == job.key or (caller.role == "operator" and body.get("key") is None)
        latest = self._latest(job.run, job.step)
        if not holds or job.state in ENDED or latest is None or latest.attempt != job.attempt:
            return {"cancelled": False, "state": job.state}
        self._cancels[job.name] = Cancelled(f"{caller.name} cancelled the step", party=self._home.party)
        return {"cancelled": True, "state": job.state}

    def _drive(self, name: str) -> None:
        """Bring one job to its end, in a thread of its own."""
        job = self._get(name)

        def stopped() -> AccordError | None:
            silent = time.time() - self._get(name).watched
            if silent > self._home.conf.unwatched_minutes * 60:
                minutes = self._home.conf.unwatched_minutes
                return Cancelled(f"nobody has watched the job for {minutes} minutes", party=self._home.party)
            return self._cancels.get(name)

        def tell(**values: Any) -> None:
            with self._database.write() as session:
                session.execute(_this(job).values(**values))

        error = self._coordinator.drive(job, stopped, tell)
        state = SUCCEEDED if error is None else CANCELLED if isinstance(error, Cancelled) else FAILED
        tell(state=state, error=error.to_wire() if error else None, ended=time.time())
        self._cancels.pop(name, None)

    def _run(self, run_key: str, body: Mapping[str, Any]) -> Run:
        """Return the run of a run key, opened at all parties by its first submit.

        Airflow derives its run keys, and a file that is edited meanwhile is for the next run. A person names key and
        file (`same_pipeline`), and then both count.
        """
        text, file, seed = str(body["pipeline"]), str(body["file"]), body.get("seed")
        row = self._runs.by_key(run_key)
        if row is None:
            return self._coordinator.open_run(run_key, text, file, seed)
        if body.get("same_pipeline") is True:
            self._runs.require_same(row, text, file, seed)
        return row

    def _new(self, run: Run, step: str, key: str, deadline: float) -> Job:
        latest = self._latest(run.run, step)
        number = 1 + max(latest.attempt if latest else 0, self._attempts.last(run.run, step))
        now = time.time()
        names = {"run": run.run, "step": step, "attempt": number}
        job = Job(
            **names,
            key=key,
            state=QUEUED,
            deadline=deadline,
            watched=now,
            created=now,
            ended=None,
            parties={},
            error=None,
        )
        with self._database.write() as session:
            session.add_all([job, Key(key=key, **names)])
        return job

    def _take_over(self, job: Job, key: str) -> None:
        with self._database.write() as session:
            session.add(Key(key=key, run=job.run, step=job.step, attempt=job.attempt))
            session.execute(_this(job).values(key=key, watched=time.time()))

    def _by_key(self, key: str) -> Job | None:
        with self._database.read() as session:
            found = session.get(Key, key)
            return session.get(Job, (found.run, found.step, found.attempt)) if found else None

    def _latest(self, run: str, step: str) -> Job | None:
        with self._database.read() as session:
            query = select(Job).where(Job.run == run, Job.step == step).order_by(Job.attempt.desc()).limit(1)
            return session.scalar(query)

    def _get(self, name: str) -> Job:
        run, _, rest = name.partition("/")
        step, _, number = rest.partition("/")
        with self._database.read() as session:
            job = session.get(Job, (run, step, int(number))) if number.isdecimal() else None
        if job is None:
            raise StateError("there is no such job", found=name[:200], party=self._home.party)
        return job

    def _answer(self, job: Job) -> dict[str, Any]:
        with self._database.read() as session:
            own = session.get(Attempt, (job.run, job.step, job.attempt))
        return {
            "job": job.name,
            "run": job.run,
            "step": job.step,
            "attempt": job.attempt,
            "state": job.state,
            "parties": job.parties,
            "error": job.error,
            "outputs": (own.outputs if own else None) or {},
            "metrics": (own.metrics if own else None) or {},
            "links": {"mlflow": self._home.url(self._home.conf.tracking_uri)},
        }


def _this(job: Job) -> Any:
    return update(Job).where(Job.run == job.run, Job.step == job.step, Job.attempt == job.attempt)


def _key(body: Mapping[str, Any], name: str) -> str:
    value = str(body[name])
    if not _KEY.fullmatch(value):
        raise ConsentError(f"{name} is not a plain line of text", expected="1 to 400 characters")
    return value
