"""The initiator's side: open a run at all parties, drive one attempt at a step to its end, close the run.

An attempt is one unit. As soon as one party fails, all others are stopped with that party's error, so the same error
stands on every party's screen; when a party cannot be reached, that is the error.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import structlog
from sqlalchemy import select

from base.errors import AccordError, DeadlinePassed, PeerError, SpecError, from_wire
from party_node.approvals import Approvals
from party_node.attempt_rows import ENDED, FAILED, RUNNING, SUCCEEDED
from party_node.database import Database, Job, Run
from party_node.peers import Peers
from party_node.runs import Runs
from pipelines.plan import RunPlan

POLL_SECONDS = 0.2
STOPPING_SECONDS = 3.0  # how long a failed attempt waits for the other parties to stop, to show it
UNREACHABLE_SECONDS = 10.0  # how long a peer may be away while a step runs
log = structlog.get_logger()


class Coordinator:
    """Asks this node and its peers alike."""

    def __init__(self, party: str, database: Database, approvals: Approvals, runs: Runs, peers: Peers) -> None:
        """Ask through `peers`, which also reaches this node itself."""
        self._party, self._database, self._approvals, self._runs, self._peers = party, database, approvals, runs, peers

    # --- runs

    def open_run(self, run_key: str, text: str, file: str, seed: int | None) -> Run:
        """Open a run at all parties of a pipeline, or at none; raises the first party's reason."""
        pipeline, _, template = self._approvals.template(text, file)
        spec = pipeline.spec
        if spec.initiator != self._party:
            raise SpecError(
                "the pipeline names another initiator", expected=self._party, found=spec.initiator, where=file
            )
        run = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{spec.pipeline[:80]}-{secrets.token_hex(4)}"
        chosen = spec.seed if seed is None else int(seed)
        body = {"run": run, "text": text, "file": file, "seed": chosen, "template": template.model_dump(mode="json")}
        try:
            # This party first: its own reasons need no network, and it keeps the run key.
            own = self._peers.ask(self._party, "peer.prepare", {**body, "run_key": run_key})
            others = [party for party in spec.parties if party != self._party]
            prepared = {self._party: own, **self._peers.ask_all(others, "peer.prepare", body)}
            commitments = {party: answer["commitment"] for party, answer in prepared.items()}
            plan = RunPlan(run=run, template=template.digest, seed=chosen, commitments=commitments)
            accepted = self._peers.ask_all(spec.parties, "peer.accept", {"plan": plan.model_dump(mode="json")})
            signatures = {party: answer["signature"] for party, answer in accepted.items()}
            self._peers.ask_all(spec.parties, "peer.open", {"run": run, "signatures": signatures})
        except AccordError as error:
            self._tell_all(spec.parties, "peer.abandon", {"run": run, "error": error.to_wire()})
            raise
        return self._runs.get(run)

    def close_run(self, run: Run) -> None:
        """Let every party sign the head of every other party's ledger."""
        parties = self._runs.spec(run).parties
        found = self._peers.ask_all(parties, "peer.head", {"run": run.run})
        heads = [{name: answer[name] for name in ("head", "signature")} for answer in found.values()]
        signed = self._peers.ask_all(parties, "peer.countersign", {"run": run.run, "heads": heads})
        for party in parties:
            mine = {peer: answer["signatures"][party] for peer, answer in signed.items() if peer != party}
            self._peers.ask(party, "peer.close", {"run": run.run, "signatures": mine})

    # --- one attempt

    def drive(
        self, job: Job, stopped: Callable[[], AccordError | None], tell: Callable[..., None]
    ) -> AccordError | None:
        """Bring an attempt to its end at all parties; return None or why it failed. Never raises."""
        attempt = {"run": job.run, "step": job.step, "attempt": job.attempt}
        parties: tuple[str, ...] = ()
        try:
            run = self._runs.get(job.run)
            parties = self._runs.spec(run).step_parties(job.step)
            resume = self._reserve(parties, attempt, job, stopped)
            start = {**attempt, "resume": resume, "deadline_seconds": job.deadline}
            self._peers.ask_all(parties, "peer.start", start)
            tell(state=RUNNING)
            self._watch(parties, attempt, stopped, tell)
            if self._is_last(run, job):
                self.close_run(run)
        except AccordError as error:
            return self._fail(parties, attempt, error, tell)
        except Exception as error:  # a thread of a node ends with an error that somebody sees
            log.exception("job failed unexpectedly", job=job.name)
            found = type(error).__name__
            unexpected = AccordError(
                "the node failed unexpectedly", found=found, remedy="see logs/node.log", party=self._party
            )
            return self._fail(parties, attempt, unexpected, tell)
        return None

    def _reserve(
        self, parties: Iterable[str], attempt: Mapping[str, Any], job: Job, stopped: Callable[[], AccordError | None]
    ) -> int | None:
        """Hold every party's worker, in the order of names; return the highest checkpoint that all hold."""
        end = time.monotonic() + job.deadline
        while True:
            rounds: list[set[int]] = []
            for party in parties:
                answer = self._peers.ask(party, "peer.reserve", attempt)
                if answer["busy"]:
                    break
                rounds.append(set(answer["rounds"]))
            else:
                return max(set.intersection(*rounds), default=None)
            if (error := stopped()) is not None:
                raise error
            if time.monotonic() > end:
                raise DeadlinePassed(
                    f"{party} was busy with other steps", expected=f"free within {job.deadline:g} s", party=party
                )
            time.sleep(POLL_SECONDS)

    def _watch(
        self,
        parties: Iterable[str],
        attempt: Mapping[str, Any],
        stopped: Callable[[], AccordError | None],
        tell: Callable[..., None],
    ) -> None:
        """Ask all parties until all have succeeded; raise the first failure."""
        began, seen = time.monotonic(), dict.fromkeys(parties, time.monotonic())
        while True:
            states = {party: self._state(party, attempt, seen) for party in parties}
            tell(parties=states)
            broken = [
                party for party, state in states.items() if state["state"] in ENDED and state["state"] != SUCCEEDED
            ]
            if broken:
                raise _first(states, broken)
            if all(state["state"] == SUCCEEDED for state in states.values()):
                return
            if (error := stopped()) is not None:
                raise error
            time.sleep(POLL_SECONDS if time.monotonic() - began < 10 else 3 * POLL_SECONDS)

    def _state(self, party: str, attempt: Mapping[str, Any], seen: dict[str, float]) -> dict[str, Any]:
        try:
            state = self._peers.ask(party, "peer.watch", attempt, seconds=UNREACHABLE_SECONDS)
        except PeerError as error:
            if not error.retryable or time.monotonic() - seen[party] > UNREACHABLE_SECONDS:
                raise
            return {"state": RUNNING, "progress": None, "error": None, "silent": error.what}
        seen[party] = time.monotonic()
        return state

    def _fail(
        self, parties: Iterable[str], attempt: Mapping[str, Any], error: AccordError, tell: Callable[..., None]
    ) -> AccordError:
        """Stop the attempt everywhere with this error, and show where each party stands then."""
        self._tell_all(parties, "peer.stop", {**attempt, "error": error.to_wire()})
        until = time.monotonic() + STOPPING_SECONDS
        states = {party: self._last_state(party, attempt) for party in parties}
        while time.monotonic() < until and any(state["state"] not in ENDED for state in states.values()):
            time.sleep(POLL_SECONDS)
            states = {party: self._last_state(party, attempt) for party in parties}
        tell(parties=states)
        return error

    def _last_state(self, party: str, attempt: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return self._peers.ask(party, "peer.watch", attempt, seconds=5.0)
        except AccordError as error:
            return {"state": FAILED, "progress": None, "error": error.to_wire()}

    def _tell_all(self, parties: Iterable[str], method: str, body: Mapping[str, Any]) -> None:
        """Tell every party that can be reached; the others find out by their lease."""
        for party in parties:
            try:
                self._peers.ask(party, method, body, seconds=5.0)
            except AccordError as error:
                log.warning("a party could not be told", party=party, method=method, error=error.to_wire())

    def _is_last(self, run: Run, job: Job) -> bool:
        with self._database.read() as session:
            query = select(Job.step).where(Job.run == run.run, Job.state == SUCCEEDED)
            done = set(session.scalars(query)) | {job.step}
        return done == set(self._runs.spec(run).steps)


def _first(states: Mapping[str, Mapping[str, Any]], broken: list[str]) -> AccordError:
    """Return the error that began it: a failure rather than what followed from it."""
    party = next((p for p in broken if states[p]["state"] == FAILED), broken[0])
    error = from_wire(states[party]["error"] or {"what": "the step ended without a reason"})
    error.party = error.party or party
    return error
