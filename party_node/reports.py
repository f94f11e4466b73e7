"""What a node tells its own clients about a run, and how it proves its ledger against the other parties'."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from sqlalchemy import select

from base.errors import AccordError, ConsentError
from party_node.attempt_rows import SUCCEEDED
from party_node.database import Attempt, Database, Run
from party_node.ledger_store import SqlLedgerStore
from party_node.runs import Runs
from pipelines.plan import plan_guard
from runtime.artifacts import Ref, Store
from runtime.party import Home
from transport.chain import Entry, Head, SignedHead
from transport.door import PlanGuard
from transport.ledger import Ledger
from transport.reconcile import reconcile

Ask = Callable[[str, str, Mapping[str, Any]], dict[str, Any]]


class Reports:
    """Answers from the database, the store and the ledger of one party."""

    def __init__(self, home: Home, database: Database, runs: Runs, ledger: Ledger, store: SqlLedgerStore) -> None:
        """Read what the node wrote."""
        self._home, self._database, self._runs, self._ledger, self._entries = home, database, runs, ledger, store
        self._store = Store(home.path("store"))

    def report(self, run: str) -> dict[str, Any]:
        """Return everything that this party knows about a run: steps, messages, digests, metrics, MLflow, ledger."""
        row = self._runs.get(run)
        steps = self._steps(row)
        heads = self._entries.heads(run)
        return {
            "run": run,
            "party": self._home.party,
            "pipeline": row.pipeline,
            "state": row.state,
            "seed": row.seed,
            "template": row.template,
            "accord": row.accord_digest,
            "error": row.error,
            "steps": steps,
            "metrics": {n: v for step in steps.values() for n, v in self._document(step["outputs"], "metrics").items()},
            "model": next(
                (m for s in steps.values() if (m := self._document(s["outputs"], "manifest").get("model"))), None
            ),
            "alignments": self._alignments(row, steps),
            "messages": self._entries.summary(run),
            "ledger": {
                "head": vars(self._ledger.head(run)),
                "signed_by": sorted(s.signer for s in heads if s.head.party == self._home.party),
            },
            "mlflow": {
                "uri": self._home.url(self._home.conf.tracking_uri),
                "runs": {name: step["mlflow_run"] for name, step in steps.items() if step["mlflow_run"]},
            },
        }

    def ledger(self, run: str) -> dict[str, Any]:
        """Return this party's chain of a run and the signed heads that it keeps."""
        self._runs.get(run)
        entries = [entry.to_document() for entry in self._ledger.store.entries(run)]
        return {"party": self._home.party, "entries": entries, "heads": [asdict(h) for h in self._entries.heads(run)]}

    def ledger_for(self, peer: str, run: str) -> dict[str, Any]:
        """Return the same to a party of the run, for its audit; any other is refused."""
        if peer not in self._runs.spec(self._runs.get(run)).parties:
            raise ConsentError("only a party of the run may see its ledger", found=peer, party=self._home.party)
        return self.ledger(run)

    def audit(self, run: str, ask: Ask) -> dict[str, Any]:
        """Verify this party's chain and every other party's, and reconcile each pair with the plan."""
        row = self._runs.get(run)
        spec = self._runs.spec(row)
        guard = plan_guard(run, spec)
        own = list(self._ledger.store.entries(run))
        self._ledger.verify(run, self._home.party, own, self._entries.heads(run))
        found = {}
        for peer in spec.parties:
            if peer != self._home.party:
                found[peer] = self._compare(run, peer, own, ask(peer, "peer.ledger", {"run": run}), guard)
        return {"run": run, "party": self._home.party, "entries": len(own), "peers": found}

    def _compare(
        self, run: str, peer: str, own: list[Entry], answer: Mapping[str, Any], guard: PlanGuard
    ) -> dict[str, Any]:
        try:
            theirs = [Entry.from_document(entry) for entry in answer["entries"]]
            heads = [SignedHead(Head(**h["head"]), h["signer"], h["signature"]) for h in answer["heads"]]
            self._ledger.verify(run, peer, theirs, [*heads, *self._entries.heads(run)])
        except AccordError as error:
            return {"clean": False, "matched": 0, "error": error.to_wire(), "findings": []}
        result = reconcile(self._home.party, own, peer, theirs, guard)
        findings = [{"kind": str(f.kind), "message": str(f.key), "party": f.party} for f in result.findings]
        return {"clean": result.clean, "matched": result.matched, "error": None, "findings": findings}

    def _steps(self, row: Run) -> dict[str, dict[str, Any]]:
        """Return the last attempt of every step in the order of the pipeline."""
        with self._database.read() as session:
            rows = list(session.scalars(select(Attempt).where(Attempt.run == row.run).order_by(Attempt.attempt)))
        found = {attempt.step: attempt for attempt in rows}
        order = [step for step in self._runs.spec(row).steps if step in found]
        return {step: self._step(found[step]) for step in order}

    def _alignments(self, row: Run, steps: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        """Return the join report of every alignment that has succeeded: counts of this party's own ids."""
        aligning = (name for name, step in self._runs.spec(row).steps.items() if step.component.startswith("align_"))
        found = {name: self._document(steps[name]["outputs"], "report") for name in aligning if name in steps}
        return {name: report for name, report in found.items() if report}

    def _step(self, row: Attempt) -> dict[str, Any]:
        traffic = self._entries.traffic(row.run, row.step, row.attempt)
        return {
            "attempt": row.attempt,
            "state": row.state,
            "seconds": round(row.ended - row.started, 3) if row.started and row.ended else None,
            "rows": row.rows,
            "bytes_out": traffic["out"],
            "bytes_in": traffic["in"],
            "outputs": (row.outputs if row.state == SUCCEEDED else None) or {},
            "metrics": row.metrics or {},
            "mlflow_run": row.tracking,
            "error": row.error,
        }

    def _document(self, outputs: Mapping[str, str], name: str) -> dict[str, Any]:
        return dict(self._store.load(Ref("document", outputs[name]))) if name in outputs else {}
