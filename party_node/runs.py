"""A run as one party accepts it: two-phase opening, and closing with signed ledger heads.

Opening (the initiator's node asks, every node decides for itself):
1. prepare  the node checks accord, pipeline, template, a person's approval and the quota, and commits to its snapshots;
2. accept   the node sees everybody's commitments in the run plan and signs its digest;
3. open     the node gets everybody's signatures. Without all of them no step of the run ever starts.
Closing: each party tells the head of its ledger, signs the heads of the others, and keeps their signatures under its
own.
"""

from __future__ import annotations

import re
import secrets
import shutil
import time
from collections.abc import Mapping
from typing import Any

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from base.errors import ApprovalMissing, ConsentError, SpecMismatch, StateError, from_wire
from features.spec import load_all
from party_node.accords import Accords
from party_node.database import Approval, Attempt, Database, Run
from pipelines.accord import SignedAccord, data_sets
from pipelines.load import Pipeline, loads
from pipelines.plan import RunPlan, Template, commitment, make_template, require_same_template, used_specs
from pipelines.spec import PipelineSpec
from runtime.data import snapshot_digest
from runtime.keys import run_secrets
from runtime.party import Home
from transport.chain import Head, SignedHead
from transport.ledger import Ledger

DOMAIN = b"accord/1/run\n"
PREPARING, OPEN, CLOSED, FAILED = "preparing", "open", "closed", "failed"
_FILE = re.compile(r"[A-Za-z0-9_./+-]{1,255}")
_RUN = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_-]{0,127}")


class Runs:
    """The runs of one party."""

    def __init__(self, home: Home, database: Database, accords: Accords, ledger: Ledger) -> None:
        """Keep runs in `database`, enforce `accords`."""
        self._home, self._database, self._accords, self._ledger = home, database, accords, ledger

    # --- opening

    def template(self, text: str, file: str) -> tuple[Pipeline, SignedAccord, Template]:
        """Check a pipeline against the accord and this party's own specs and components; return its template."""
        if not _FILE.fullmatch(file):
            raise ConsentError("not a plain file name", expected=_FILE.pattern, where="file of the pipeline")
        pipeline = loads(text, file)
        accord = self._accords.get(pipeline.spec.accord)
        accord.admit(pipeline.spec, pipeline.at)
        specs = {name: spec.digest for name, spec in load_all(self._home.specs_directory).items()}
        if missing := sorted(set(used_specs(pipeline.spec, accord)) - set(specs)):
            where, party = str(self._home.specs_directory), self._home.party
            raise SpecMismatch("a feature spec is missing", expected=", ".join(missing), where=where, party=party)
        return pipeline, accord, make_template(pipeline.spec, accord, specs)

    def approve(self, text: str, file: str, approver: str) -> str:
        """Keep a person's approval of a template; return the template's digest."""
        pipeline, _, template = self.template(text, file)
        with self._database.write() as session:
            if session.get(Approval, template.digest) is None:
                name = pipeline.spec.pipeline
                session.add(Approval(template=template.digest, pipeline=name, approver=approver, created=time.time()))
        return template.digest

    def prepare(self, peer: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Phase 1. Return the commitment to this party's snapshots, or raise why it takes no part."""
        pipeline, accord, template = self.template(str(body["text"]), str(body["file"]))
        spec, run = pipeline.spec, str(body["run"])
        if peer != spec.initiator or not _RUN.fullmatch(run):
            raise ConsentError("only the initiator may open a run", expected=spec.initiator, found=peer)
        require_same_template(template, Template.model_validate(body["template"]), self._home.party, peer)
        self._check_approved(template, pipeline.name)
        run_key = body.get("run_key") if peer == self._home.party else None
        self._keep(run, pipeline, accord, template, int(body["seed"]), run_key)
        row = self.get(run)
        return {"template": row.template, "commitment": self._commitment(row, spec)}

    def accept(self, peer: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Phase 2. Return this party's signature under the run plan."""
        plan = RunPlan.model_validate(body["plan"])
        row = self._mine(plan.run, peer, (PREPARING, OPEN))
        spec = self.spec(row)
        own = self._commitment(row, spec)
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
        row = self._mine(str(body["run"]), peer, (PREPARING, OPEN))
        if row.plan is None:
            raise StateError("the run plan was not accepted", where=f"run {row.run}")
        plan, signatures = RunPlan.model_validate(row.plan), dict(body["signatures"])
        for party in self.spec(row).parties:
            self._accords.verify(party, DOMAIN + plan.digest.encode(), bytes.fromhex(str(signatures.get(party, ""))))
        self._open(row, signatures)
        return {"digest": plan.digest}

    def abandon(self, peer: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """End a run that could not be opened everywhere; the error says at whom and why."""
        with self._database.read() as session:
            known = session.get(Run, str(body["run"]))
        if known is not None:
            self._mine(known.run, peer, (PREPARING, OPEN, FAILED))
            self._database.update(Run, known.run, state=FAILED, error=from_wire(body["error"]).to_wire(), run_key=None)
            self._forget_checkpoints(known)
        return {}

    # --- closing

    def head(self, peer: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the head of this party's ledger of the run, signed."""
        row = self._mine(str(body["run"]), peer, (OPEN, CLOSED))
        own = self._ledger.own_head(row.run)
        return {"head": vars(own.head), "signature": own.signature}

    def countersign(self, peer: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Sign the heads of all other parties, each signed by its owner: the initiator only passes them on."""
        row = self._mine(str(body["run"]), peer, (OPEN, CLOSED))
        heads = [(Head.from_dict(told["head"]), str(told["signature"])) for told in body["heads"]]
        own = [SignedHead(head, head.party, signature) for head, signature in heads if head.run == row.run]
        others = [signed for signed in own if signed.signer != self._home.party]
        return {"signatures": {signed.signer: self._ledger.countersign(signed).signature for signed in others}}

    def close(self, peer: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Keep the others' signatures under this party's head; the run is closed and needs its checkpoints no more."""
        row = self._mine(str(body["run"]), peer, (OPEN, CLOSED))
        head = self._ledger.head(row.run)
        for signer, signature in body["signatures"].items():
            self._ledger.keep_head(SignedHead(head, str(signer), str(signature)))
        self._database.update(Run, row.run, state=CLOSED)
        self._forget_checkpoints(row)
        return {}

    # --- reading

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

    def require_open(self, run: str, peer: str) -> Run:
        """Return a run whose steps the initiator `peer` may start."""
        row = self._mine(run, peer, (OPEN, CLOSED))
        self._accords.get(row.accord)  # an accord that has ended stops a run at its next step
        return row

    def require_unchanged(self, run: str, step: str) -> None:
        """Raise unless what a person approved and what this party committed to is still what the step would use.

        Accord, feature specs and components are files that may change while a run is open, and so may the data.
        """
        row = self.get(run)
        pipeline, _, template = self.template(row.text, row.file)
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
        if loads_data and RunPlan.model_validate(row.plan).commitments[self._home.party] != self._commitment(
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

    # --- parts

    def _forget_checkpoints(self, row: Run) -> None:
        """They, spilled files and the run's secrets hold what no artefact holds: factors, ids, a scalar."""
        ended = [self._home.path("store", kind, row.run) for kind in ("checkpoints", "spill")]
        for folder in (*ended, run_secrets(self._home.path("secrets", row.accord), row.run)):
            shutil.rmtree(folder, ignore_errors=True)

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

    def _mine(self, run: str, peer: str, states: tuple[str, ...]) -> Run:
        row = self.get(run)
        if peer != row.initiator:
            raise ConsentError("only the initiator may do this", expected=row.initiator, found=peer, where=f"run {run}")
        if row.state not in states:
            raise StateError(
                "the run is in another state", expected=" or ".join(states), found=row.state, where=f"run {run}"
            )
        return row

    def _check_approved(self, template: Template, file: str) -> None:
        with self._database.read() as session:
            if session.get(Approval, template.digest) is None:
                raise ApprovalMissing(
                    "nobody at this party has approved this pipeline as it stands",
                    expected="an approval of its template by a person",
                    found=f"template {template.digest[:16]}, not approved",
                    where=file,
                    remedy=f"accord approve {file} --party {self._home.party}",
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

    def _commitment(self, row: Run, spec: PipelineSpec) -> str:
        own = sorted({name for _, party, name in data_sets(spec) if party == self._home.party})
        return commitment(bytes.fromhex(row.salt), {name: snapshot_digest(self._home, name) for name in own})
