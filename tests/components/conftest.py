"""Steps of one party alone, and both pipelines as simulations over memory and over mutual TLS."""

import shutil
from pathlib import Path

import pyarrow.flight as flight
import pytest
from ports import free_ports
from recorder import Recorder
from short_pipelines import shorter
from step_threads import Watcher

from components.registry import component
from demo.consortium import PARTIES, Consortium
from demo.data import prepare
from features.spec import load_all
from pipelines.accord import read_accord
from pipelines.load import loads
from pipelines.simulate import simulate
from runtime.context import Services, StepContext
from runtime.execute import parse_params
from runtime.randomness import Randomness
from runtime.spill import Spill
from transport.flight import FlightCarrier, FlightReceiver, shielded
from transport.memory import MemoryExchange
from transport.tls import Address, Identity
from transport.token import MemoryNonceCache


@pytest.fixture(scope="session")
def specs():
    """The shipped feature specs by name."""
    return load_all(Path(__file__).parents[2] / "feature_specs")


@pytest.fixture
def alone(specs, request, tmp_path):
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
            observer=watcher, spills=Spill(tmp_path / "spill"),
        )  # fmt: skip
        return part.roles[role](ctx, parse_params(part, params or {}, "step")), watcher.metrics

    return run


def ranked(kind, params, shared):
    """Replacements that make the pipeline about ratings one about rankings, by another model and protection."""
    return {
        "split_ratings": "split_leave_one_out",
        ", validation: 0.1, test: 0.1": "",
        "horizontal_mf\n    inputs: {ratings: split.ratings, statistics: encode.statistics}": f"horizontal_{kind}\n"
        "    inputs: {ratings: split.ratings}",
        "embedding_size: 16, rounds: 15, protection: paillier": params,
        "evaluate_ratings": "evaluate_ranking",
        "model: train.model}\n    params: {protection: paillier": "model: train.model, alone: train.alone}\n"
        f"    params: {{kind: {kind}",
        "[Q, b_item, mu]": f"[{shared}]",
        "paillier": "secagg",
    }


IALS = "embedding_size: 4, min_raters: 16, sweeps: 2, second_moments: true"
GOES_ON = {
    "steps:\n": "steps:\n  earlier: {component: load_model}\n",
    "statistics: encode.statistics}": "statistics: encode.statistics, start: earlier.start}",
    "rounds: 15": "rounds: 15, warm_start: true",
}
# The shipped pipelines, and steps that no shipped pipeline uses: (file, replacements, last step).
RUNS = {
    "horizontal_mf": ("horizontal_mf", GOES_ON, None),
    "horizontal_ease": ("horizontal_mf", ranked("ease", "reg: 200", "sum"), None),
    "horizontal_slist": ("horizontal_slist", {}, None),
    "horizontal_ncf": ("horizontal_ncf", {"rounds: 15": "rounds: 2"}, None),
    "horizontal_ials": (
        "horizontal_mf",
        ranked("ials", IALS, "Q"),
        None,
    ),
    "vertical_mf": ("vertical_mf", {}, None),
    "align_ecdh": ("vertical_mf", {"align_rsa": "align_ecdh"}, "align"),
    "align_keyed_hash": (
        "vertical_mf",
        {"align_rsa": "align_keyed_hash", "id_column: user_id": "id_column: user_id\n      allow_low_entropy: true"},
        "align",
    ),
}


class MtlsExchange:
    """Each party's door behind a Flight server of its own."""

    def __init__(self, consortium):
        self.ports = free_ports(consortium.parties)
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
def original(tmp_path_factory, repository):
    """The organisations before their first run; their accord allows keyed hashes of customer numbers, and iALS."""
    conf = tmp_path_factory.mktemp("conf")
    shutil.copytree(repository / "conf", conf, dirs_exist_ok=True)
    terms = conf / "accords" / "demo.yaml"
    text = terms.read_text()
    for term in ("low_entropy_keyed_hash", "second_moments"):
        text = text.replace(f"{term}: false", f"{term}: true")
    terms.write_text(text)
    consortium = Consortium(tmp_path_factory.mktemp("contract"), ports=free_ports(PARTIES), conf=conf)
    consortium.lay_out()
    prepare("synthetic", consortium.root / "parties", 7)
    consortium.sign()
    return consortium


@pytest.fixture(scope="session", params=[RecordedMemory, MtlsExchange], ids=["memory", "mtls"])
def outcome(request, original, tmp_path_factory, repository, spark):
    """Every run from fresh directories with the same secrets: {run: (spec, simulation, exchange)}."""
    found = {}
    for name, (file, replacements, last) in RUNS.items():
        root = tmp_path_factory.mktemp("copy") / "demo"
        shutil.copytree(original.root, root)
        consortium = Consortium(root, ports=original._ports)
        text = (repository / "conf" / "pipelines" / f"{file}.yaml").read_text()
        for old, new in replacements.items():
            text = text.replace(old, new)
        spec = loads(shorter(text), f"{file}.yaml").spec
        exchange = request.param(consortium)
        accord = read_accord(consortium.directory("north_bank") / "accords" / "demo.json")
        try:
            done = simulate(spec, accord, consortium.homes(), root / "stores", until=last, exchange=exchange)
        finally:
            for server in exchange.servers:
                server.shutdown()
        found[name] = (spec, done, exchange)
    return found
