"""Every component keeps the same contract, over memory and over mutual TLS between real servers.

Both pipelines run from the same secrets over both carriers: the same artefacts, nothing but declared messages in the
ledgers, ledgers that agree with each other, and nothing outside that only its owner may see.
"""

from __future__ import annotations

import json
import shutil

import pyarrow.flight as flight
import pytest

from base.errors import MessageRefused
from components.registry import MODULES, catalogue, component, describe
from demo.airflow import free_port
from demo.consortium import PARTIES, Consortium
from demo.data import prepare
from pipelines.accord import read_accord
from pipelines.load import loads
from pipelines.simulate import RUN, simulate
from transport.door import PlanGuard, admit_by_table
from transport.flight import FlightCarrier, FlightReceiver, shielded
from transport.memory import MemoryExchange
from transport.message import MessageKey
from transport.reconcile import reconcile
from transport.tls import Address, Identity
from transport.token import MemoryNonceCache

PIPELINES = ("horizontal_mf", "vertical_mf")
SHORTER = {
    "embedding_size: 16, rounds: 15": "embedding_size: 4, rounds: 2, key_bits: 2048",
    "params: {embedding_size: 16}": "params: {embedding_size: 4, key_bits: 2048}",
    "id_column: user_id": "id_column: user_id\n      key_bits: 2048",
    "min_count: 100}": "min_count: 100, key_bits: 2048}",
}

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


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


class Recorder:
    """Keeps what leaves a party before TLS."""

    def __init__(self, carrier, parcels):
        self.carrier, self.parcels, self.get = carrier, parcels, carrier.get

    def put(self, parcel, seconds):
        self.parcels.append(parcel)
        return self.carrier.put(parcel, seconds)


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


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    consortium = Consortium(tmp_path_factory.mktemp("contract"), ports={party: free_port() for party in PARTIES})
    consortium.lay_out()
    prepare("synthetic", consortium.root / "parties", 7)
    consortium.sign()
    return consortium


@pytest.fixture(scope="module", params=[RecordedMemory, MtlsExchange], ids=["memory", "mtls"])
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


_digests: dict[str, dict[str, object]] = {}


def test_every_component_leaves_the_same_over_both_carriers(outcome, request):
    for name, (_, done, _) in outcome.items():
        digests = {
            (step, party, output): ref.digest
            for step, parties in done.outputs.items()
            for party, refs in parties.items()
            for output, ref in refs.items()
            if output not in ("sealed", "manifest")
        }
        first = _digests.setdefault(name, {"model": done.model_digest, "outputs": digests})
        assert done.model_digest
        assert first == {"model": done.model_digest, "outputs": digests}


def test_the_shipped_pipelines_use_every_component(outcome):
    used = {step.component for spec, _, _ in outcome.values() for step in spec.steps.values()}
    assert used == set(MODULES)


def test_outputs_are_declared_and_every_role_has_run(outcome):
    for spec, done, _ in outcome.values():
        for step, parties in done.outputs.items():
            entry = catalogue()[spec.steps[step].component]
            roles = spec.step_roles(step, entry["roles"])
            assert set(parties) == {party for members in roles.values() for party in members}
            assert {output for refs in parties.values() for output in refs} <= set(entry["outputs"])


def test_ledgers_hold_nothing_but_declared_messages_and_agree(outcome):
    for spec, done, _ in outcome.values():
        parts = {step: component(entry.component) for step, entry in spec.steps.items()}
        tables = {step: (p.messages, spec.step_roles(step, sorted(p.roles))) for step, p in parts.items()}
        guard = PlanGuard(RUN, tables)
        chains = {party: list(at.ledger.store.entries(RUN)) for party, at in done.parties.items()}
        assert sum(map(len, chains.values())) > 0
        for entry in (entry for chain in chains.values() for entry in chain):
            key = entry.statement.key
            message = admit_by_table(*tables[key.step], key)
            assert (entry.statement.schema, entry.statement.protection) == (message.schema.digest, message.protection)
        for a in chains:
            for b in chains:
                if a < b:
                    assert reconcile(a, chains[a], b, chains[b], guard).clean


def test_what_is_not_declared_is_refused(outcome):
    for spec, _, _ in outcome.values():
        for step, entry in spec.steps.items():
            part = component(entry.component)
            roles = spec.step_roles(step, sorted(part.roles))
            key = MessageKey(RUN, step, 1, "ratings", "north_bank", "bureau", 0)
            with pytest.raises(MessageRefused, match="not declared"):
                admit_by_table(part.messages, roles, key)


def test_metrics_are_numbers_with_plain_names(outcome):
    for _, done, _ in outcome.values():
        for points in (points for parties in done.metrics.values() for points in parties.values()):
            for name, value, _ in points:
                assert name.replace(".", "").replace("_", "").isalnum()
                assert isinstance(value, float)


@pytest.mark.parametrize("name", MODULES)
def test_the_catalogue_says_what_the_component_declares(name):
    assert catalogue()[name] == json.loads(json.dumps(describe(component(name))))
    entry = catalogue()[name]
    assert entry["adversary"]
    assert all(message["reveals"] for message in entry["messages"])
