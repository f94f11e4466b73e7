"""Attempts at steps as the node's database keeps them: what became of each, also after a restart."""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import func, select, update

from base.errors import PeerError, StateError
from party_node.database import Attempt, Database, job_name
from runtime.execute import StepTask

RESERVED, RUNNING = "reserved", "running"
SUCCEEDED, FAILED, CANCELLED = "succeeded", "failed", "cancelled"
ENDED = (SUCCEEDED, FAILED, CANCELLED)


class AttemptRows:
    """The rows of one party's attempts."""

    def __init__(self, database: Database, party: str) -> None:
        """Attempts that were going on when the node died have failed."""
        self._database, self._party = database, party
        error = PeerError("the node was restarted in the middle of the step", party=party)
        with database.write() as session:
            session.execute(
                update(Attempt)
                .where(Attempt.state.not_in(ENDED))
                .values(state=FAILED, error=error.to_wire(), ended=time.time())
            )

    def add(self, task: StepTask) -> None:
        """Note that a worker is held for an attempt."""
        names = {"run": task.run, "step": task.step, "attempt": task.attempt}
        with self._database.write() as session:
            session.add(Attempt(**names, state=RESERVED, created=time.time()))

    def update(self, task: StepTask, **values: Any) -> None:
        """Set fields of an attempt's row."""
        self._database.update(Attempt, (task.run, task.step, task.attempt), **values)

    def find(self, run: str, step: str, attempt: int) -> Attempt | None:
        """Return the row of an attempt, None when there is none."""
        with self._database.read() as session:
            return session.get(Attempt, (run, step, attempt))

    def get(self, run: str, step: str, attempt: int) -> Attempt:
        """Return the row of an attempt; `StateError` when there is none."""
        row = self.find(run, step, attempt)
        if row is None:
            raise StateError("there is no such attempt", found=job_name(run, step, attempt), party=self._party)
        return row

    def last(self, run: str, step: str) -> int:
        """Return the highest number of an attempt at a step here; 0 when there is none."""
        with self._database.read() as session:
            query = select(func.max(Attempt.attempt)).where(Attempt.run == run, Attempt.step == step)
            return session.scalar(query) or 0
