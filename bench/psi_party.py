"""One party of `accord bench psi`, in a process of its own: Flight server, door, inbox on disk, keys, and the step.

Standard input and output are JSON lines: the task comes first, the port goes out, the peers' ports come in, then the
step runs, and the answer goes out. How far it is stands on standard error, with the time that remains.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.flight as flight

from bench.crypto_meter import cpu
from bench.parties import NO_SERVICES
from components import align_ecdh, align_rsa
from crypto import parallel
from crypto.node_keys import NodeKeys, NodePublicKeys
from features.spec import Column, FeatureSpec, IdRule
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

STEP, TABLE, COLUMN = "align", "people", "id"
COMPONENTS = {each.COMPONENT.name: each.COMPONENT for each in (align_ecdh, align_rsa)}
SPEC = FeatureSpec(
    name="people", description="made up", key=(COLUMN,),
    columns={COLUMN: Column(type="id", owner=("data_holder",), sensitivity="internal", rule=IdRule())},
)  # fmt: skip
SLICE = 1 << 18  # ids that are made, or digested, at once
EVERY = 10.0  # seconds between two lines of progress


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


class _Watch:
    """Says how far the step is; the component's own counts are not looked at."""

    def __init__(self, what: str) -> None:
        self._what, self._start = what, time.monotonic()
        self._next = self._start + EVERY

    def metric(self, name: str, value: float, round_number: int | None) -> None:
        """Not looked at."""

    def progress(self, done: int, total: int, unit: str) -> None:
        """Write a line now and then, unless there is nothing to call it."""
        now = time.monotonic()
        if self._what and now >= self._next:
            self._next, left = now + EVERY, (now - self._start) / done * (total - done)
            sys.stderr.write(f"{self._what}: {done}/{total} {unit}, about {left:.0f} s to go\n")


def main() -> None:
    """Answer one task."""
    task, answers = json.loads(sys.stdin.readline()), sys.stdout
    home, party, roles = Path(task["home"]), task["party"], {role: tuple(p) for role, p in task["roles"].items()}
    own, part = NodeKeys.load(home / "keys"), COMPONENTS[task["component"]]
    table = part.table(task["params"])
    publics = {name: NodePublicKeys.from_document(document) for name, document in task["publics"].items()}
    keys, run = PartyKeys(party, own, publics, home / "secrets"), task["run"]
    identity = Identity(*((home / "keys" / name).read_bytes() for name in ("ca.crt", "tls.crt", "tls.key")))
    store, inbox = MemoryLedgerStore(), DirectoryInbox(home / "inbox")
    ledger = Ledger(keys, store)
    server = _Server(Door(PlanGuard(run, {STEP: (table, roles)}), ledger, inbox), identity)
    ids = people(task["first"], task["ids"], task["seed"])
    _tell(answers, {"port": server.port})

    ports: Mapping[str, int] = json.loads(sys.stdin.readline())
    peers = {name: Address("127.0.0.1", port, name) for name, port in ports.items()}
    (role,) = (role for role, members in roles.items() if party in members)
    carrier, secret = FlightCarrier(keys, identity, peers, inbox), party_secret(home / "keys")
    channel = Channel(party, role, roles, run, STEP, 1, table, carrier, ledger)
    with Spill(home / "spill") as spills:
        ctx = StepContext(
            run=run, step=STEP, attempt=1, party=party, role=role, roles=roles, inputs={"tables": {TABLE: ids}},
            services=Services(keys, secret, NO_SERVICES[0], lambda _: SPEC, NO_SERVICES[2]),
            randomness=Randomness(task["seed"], f"bench/{STEP}", secret),
            channel=channel, checkpoint=FileCheckpoint(home / "checkpoints" / run),
            observer=_Watch(f"{part.name}, {task['ids']:,} ids a side" if role == "receiver" else ""), spills=spills,
        )  # fmt: skip
        params = parse_params(part, task["params"], STEP)
        start, before = time.perf_counter(), cpu()
        outputs = part.roles[role](ctx, params)
        parallel.release()  # the CPU time of a child counts once it has ended
        answer = {"wall": time.perf_counter() - start, "cpu": cpu() - before}
    inbox.forget(run, STEP, 1)
    sent = sum(e.statement.size for e in store.entries(run) if e.direction == OUT)
    _tell(answers, answer | {"bytes": sent, **_aligned(ids[COLUMN], outputs["alignment"]["first"])})
    os._exit(0)  # a Flight server waits seconds for its connections to end


def people(first: int, count: int, seed: int) -> pa.Table:
    """Return `count` different ids from number `first` on, in an order that `seed` gives."""
    numbers = np.random.default_rng(seed).permutation(np.arange(first, first + count, dtype=np.int32))
    slices = [numbers[start : start + SLICE] for start in range(0, count, SLICE)]
    digits = (pc.utf8_lpad(pc.cast(pa.array(part), pa.string()), 9, "0") for part in slices)
    column = pa.chunked_array([pc.binary_join_element_wise("person-", d, "") for d in digits])
    return pa.table({COLUMN: column}).replace_schema_metadata({"spec": SPEC.name})


def _aligned(ids: pa.ChunkedArray, rows: pa.ChunkedArray) -> dict[str, Any]:
    """Return how many people are aligned, and a digest of who and in which order, to compare with the peer's."""
    digest = hashlib.sha256()
    for start in range(0, len(rows), SLICE):
        digest.update("\n".join(ids.take(rows.slice(start, SLICE)).to_pylist()).encode() + b"\n")
    return {"aligned": len(rows), "digest": digest.hexdigest()}


def _tell(answers: Any, answer: Mapping[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()
