"""One step of a few parties in threads: the real context, keys, channel, door and ledger over memory."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.flight as flight
import pytest

from base.errors import AccordError, Cancelled
from components.registry import component
from crypto.node_keys import NodeKeys
from demo.airflow import free_port
from demo.consortium import PARTIES, Consortium
from demo.data import prepare
from features.spec import load_all
from pipelines.accord import read_accord
from pipelines.load import loads
from pipelines.simulate import simulate
from runtime.checkpoint import FileCheckpoint
from runtime.context import Services, StepContext
from runtime.execute import parse_params
from runtime.keys import PartyKeys
from runtime.randomness import Randomness
from transport.channel import Channel
from transport.door import Door, PlanGuard
from transport.flight import FlightCarrier, FlightReceiver, shielded
from transport.ledger import Ledger, MemoryLedgerStore
from transport.memory import MemoryExchange, MemoryInbox
from transport.tls import Address, Identity
from transport.token import MemoryNonceCache


class Recorder:
    """A carrier that keeps what leaves a party before TLS, and may change it on the way."""

    def __init__(self, carrier, parcels):
        self.carrier, self.parcels = carrier, parcels

    def put(self, parcel, seconds):
        self.parcels.append(parcel)
        return self.carrier.put(parcel, seconds)

    def get(self, key, patience):
        return self.carrier.get(key, patience)


@dataclass
class Watcher:
    metrics: dict = field(default_factory=dict)

    def metric(self, name, value, round_number):
        self.metrics[name] = value

    def progress(self, done, total, unit):
        pass


@dataclass
class Outcome:
    outputs: dict = field(default_factory=dict)  # party -> outputs
    errors: dict = field(default_factory=dict)  # party -> the error that it raised
    parcels: dict = field(default_factory=dict)  # party -> what left it
    metrics: dict = field(default_factory=dict)


class Threads:
    """Parties that keep their keys from step to step."""

    def __init__(self, folder):
        self.folder, self._nodes, self._secrets = folder, {}, {}

    def __call__(self, part, roles, inputs, params=None, *, run="run", step="step", attempt=1, seed=1, functions=None):
        """Run one step; `functions` (party -> function) puts another role function in place of the component's."""
        part = component(part) if isinstance(part, str) else part
        parties = {party: role for role, members in roles.items() for party in members}
        roles = {role: tuple(sorted(members)) for role, members in roles.items()}
        for party in parties:
            self._nodes.setdefault(party, NodeKeys.generate())
        publics = {party: self._nodes[party].public for party in parties}
        exchange, guard = MemoryExchange(), PlanGuard(run, {step: (part.messages, roles)})
        outcome, stop = Outcome(), []

        def one(party):
            keys = PartyKeys(party, self._nodes[party], publics, self.folder / party)
            watcher = Watcher(outcome.metrics.setdefault(party, {}))
            channel = Channel(
                party, parties[party], roles, run, step, attempt, part.messages, carriers[party], ledgers[party],
                deadline_seconds=60, cancelled=lambda: stop[0] if stop else None,
            )  # fmt: skip
            ctx = StepContext(
                run=run, step=step, attempt=attempt, party=party, role=parties[party], roles=roles,
                inputs=inputs.get(party, {}), services=Services(keys, party.encode() * 8, None, None, None),
                randomness=Randomness(seed, f"test/{step}", party.encode() * 8), channel=channel,
                checkpoint=FileCheckpoint(self.folder / party / "checkpoints", None), observer=watcher,
            )  # fmt: skip
            try:
                function = (functions or {}).get(party, part.roles[parties[party]])
                outcome.outputs[party] = function(ctx, parse_params(part, params or {}, step))
            except Exception as error:
                outcome.errors[party] = error
                stop.append(Cancelled(f"the step failed at {party}"))
                if not isinstance(error, AccordError):
                    raise

        ledgers, carriers = {}, {}
        for party in parties:
            (self.folder / party).mkdir(exist_ok=True)
            signer = PartyKeys(party, self._nodes[party], publics, self.folder / party)
            ledgers[party] = Ledger(signer, MemoryLedgerStore())
            parcels = outcome.parcels.setdefault(party, [])
            carriers[party] = Recorder(exchange.join(Door(guard, ledgers[party], MemoryInbox())), parcels)
        with ThreadPoolExecutor(len(parties)) as pool:
            list(pool.map(one, parties))
        return outcome


@pytest.fixture(scope="session")
def threads(tmp_path_factory):
    """A session's parties: `threads(component name, roles, inputs, params)` runs one step and returns an `Outcome`."""
    return Threads(tmp_path_factory.mktemp("parties"))


@pytest.fixture(scope="session")
def specs():
    """The shipped feature specs by name."""
    return load_all(Path(__file__).parents[2] / "feature_specs")


@pytest.fixture
def alone(specs, request):
    """A party whose step needs no peer: `alone(component, party, inputs, params, data=...)` -> (outputs, metrics)."""

    def run(name, party, inputs, params=None, *, data=None, seed=1, secret=b"s" * 32):
        part = component(name)
        (role,) = part.roles
        watcher = Watcher()
        # Spark starts for the step that asks for it.
        services = Services(None, secret, lambda: request.getfixturevalue("spark"), specs.__getitem__,
                            (data or {}).__getitem__)  # fmt: skip
        ctx = StepContext(
            run="run", step="step", attempt=1, party=party, role=role, roles={role: (party,)}, inputs=inputs,
            services=services, randomness=Randomness(seed, "test/step", secret), channel=None, checkpoint=None,
            observer=watcher,
        )  # fmt: skip
        return part.roles[role](ctx, parse_params(part, params or {}, "step")), watcher.metrics

    return run


PIPELINES = ("horizontal_mf", "vertical_mf")
SHORTER = {
    "embedding_size: 16, rounds: 15": "embedding_size: 4, rounds: 2, key_bits: 2048",
    "params: {embedding_size: 16}": "params: {embedding_size: 4, key_bits: 2048}",
    "id_column: user_id": "id_column: user_id\n      key_bits: 2048",
    "min_count: 100}": "min_count: 100, key_bits: 2048}",
}


class MtlsExchange:
    """Each party's door behind a Flight server of its own."""

    def __init__(self, consortium):
        self.ports = {party: free_port() for party in consortium.parties}
        self.consortium, self.servers, self.parcels = consortium, [], []

    def join(self, door):
        keys = self.consortium.directory(door.party) / "keys"
        pem = Identity(*((keys / name).read_bytes() for name in ("ca.crt", "tls.crt", "tls.key")))
        self.servers.append(_Server(door, pem, self.ports[door.party]))
        peers = {p: Address("127.0.0.1", port, p) for p, port in self.ports.items()}
        return Recorder(FlightCarrier(door.ledger.signer, pem, peers, door.inbox), self.parcels)


class RecordedMemory:
    def __init__(self, consortium):
        self.memory, self.servers, self.parcels = MemoryExchange(), [], []

    def join(self, door):
        return Recorder(self.memory.join(door), self.parcels)


class _Server(flight.FlightServerBase):
    def __init__(self, door, pem, port):
        self.party, self.receiver = door.party, FlightReceiver(door, MemoryNonceCache())
        super().__init__(
            f"grpc+tls://127.0.0.1:{port}", tls_certificates=[(pem.certificate, pem.key)], verify_client=True,
            root_certificates=pem.ca, middleware=self.receiver.middleware(),
        )  # fmt: skip

    @shielded
    def do_put(self, context, descriptor, reader, writer):
        self.receiver.do_put(context, descriptor, reader, writer)


@pytest.fixture(scope="session")
def original(tmp_path_factory):
    consortium = Consortium(tmp_path_factory.mktemp("contract"), ports={party: free_port() for party in PARTIES})
    consortium.lay_out()
    prepare("synthetic", consortium.root / "parties", 7)
    consortium.sign()
    return consortium


@pytest.fixture(scope="session", params=[RecordedMemory, MtlsExchange], ids=["memory", "mtls"])
def outcome(request, original, tmp_path_factory, repository, spark):
    """Both pipelines from fresh directories with the same secrets: {pipeline: (spec, simulation, exchange)}."""
    found = {}
    for name in PIPELINES:
        root = tmp_path_factory.mktemp("copy") / "demo"
        shutil.copytree(original.root, root)
        consortium = Consortium(root, ports=original._ports)
        text = (repository / "conf" / "pipelines" / f"{name}.yaml").read_text()
        for old, new in SHORTER.items():
            text = text.replace(old, new)
        spec = loads(text, f"{name}.yaml").spec
        exchange = request.param(consortium)
        accord = read_accord(consortium.directory("north_bank") / "accords" / "demo.json")
        try:
            done = simulate(spec, accord, consortium.homes(), root / "stores", exchange=exchange)
        finally:
            for server in exchange.servers:
                server.shutdown()
        found[name] = (spec, done, exchange)
    return found
