"""Parties with real keys and certificates, a message table, doors and Flight servers for the tests of transport."""

import hashlib
import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.flight as flight
import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.x509.oid import NameOID
from recorder import Recorder  # noqa: F401 (part of `kit`)

from base.errors import PeerForeign
from transport.channel import Channel
from transport.door import Door, PlanGuard
from transport.flight import FlightCarrier, FlightReceiver, shielded
from transport.inbox import DirectoryInbox
from transport.ledger import Ledger
from transport.ledger_store import MemoryLedgerStore
from transport.memory import MemoryExchange, MemoryInbox
from transport.message import Message, Protection, WireSchema
from transport.tls import Address, Identity
from transport.token import MemoryNonceCache

NUMBERS = WireSchema("numbers", {"x": pa.int64()})
BLOCKS = WireSchema("blocks", {"c": "fixed_size_binary"}, metadata=("key",))
MESSAGES = (
    Message("part", "data_holder", "aggregator", BLOCKS, Protection.PAILLIER, "nothing", max_bytes=10 * 2**20),
    Message("total", "aggregator", "data_holder", NUMBERS, Protection.PUBLIC, "the sum", max_bytes=9 * 2**20),
    Message("consent", "data_holder", "data_holder", NUMBERS, Protection.PUBLIC, "a signature"),
)
ROLES = {"data_holder": ("north", "south"), "aggregator": ("bureau",)}
ROLE = {"north": "data_holder", "south": "data_holder", "bureau": "aggregator"}
RUN, STEP = "run-1", "train"
GUARD = PlanGuard(RUN, {STEP: (MESSAGES, ROLES)})


class KeyRing:
    """A `Signer` with fresh keys; knows the public keys of the others."""

    def __init__(self, party):
        self.party = party
        self._ed, self._x = Ed25519PrivateKey.generate(), X25519PrivateKey.generate()
        self.others = {}

    def sign(self, data):
        return self._ed.sign(data)

    def verify(self, party, data, signature):
        try:
            self.others[party]._ed.public_key().verify(signature, data)
        except (InvalidSignature, KeyError):
            raise PeerForeign(f"{party} did not sign this") from None

    def pair_key(self, party, run):
        return hashlib.sha256(self._x.exchange(self.others[party]._x.public_key()) + run.encode()).digest()


@dataclass
class Node:
    signer: KeyRing
    door: Door
    store: MemoryLedgerStore

    @property
    def ledger(self):
        return self.door.ledger

    def entries(self):
        return self.store.entries(RUN)


def key_rings(*parties):
    rings = {party: KeyRing(party) for party in parties}
    for ring in rings.values():
        ring.others = rings
    return rings


def make_node(ring, inbox=None):
    store = MemoryLedgerStore()
    return Node(ring, Door(GUARD, Ledger(ring, store), inbox or MemoryInbox()), store)


def make_channel(node, carrier, **more):
    party = node.signer.party
    more = {"deadline_seconds": 5, **more}
    return Channel(party, ROLE[party], ROLES, RUN, STEP, 1, MESSAGES, carrier, node.ledger, **more)


@pytest.fixture
def nodes():
    return {party: make_node(ring) for party, ring in key_rings("north", "south", "bureau").items()}


@pytest.fixture
def channels(nodes):
    """Channels of the three parties over memory."""
    exchange = MemoryExchange()
    carriers = {party: exchange.join(node.door) for party, node in nodes.items()}
    return {party: make_channel(node, carriers[party]) for party, node in nodes.items()}


def numbers(*values):
    return pa.table({"x": pa.array(values, pa.int64())})


def blocks(*values, key="k"):
    width = len(values[0])
    return pa.table({"c": pa.array(values, pa.binary(width))}).replace_schema_metadata({"key": key})


class Authority:
    """Issues certificates whose first subject alternative name is the party."""

    def __init__(self, name="test authority"):
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self._builder(self.name, self._key, 10)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self.pem = _pem(builder.sign(self._key, hashes.SHA256()))

    def identity(self, party, days=1, ca=None):
        """Return what `party` connects or listens with; `days` below 0 makes it expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.DNSName(party), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        builder = self._builder(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, party)]), key, days)
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return Identity(ca or self.pem, _pem(builder.sign(self._key, hashes.SHA256())), private)

    def _builder(self, subject, key, days):
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder(self.name, subject, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - timedelta(days=20))
            .not_valid_after(now + timedelta(days=days))
        )


def _pem(certificate):
    return certificate.public_bytes(serialization.Encoding.PEM)


class Server(flight.FlightServerBase):
    """A node's service as party_node builds it, with nothing but messages."""

    def __init__(self, node, identity, port=0):
        self.party = node.signer.party
        self.receiver = FlightReceiver(node.door, MemoryNonceCache())
        super().__init__(
            f"grpc+tls://127.0.0.1:{port}",
            tls_certificates=[(identity.certificate, identity.key)],
            verify_client=True,
            root_certificates=identity.ca,
            middleware=self.receiver.middleware(),
        )

    @shielded  # as a node has it: two shields keep the inner one's error
    def do_put(self, context, descriptor, reader, writer):
        self.receiver.do_put(context, descriptor, reader, writer)

    @shielded
    def do_action(self, context, action):
        if action.type == "fail":
            raise ValueError("rating of customer 4711")
        token = self.receiver.caller(context)
        token.require(action.type, RUN)
        return iter([token.issuer.encode()])


@pytest.fixture(scope="session")
def authority():
    return Authority()


@dataclass
class Net:
    """Three nodes with real servers on the loopback interface."""

    nodes: dict
    servers: dict
    identities: dict
    peers: dict

    def carrier(self, party, **more):
        node = self.nodes[party]
        fields = {"identity": self.identities[party], "peers": self.peers, **more}
        return FlightCarrier(node.signer, inbox=node.door.inbox, **fields)

    def channel(self, party, carrier=None, **more):
        return make_channel(self.nodes[party], carrier or self.carrier(party), **more)


@pytest.fixture
def net(authority, tmp_path):
    rings = key_rings("north", "south", "bureau")
    nodes = {party: make_node(ring, DirectoryInbox(tmp_path / party)) for party, ring in rings.items()}
    identities = {party: authority.identity(party) for party in rings}
    servers = {party: Server(nodes[party], identities[party]) for party in rings}
    peers = {party: Address("127.0.0.1", server.port, party) for party, server in servers.items()}
    yield Net(nodes, servers, identities, peers)
    for server in servers.values():
        server.shutdown()


@pytest.fixture
def kit():
    """The makers of this file."""
    return SimpleNamespace(**globals())
