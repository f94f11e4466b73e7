"""One party of a benchmark, in a process of its own: Flight server, door, inbox on disk, keys, and the step.

Standard input and output are JSON lines: the task comes first, the port goes out, the peers' ports come in, then the
step runs, and the answer goes out (`bench.processes` is the other end). How far a step is stands on standard error,
with the time that remains. What the parties of one benchmark do is its `Work`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight

from bench.crypto_meter import cpu
from bench.parties import NO_SERVICES
from components.contract import Component
from crypto import parallel
from crypto.node_keys import NodeKeys, NodePublicKeys
from features.spec import FeatureSpec
from runtime.checkpoint import FileCheckpoint
from runtime.context import Services, StepContext
from runtime.execute import parse_params
from runtime.keys import PartyKeys, party_secret
from runtime.randomness import Randomness
from runtime.spill import Spill
from transport.chain import OUT
from transport.channel import Channel
from transport.door import Door, PlanGuard
from transport.flight import FlightCarrier, FlightReceiver, shielded
from transport.inbox import DirectoryInbox
from transport.ledger import Ledger
from transport.ledger_store import MemoryLedgerStore
from transport.tls import Address, Identity
from transport.token import MemoryNonceCache
from transport.wire import Claim, Parcel

STEP = "step"
EVERY = 10.0  # seconds between two lines of progress
Task = Mapping[str, Any]  # as `bench.processes.Nodes.run` writes it, and what the benchmark adds


@dataclass(frozen=True)
class Work:
    """What the parties of a benchmark do; inputs are there before the clock starts."""

    components: Mapping[str, Component]
    inputs: Callable[[Task], Mapping[str, Any]]
    answer: Callable[[Mapping[str, Any], Mapping[str, Any]], dict[str, Any]]  # inputs, outputs -> what goes out
    spec: Callable[[str], FeatureSpec] = NO_SERVICES[1]


class _Server(flight.FlightServerBase):  # type: ignore[misc]
    def __init__(self, door: Door, identity: Identity) -> None:
        self.party, self._receiver = door.party, FlightReceiver(door, MemoryNonceCache())
        super().__init__(
            "grpc+tls://127.0.0.1:0", tls_certificates=[(identity.certificate, identity.key)], verify_client=True,
            root_certificates=identity.ca, middleware=self._receiver.middleware(),
        )  # fmt: skip

    @shielded
    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        self._receiver.do_put(context, descriptor, reader, writer)


class _Counting(FlightCarrier):
    """Counts the documents around the bodies: header, end marker, receipt."""

    around, _lock = 0, Lock()

    def put(self, parcel: Parcel, seconds: float) -> Claim:
        claim = super().put(parcel, seconds)
        with self._lock:  # messages to several parties leave at once
            self.around += sum(len(each.to_bytes()) for each in (parcel.header, parcel.marker, claim))
        return claim


@dataclass
class _Watch:
    """Says how far the step is, when there is something to call it, and keeps the last value of each metric."""

    label: str
    metrics: dict[str, float] = field(default_factory=dict)
    memory: list[int] = field(default_factory=list)  # largest resident size so far, in bytes, at each progress
    _start: float = field(default_factory=time.monotonic)
    _told: float = field(default_factory=time.monotonic)

    def metric(self, name: str, value: float, round_number: int | None) -> None:
        self.metrics[name] = float(value)

    def progress(self, done: int, total: int, unit: str) -> None:
        self.memory.append(_resident())
        now = time.monotonic()
        if self.label and now >= self._told + EVERY:
            self._told, left = now, (now - self._start) / done * (total - done)
            sys.stderr.write(f"{self.label}: {done}/{total} {unit}, about {left:.0f} s to go\n")


def serve(work: Work) -> None:
    """Answer one task, and end the process."""
    task, answers = json.loads(sys.stdin.readline()), sys.stdout
    home, run = Path(task["home"]), task["run"]
    roles = {role: tuple(members) for role, members in task["roles"].items()}
    table = work.components[task["component"]].table(task["params"])
    publics = {name: NodePublicKeys.from_document(document) for name, document in task["publics"].items()}
    keys = PartyKeys(task["party"], NodeKeys.load(home / "keys"), publics, home / "secrets")
    identity = Identity(*((home / "keys" / name).read_bytes() for name in ("ca.crt", "tls.crt", "tls.key")))
    store, inbox = MemoryLedgerStore(), DirectoryInbox(home / "inbox")
    ledger = Ledger(keys, store)
    server = _Server(Door(PlanGuard(run, {STEP: (table, roles)}), ledger, inbox), identity)
    inputs = work.inputs(task)
    pa.array([0])  # pyarrow imports pandas at its first array; a node's worker has imported it long before
    _tell(answers, {"port": server.port})

    ports: Mapping[str, int] = json.loads(sys.stdin.readline())
    peers = {name: Address("127.0.0.1", port, name) for name, port in ports.items()}
    carrier = _Counting(keys, identity, peers, inbox)
    (role,) = (role for role, members in roles.items() if task["party"] in members)
    channel = Channel(task["party"], role, roles, run, STEP, 1, table, carrier, ledger)
    with Spill(home / "spill") as spills:
        found = _timed(work, task, inputs, channel, keys, spills)
    inbox.forget(run, STEP, 1)
    sent = sum(e.statement.size for e in store.entries(run) if e.direction == OUT)
    _tell(answers, found | {"bytes": sent, "around": carrier.around})
    sys.stdin.readline()  # when all have answered: a peer may still wait for the receipt of its last message
    os._exit(0)  # a Flight server waits seconds for its connections to end


def _timed(
    work: Work, task: Task, inputs: Mapping[str, Any], channel: Channel, keys: PartyKeys, spills: Spill
) -> dict[str, Any]:
    """Run the step; return seconds on the clock and of CPU, metrics, and what the benchmark says of the outputs."""
    home, part, watch = Path(task["home"]), work.components[task["component"]], _Watch(task["label"])
    secret = party_secret(home / "keys")
    ctx = StepContext(
        run=channel.run, step=STEP, attempt=1, party=channel.party, role=channel.role, roles=channel.roles,
        inputs=inputs, services=Services(keys, secret, NO_SERVICES[0], work.spec, *NO_SERVICES[2:]),
        randomness=Randomness(task["seed"], f"bench/{STEP}", secret), channel=channel,
        checkpoint=FileCheckpoint(home / "checkpoints" / channel.run), observer=watch, spills=spills,
    )  # fmt: skip
    params = parse_params(part, task["params"], STEP)
    start, before = time.perf_counter(), cpu()
    outputs = part.roles[channel.role](ctx, params)
    wall = time.perf_counter() - start
    parallel.release()  # the CPU time of a child counts once it has ended
    return {
        "wall": wall,
        "cpu": cpu() - before,
        "metrics": watch.metrics,
        "memory": watch.memory,
        **work.answer(inputs, outputs),
    }


def _tell(answers: Any, answer: Mapping[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def _resident() -> int:
    """Return the largest resident size of this process so far, in bytes; what `getrusage` says counts its parent's."""
    lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
