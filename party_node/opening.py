"""How one party opens a run: it checks, commits, signs, and starts no step before all have signed.

The initiator's node asks, every node decides for itself:
1. prepare  the node checks accord, pipeline, template, a person's approval and the quota, and commits to its snapshots;
2. accept   the node sees everybody's commitments in the run plan and signs its digest;
3. open     the node gets everybody's signatures. Without all of them no step of the run ever starts.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Mapping
from typing import Any

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from base.errors import ConsentError, StateError, from_wire
from party_node.accords import Accords
from party_node.approvals import Approvals
from party_node.database import Attempt, Database, Run
from party_node.runs import CLOSED, FAILED, OPEN, PREPARING, Runs
from pipelines.accord import SignedAccord
from pipelines.load import Pipeline
from pipelines.plan import RunPlan, Template, require_same_template
from runtime.party import Home

DOMAIN = b"accord/1/run\n"
NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_-]{0,127}")  # of a run: a part of paths and of secrets' names


class Opening:
    """What the initiator asks of one party before a run."""

    def __init__(self, home: Home, database: Database, accords: Accords, approvals: Approvals, runs: Runs) -> None:
        """Keep runs in `database`, enforce `accords`."""
        self._home, self._database, self._accords = home, database, accords
        self._approvals, self._runs = approvals, runs

    def prepare(self, peer: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Phase 1. Return the commitment to this party's snapshots, or raise why it takes no part."""
        pipeline, accord, template = self._approvals.template(str(body["text"]), str(body["file"]))
        spec, run = pipeline.spec, str(body["run"])
        if peer != spec.initiator or not NAME.fullmatch(run):
            raise ConsentError("only the initiator may open a run", expected=spec.initiator, found=peer)
        require_same_template(template, Template.model_validate(body["template"]), self._home.party, peer)
        self._approvals.require(template, pipeline.name)
        run_key = body.get("run_key") if peer == self._home.party else None
        self._keep(run, pipeline, accord, template, int(body["seed"]), run_key)
        row = self._runs.get(run)
        return {"template": row.template, "commitment": self._runs.commitment(row, spec)}

    def accept(self, peer: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Phase 2. Return this party's signature under the run plan."""
        plan = RunPlan.model_validate(body["plan"])
        row = self._runs.mine(plan.run, peer, (PREPARING, OPEN))
        spec = self._runs.spec(row)
        own = self._runs.commitment(row, spec)
        expected = (row.template, row.seed, own, sorted(spec.parties))
        if (plan.template, plan.seed, plan.commitments.get(self._home.party), sorted(plan.commitments)) != expected:
            raise ConsentError(
                "the run plan is not what this party prepared", where=f"run {plan.run}", found="other fields"
            )
        if row.plan is not None and RunPlan.model_validate(row.plan).digest != plan.digest:
            raise ConsentError(
                "this party has signed another plan of the run", where=f"run {plan.run}", remedy="start a new run"
            )
        self._database.update(Run, plan.run, plan=plan.model_dump(mode="json"))
        return {"signature": self._accords.sign(DOMAIN + plan.digest.encode()).hex()}

    def open(self, peer: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Phase 3. Check that every party signed the same plan; steps may start."""
        row = self._runs.mine(str(body["run"]), peer, (PREPARING, OPEN))
        if row.plan is None:
            raise StateError("the run plan was not accepted", where=f"run {row.run}")
        plan, signatures = RunPlan.model_validate(row.plan), dict(body["signatures"])
        for party in self._runs.spec(row).parties:
            self._accords.verify(party, DOMAIN + plan.digest.encode(), bytes.fromhex(str(signatures.get(party, ""))))
        self._open(row, signatures)
        return {"digest": plan.digest}

    def abandon(self, peer: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """End a run that could not be opened everywhere; the error says at whom and why."""
        with self._database.read() as session:
            known = session.get(Run, str(body["run"]))
        if known is not None:
            self._runs.mine(known.run, peer, (PREPARING, OPEN, FAILED))
            self._runs.end(known, FAILED, error=from_wire(body["error"]).to_wire(), run_key=None)
        return {}

    def _open(self, row: Run, signatures: Mapping[str, Any]) -> None:
        """Counting the quota and opening are one transaction: many runs may have been prepared before any was open."""
        accord = self._accords.get(row.accord)
        if accord.digest != row.accord_digest:
            raise ConsentError("the accord is another one than the run was prepared under", where=f"run {row.run}")
        with self._database.write() as session:
            known = session.get_one(Run, row.run)
            if known.state == PREPARING:
                self._within_quota(session, accord)
            known.signatures, known.state = dict(signatures), OPEN

    def _within_quota(self, session: Session, accord: SignedAccord) -> None:
        """Raise when the accord's runs are used up; a run that was abandoned counts when one of its steps was here."""
        begun = select(Attempt.run).where(Attempt.run == Run.run).exists()
        counts = or_(Run.state.in_((OPEN, CLOSED)), begun)
        used = session.scalar(select(func.count()).where(Run.accord_digest == accord.digest, counts))
        if (used or 0) >= accord.terms.max_runs:
            raise ConsentError(
                "the accord's number of runs is used up",
                expected=f"at most {accord.terms.max_runs}",
                found=used,
                where=f"accord {accord.terms.accord}",
                remedy="agree on a new version of the accord",
                party=self._home.party,
            )

    def _keep(
        self, run: str, pipeline: Pipeline, accord: SignedAccord, template: Template, seed: int, run_key: str | None
    ) -> None:
        """Store the run unless it is there, while the quota has room."""
        with self._database.write() as session:
            known = session.get(Run, run)
            if known is not None:
                if (known.template, known.seed, known.state) != (template.digest, seed, PREPARING):
                    raise StateError("another run has this name", where=f"run {run}", party=self._home.party)
                return
            self._within_quota(session, accord)
            session.add(
                Run(
                    run=run,
                    run_key=run_key,
                    pipeline=pipeline.spec.pipeline,
                    accord=accord.terms.accord,
                    accord_digest=accord.digest,
                    template=template.digest,
                    text=pipeline.text,
                    file=pipeline.name,
                    seed=seed,
                    initiator=pipeline.spec.initiator,
                    salt=secrets.token_hex(32),
                    state=PREPARING,
                    created=time.time(),
                )
            )
