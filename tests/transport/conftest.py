"""Parties with real Ed25519 and X25519 keys, a message table, and doors, for the tests of transport."""

import hashlib
from dataclasses import dataclass, field
from types import SimpleNamespace

import pyarrow as pa
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from base.errors import PeerForeign
from transport.channel import Channel
from transport.door import Door, PlanGuard
from transport.ledger import Ledger, MemoryLedgerStore
from transport.memory import MemoryExchange, MemoryInbox
from transport.message import Message, Protection, WireSchema

NUMBERS = WireSchema("numbers", {"x": pa.int64()})
BLOCKS = WireSchema("blocks", {"c": "fixed_size_binary"}, metadata=("key",))
MESSAGES = (
    Message("part", "data_holder", "aggregator", BLOCKS, Protection.PAILLIER, "nothing", max_bytes=10 * 2**20),
    Message("total", "aggregator", "data_holder", NUMBERS, Protection.PUBLIC, "the sum", max_bytes=9 * 2**20),
    Message("consent", "data_holder", "data_holder", NUMBERS, Protection.PUBLIC, "a signature"),
)
ROLES = {"data_holder": ("north", "south"), "aggregator": ("bureau",)}
RUN, STEP = "run-1", "train"


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
    store: MemoryLedgerStore = field(default_factory=MemoryLedgerStore)

    @property
    def ledger(self):
        return self.door.ledger


def key_rings(*parties):
    rings = {party: KeyRing(party) for party in parties}
    for ring in rings.values():
        ring.others = rings
    return rings


def guard():
    return PlanGuard(RUN, {STEP: (MESSAGES, ROLES)})


def make_node(ring, inbox=None):
    store = MemoryLedgerStore()
    return Node(ring, Door(guard(), Ledger(ring, store), inbox or MemoryInbox()), store)


def make_channel(node, carrier, role, **more):
    return Channel(
        node.signer.party, role, ROLES, RUN, STEP, 1, MESSAGES, carrier, node.ledger, **{"deadline_seconds": 5, **more}
    )


@pytest.fixture
def nodes():
    return {party: make_node(ring) for party, ring in key_rings("north", "south", "bureau").items()}


@pytest.fixture
def channels(nodes):
    """Channels of the three parties over memory."""
    exchange = MemoryExchange()
    carriers = {party: exchange.join(node.door) for party, node in nodes.items()}
    role = {"north": "data_holder", "south": "data_holder", "bureau": "aggregator"}
    return {party: make_channel(node, carriers[party], role[party]) for party, node in nodes.items()}


def numbers(*values):
    return pa.table({"x": pa.array(values, pa.int64())})


def blocks(*values, key="k"):
    width = len(values[0])
    return pa.table({"c": pa.array(values, pa.binary(width))}).replace_schema_metadata({"key": key})


@pytest.fixture
def kit():
    """The makers of this file."""
    return SimpleNamespace(**globals())
