"""One party node: everything wired together, started and stopped.

`python -m party_node.node HOME` runs a node in the foreground; `accord node start` starts that in the background.
SIGTERM and SIGINT stop it gracefully: running steps end with an error that every party sees, then the worker, then the
port. kill -9 at any moment is safe too: the database and the store are whole, and the next start marks what was going
on as failed.
"""

from __future__ import annotations

import importlib.metadata
import os
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import structlog

from base.errors import AccordError, EnvironmentMissing, PeerError
from base.files import write_whole
from party_node import policy
from party_node.accords import Accords
from party_node.approvals import Approvals
from party_node.attempt_rows import AttemptRows
from party_node.attempts import Attempts
from party_node.closing import Closing
from party_node.coordinator import Coordinator
from party_node.database import Database
from party_node.erasure import Erasure
from party_node.identity import self_test
from party_node.jobs import Jobs
from party_node.launch import PID_FILE
from party_node.ledger_store import SqlLedgerStore
from party_node.live_attempts import LiveAttempts
from party_node.logs import configure
from party_node.nonces import SqlNonceCache
from party_node.opening import Opening
from party_node.peers import Peers, identity
from party_node.reports import Reports
from party_node.runs import Runs
from party_node.service import Handler, NodeService
from party_node.supervisor import Supervisor
from runtime.party import Home
from transport import message
from transport.door import Door
from transport.flight import FlightReceiver
from transport.inbox import DirectoryInbox
from transport.ledger import Ledger

SWEEP_SECONDS = 1.0
log = structlog.get_logger()


class Node:
    """Holds the parts of a running node."""

    def __init__(self, home: Home) -> None:
        """Open the database, check the certificate, listen. Raises `EnvironmentMissing` when the port is taken."""
        self_test(home.root, home.party)
        self.home = home
        self._stop = threading.Event()
        self._database = Database(home.url(home.conf.database))
        accords, entries = Accords(home), SqlLedgerStore(self._database)
        ledger, inbox = Ledger(accords, entries), DirectoryInbox(home.path("inbox"))
        inbox.sweep()
        self._worker = Supervisor(home.root, home.party)
        self._approvals = Approvals(home, self._database, accords)
        self._runs = Runs(home, self._database, accords, self._approvals)
        self._opening = Opening(home, self._database, accords, self._approvals, self._runs)
        self._closing = Closing(home.party, self._runs, ledger)
        rows = AttemptRows(self._database, home.party)
        self._live = LiveAttempts(home.party, rows, inbox, self._worker)
        self._attempts = Attempts(home, self._runs, entries, rows, self._live)
        self._peers = Peers(home, accords, self._local)
        self._erasure = Erasure(home, accords, self._attempts)
        self._reports = Reports(home, self._database, self._runs, ledger, entries)
        coordinator = Coordinator(home.party, self._database, self._approvals, self._runs, self._peers)
        self._jobs = Jobs(home, self._database, self._runs, rows, coordinator)
        self._handlers = self._methods()
        door = Door(policy.MessageGuard(home.party, self._live.task), ledger, inbox)
        receiver = FlightReceiver(door, SqlNonceCache(self._database))
        self._service = _listen(home, receiver, self._handlers)

    def serve(self) -> None:
        """Serve until `stop` is called."""
        self._worker.warm_up()
        log.info("node listens", address=self.home.conf.listen, wire=message.WIRE_VERSION)
        while not self._stop.wait(SWEEP_SECONDS):
            self._live.sweep()
        self._live.stop_all(PeerError("the node is being stopped", party=self.home.party))
        self._worker.stop()
        self._service.shutdown()
        self._peers.close()
        self._database.close()
        log.info("node has stopped")

    def stop(self) -> None:
        """Let `serve` end."""
        self._stop.set()

    def _local(self, method: str, body: dict[str, Any]) -> dict[str, Any]:
        caller = policy.Caller(self.home.party, None, peer=True)
        return dict(self._handlers[method](caller, body))

    def _methods(self) -> Mapping[str, Handler]:
        """Return the handler of every method of the policy."""
        opening, closing = self._opening, self._closing
        attempts, jobs, reports = self._attempts, self._jobs, self._reports
        return {
            "hello": lambda who, body: self._hello(),
            "submit": jobs.submit,
            "status": jobs.status,
            "cancel": jobs.cancel,
            "approve": lambda who, body: {
                "template": self._approvals.approve(str(body["pipeline"]), str(body["file"]), who.name),
                "approver": who.name,
            },
            "report": lambda who, body: reports.report(str(body["run"])),
            "ledger": lambda who, body: reports.ledger(str(body["run"])),
            "audit": lambda who, body: reports.audit(str(body["run"]), self._peers.ask),
            "erase": self._erasure.erase,
            "node": lambda who, body: self._status(),
            "peer.hello": lambda who, body: self._hello(),
            "peer.prepare": lambda who, body: opening.prepare(who.name, body),
            "peer.accept": lambda who, body: opening.accept(who.name, body),
            "peer.open": lambda who, body: opening.open(who.name, body),
            "peer.abandon": lambda who, body: opening.abandon(who.name, body),
            "peer.reserve": lambda who, body: attempts.reserve(who.name, body),
            "peer.start": lambda who, body: attempts.start(who.name, body),
            "peer.watch": lambda who, body: attempts.watch(who.name, body),
            "peer.stop": lambda who, body: attempts.stop(who.name, body),
            "peer.head": lambda who, body: closing.head(who.name, body),
            "peer.countersign": lambda who, body: closing.countersign(who.name, body),
            "peer.close": self._close_run,
            "peer.ledger": lambda who, body: reports.ledger_for(who.name, str(body["run"])),
        }

    def _close_run(self, who: policy.Caller, body: dict[str, Any]) -> dict[str, Any]:
        """Close the run, and let the worker finish its MLflow run."""
        answer = self._closing.close(who.name, body)
        report = self._reports.report(str(body["run"]))
        documents = {name: report[name] for name in ("messages", "ledger", "steps")}
        self._worker.post({"do": "close", "run": report["run"], "pipeline": report["pipeline"], "documents": documents})
        return answer

    def _hello(self) -> dict[str, Any]:
        version = importlib.metadata.version("accord")
        return {"party": self.home.party, "wire_version": message.WIRE_VERSION, "version": version}

    def _status(self) -> dict[str, Any]:
        """Return how the node stands with every peer, and what it refused lately."""
        return {
            **self._hello(),
            "pid": os.getpid(),
            "worker": self._worker.pid,
            "peers": {party: self._greet(party) for party in self.home.conf.peers if party != self.home.party},
            "going_on": [live.shown() for live in self._live.going_on()],
            "refused": list(self._service.refusals),
        }

    def _greet(self, party: str) -> dict[str, Any]:
        try:
            answer = self._peers.ask(party, "peer.hello", {}, seconds=5.0)
        except AccordError as error:
            return {"ok": False, "error": error.to_wire()}
        return {"ok": True, "version": answer["version"]}


def _listen(home: Home, receiver: FlightReceiver, handlers: Mapping[str, Handler]) -> NodeService:
    try:
        return NodeService(home, identity(home), receiver, handlers)
    except OSError as error:
        raise EnvironmentMissing(
            "the node cannot listen at its address",
            found=type(error).__name__,
            where=f"listen: {home.conf.listen} in {home.path('party.yaml')}",
            remedy="another program uses the port, or the address is not of this machine; see `accord doctor`",
            party=home.party,
        ) from None


def main() -> None:
    """Run the node of the home directory that the command line names until a signal stops it."""
    home = Home(Path(sys.argv[1]))
    configure(home.path("logs", "node.jsonl"), home.party)
    node = Node(home)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: node.stop())
    pid_file = home.path(PID_FILE)
    write_whole(pid_file, str(os.getpid()).encode())
    try:
        node.serve()
    finally:
        pid_file.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
