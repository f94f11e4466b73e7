"""The runs that one party knows: what was opened, and whether its next step may still start.

`party_node.opening` and `party_node.closing` say how a run begins and ends.
"""

from __future__ import annotations

import shutil
from typing import Any

from sqlalchemy import select

from base.errors import ConsentError, StateError
from party_node.accords import Accords
from party_node.approvals import Approvals
from party_node.database import Database, Run
from pipelines.accord import data_sets
from pipelines.load import loads
from pipelines.plan import RunPlan, commitment
from pipelines.spec import PipelineSpec
from runtime.data import snapshot_digest
from runtime.keys import run_secrets
from runtime.party import Home

PREPARING, OPEN, CLOSED, FAILED = "preparing", "open", "closed", "failed"


class Runs:
    """The runs of one party."""

    def __init__(self, home: Home, database: Database, accords: Accords, approvals: Approvals) -> None:
        """Read runs of `database`, enforce `accords`."""
        self._home, self._database, self._accords, self._approvals = home, database, accords, approvals

    def get(self, run: str) -> Run:
        """Return a run that this party knows; `StateError` when there is none."""
        with self._database.read() as session:
            row = session.get(Run, run)
        if row is None:
            raise StateError("there is no such run", found=run[:128], party=self._home.party)
        return row

    def by_key(self, run_key: str) -> Run | None:
        """Return the run that a client's run key opened here, if any."""
        with self._database.read() as session:
            return session.scalar(select(Run).where(Run.run_key == run_key))

    def spec(self, row: Run) -> PipelineSpec:
        """Return the pipeline that was submitted first; today's file is another matter."""
        return loads(row.text, row.file).spec

    def require_same(self, row: Run, text: str, file: str, seed: int | None) -> None:
        """Raise `StateError` unless a client that names a run also names the pipeline and the seed that it began with.

        Comments and layout may differ. Without a seed the client takes the run's.
        """
        begun, asked = self.spec(row), loads(text, file).spec
        wish = row.seed if seed is None else int(seed)
        if (begun, row.seed) != (asked, wish):
            edited = ", edited since then" if begun.pipeline == asked.pipeline and begun != asked else ""
            raise StateError(
                "another pipeline or seed than this run began with",
                expected=f"pipeline {row.pipeline} of {row.file}, seed {row.seed}",
                found=f"pipeline {asked.pipeline} of {file}{edited}, seed {wish}",
                where=f"run {row.run}",
                remedy="the file as it was goes on with this run; without --run-key a new run begins",
                party=self._home.party,
            )

    def mine(self, run: str, peer: str, states: tuple[str, ...]) -> Run:
        """Return a run in one of these states; `ConsentError` unless `peer` is its initiator."""
        row = self.get(run)
        if peer != row.initiator:
            raise ConsentError("only the initiator may do this", expected=row.initiator, found=peer, where=f"run {run}")
        if row.state not in states:
            raise StateError(
                "the run is in another state", expected=" or ".join(states), found=row.state, where=f"run {run}"
            )
        return row

    def require_open(self, run: str, peer: str) -> Run:
        """Return a run whose steps the initiator `peer` may start."""
        row = self.mine(run, peer, (OPEN, CLOSED))
        self._accords.get(row.accord)  # an accord that has ended stops a run at its next step
        return row

    def require_unchanged(self, run: str, step: str) -> None:
        """Raise unless what a person approved and what this party committed to is still what the step would use.

        Accord, feature specs and components are files that may change while a run is open, and so may the data.
        """
        row = self.get(run)
        pipeline, _, template = self._approvals.template(row.text, row.file)
        if template.digest != row.template:
            raise ConsentError(
                "accord, feature specs or components are not those of the run any more",
                expected=f"template {row.template[:16]}",
                found=f"template {template.digest[:16]}",
                where=f"run {run}",
                remedy="start a new run",
                party=self._home.party,
            )
        loads_data = any(name == step and party == self._home.party for name, party, _ in data_sets(pipeline.spec))
        if loads_data and RunPlan.model_validate(row.plan).commitments[self._home.party] != self.commitment(
            row, pipeline.spec
        ):
            raise ConsentError(
                "the data sets are not those that this party committed to",
                expected="the files as they were when the run was opened",
                found="other bytes",
                where=f"run {run}, step {step}",
                remedy="start a new run",
                party=self._home.party,
            )

    def commitment(self, row: Run, spec: PipelineSpec) -> str:
        """Return the salted digest of this party's data sets as they are now."""
        own = sorted({name for _, party, name in data_sets(spec) if party == self._home.party})
        return commitment(bytes.fromhex(row.salt), {name: snapshot_digest(self._home, name) for name in own})

    def end(self, row: Run, state: str, **values: Any) -> None:
        """Note that a run is over, and drop what no artefact holds: its checkpoints, spilled files and secrets."""
        self._database.update(Run, row.run, state=state, **values)
        ended = [self._home.path("store", kind, row.run) for kind in ("checkpoints", "spill")]
        for folder in (*ended, run_secrets(self._home.path("secrets", row.accord), row.run)):
            shutil.rmtree(folder, ignore_errors=True)
