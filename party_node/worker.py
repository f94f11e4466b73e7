"""The worker process of a node: runs one step at a time, with one Spark session that stays warm.

Commands come as lines of JSON on standard input, events go as lines of JSON to the pipe whose number is the second
argument (supervisor.py). The end of the input means that the node is gone: the process exits at once, so nothing of it
can write into a later attempt.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from base.errors import AccordError, from_wire
from base.files import refusal
from components.registry import component
from features import spark
from party_node.accords import Accords
from party_node.budgets import SqlBudgets
from party_node.database import Database, Run
from party_node.ledger_store import SqlLedgerStore
from party_node.logs import configure
from party_node.peers import addresses, identity
from party_node.tracking import StepRecord, finish, track, track_failed
from pipelines.accord import SignedAccord
from runtime.artifacts import Ref, Store
from runtime.execute import StepTask, execute
from runtime.party import Home
from runtime.services import party_keys, services
from runtime.spending import Spending
from transport.channel import Channel
from transport.flight import FlightCarrier
from transport.inbox import DirectoryInbox
from transport.ledger import Ledger

PROGRESS_SECONDS = 0.2
log = structlog.get_logger()


class Events:
    """The pipe to the node."""

    def __init__(self, number: int) -> None:
        """Write to the file descriptor `number`."""
        self._file = os.fdopen(number, "wb")
        self._lock = threading.Lock()

    def tell(self, event: str, job: str, **values: Any) -> None:
        """Write one event."""
        with self._lock:
            self._file.write(json.dumps({"event": event, "job": job, **values}).encode() + b"\n")
            self._file.flush()


@dataclass
class Watcher:
    """Implements `runtime.context.Observer`: metrics are kept for MLflow, progress goes to the node."""

    job: str
    events: Events
    points: list[tuple[str, float, int | None]] = field(default_factory=list)
    _last: float = 0.0

    def metric(self, name: str, value: float, round_number: int | None) -> None:
        """Keep a number about the step."""
        self.points.append((name, value, round_number))

    def progress(self, done: int, total: int, unit: str) -> None:
        """Tell the node, at most five times a second, and always the end."""
        now = time.monotonic()
        if done == total or now - self._last >= PROGRESS_SECONDS:
            self._last = now
            self.events.tell("progress", self.job, done=done, total=total, unit=unit)


class Worker:
    """Runs what the node asks for."""

    def __init__(self, home: Home, events: Events) -> None:
        """Open the node's database and connect to nothing yet."""
        self._home, self._events = home, events
        self._database = Database(home.url(home.conf.database))
        self._accords = Accords(home)
        self._store = Store(home.path("store"))
        self._ledger = Ledger(self._accords, SqlLedgerStore(self._database))
        inbox = DirectoryInbox(home.path("inbox"))
        self._carrier = FlightCarrier(self._accords, identity(home), addresses(home), inbox)
        self._commands: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._cancelled: dict[str, AccordError] = {}

    def serve(self) -> None:
        """Run steps until the node is gone."""
        threading.Thread(target=self._read, name="commands", daemon=True).start()
        while True:
            command = self._commands.get()
            if command["do"] == "run":
                self._run(command["job"], command["task"])
            else:
                self._close(command)

    def _read(self) -> None:
        for line in sys.stdin.buffer:
            command = json.loads(line)
            if command["do"] == "cancel":
                self._cancelled[command["job"]] = from_wire(command["error"])
            else:
                self._commands.put(command)
        os._exit(0)

    def _close(self, command: dict[str, Any]) -> None:
        """End the MLflow run of a closed run; the run itself is closed whether or not MLflow answers."""
        try:
            finish(self._home, command["pipeline"], command["run"], command["documents"])
        except Exception as error:
            log.error("MLflow could not be told that a run is closed", run=command["run"], error=type(error).__name__)

    def _run(self, job: str, document: dict[str, Any]) -> None:
        task, watcher, began = _task(document), Watcher(job, self._events), time.time()
        try:
            found = self._execute(task, watcher)
        except AccordError as error:
            self._failed(task, watcher, began, error)
        except Exception as error:
            wrapped, at = unexpected(error, self._home)
            log.error("step failed unexpectedly", job=job, error=type(error).__name__, at=at)
            self._failed(task, watcher, began, wrapped)
        else:
            self._events.tell("done", job, **found)
        finally:
            self._cancelled.pop(job, None)

    def _failed(self, task: StepTask, watcher: Watcher, began: float, error: AccordError) -> None:
        """Tell the node, which no MLflow may delay; then keep what the step has counted, if anything."""
        self._events.tell("failed", watcher.job, error=error.to_wire(), metrics=_last_values(watcher.points))
        if not watcher.points:
            return
        try:
            accord = self._run_row(task.run).accord_digest
            track_failed(self._home, StepRecord(task, accord, watcher.points, {}, time.time() - began), error)
        except Exception as lost:
            log.error("MLflow could not be told that a step has failed", job=watcher.job, error=type(lost).__name__)

    def _execute(self, task: StepTask, watcher: Watcher) -> dict[str, Any]:
        accord = self._accords.get(self._run_row(task.run).accord)
        part = component(task.component)
        channel = Channel(
            task.party,
            task.role,
            task.roles,
            task.run,
            task.step,
            task.attempt,
            part.table(task.params),
            self._carrier,
            self._ledger,
            deadline_seconds=self._home.conf.message_deadline_seconds,
            cancelled=lambda: self._cancelled.get(watcher.job),
        )
        began = time.time()
        outputs = execute(task, self._store, self._services(accord), channel, watcher)
        record = StepRecord(task, accord.digest, watcher.points, outputs, time.time() - began)
        return {
            "outputs": {name: ref.digest for name, ref in outputs.items()},
            "metrics": _last_values(watcher.points),
            "rows": sum(self._rows(ref) for ref in outputs.values()),
            "tracking": track(self._home, self._store, part, record),
        }

    def _services(self, accord: SignedAccord) -> Any:
        terms, conf = accord.terms, self._home.conf.spark
        keys = party_keys(self._home, {name: party.keys for name, party in terms.parties.items()}, terms.accord)
        entries = {k: v.model_dump(mode="json") for k, v in terms.parties[self._home.party].data_sets.items()}
        limits = terms.model_dump(mode="json")["privacy"]
        spending = Spending(terms.accord, limits, SqlBudgets(self._database))
        return services(self._home, keys, entries, lambda: spark.session(conf.master, conf.options), spending.charge)

    def _run_row(self, run: str) -> Run:
        with self._database.read() as session:
            return session.get_one(Run, run)

    def _rows(self, ref: Ref) -> int:
        if ref.kind not in ("table", "bundle"):
            return 0
        found = self._store.load(ref)
        return found.num_rows if ref.kind == "table" else sum(table.num_rows for table in found.values())


def unexpected(error: Exception, home: Home) -> tuple[AccordError, str]:
    """Return what leaves this process of a foreign exception, and its place in the code.

    Its text may hold values, so it stays here: class and place leave, and what the machine said when it refused a file.
    """
    place = traceback.extract_tb(error.__traceback__)[-1]
    at = f"{Path(place.filename).name}:{place.lineno}"
    file, root = str(getattr(error, "filename", None) or ""), home.path()
    where = Path(file).relative_to(root).as_posix() if file and Path(file).is_relative_to(root) else at
    wrapped = refusal(error, where) or AccordError(
        "a step failed unexpectedly", found=f"{type(error).__name__} at {at}"
    )
    wrapped.party = home.party
    return wrapped, at


def _task(document: dict[str, Any]) -> StepTask:
    roles = {role: tuple(parties) for role, parties in document.pop("roles").items()}
    return StepTask(**document, roles=roles)


def _last_values(points: list[tuple[str, float, int | None]]) -> dict[str, float]:
    return {name: value for name, value, _ in points}


def main() -> None:
    """Start the worker of the node whose home directory and event pipe the command line names."""
    home = Home(sys.argv[1])
    configure(home.path("logs", "worker.jsonl"), home.party)
    Worker(home, Events(int(sys.argv[2]))).serve()
