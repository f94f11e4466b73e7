from dataclasses import replace

import pytest

from base.errors import ConsentError, MessageRefused, PeerForeign, SpecMismatch
from transport.body import encode
from transport.chain import OUT
from transport.door import Door, PlanGuard, admit_by_table
from transport.memory import MemoryInbox
from transport.message import MessageKey
from transport.wire import SLICE_BYTES, Header, Marker, Statement, count_slices


def key(name="part", sender="north", receiver="bureau", step="train", run="run-1"):
    return MessageKey(run, step, 1, name, sender, receiver, 0)


@pytest.fixture
def make(nodes, kit):
    """Header and end marker of a body that north sends to bureau, as north's own ledger states it."""

    def parcel(body, rows, **more):
        message, north = kit.MESSAGES[0], nodes["north"].ledger
        header = Header(
            **vars(key()), schema=message.schema.digest, protection=str(message.protection), rows=rows, size=len(body)
        )
        digest = north.digest(key(), message.protection, body)
        statement = Statement(key(), header.schema, header.protection, rows, len(body), digest)
        claim = north.claim(north.record(OUT, statement))
        marker = Marker(count_slices(len(body)), len(body), digest, claim.index, claim.hash, claim.signature)
        return header, replace(marker, **more)

    return parcel


@pytest.fixture
def take(nodes):
    def deliver(header, body, marker, peer="north"):
        reception = nodes["bureau"].door.open(peer, header.to_bytes())
        reception.add(body)
        return reception.close(marker.to_bytes())

    return deliver


def nothing_kept(nodes):
    return not nodes["bureau"].entries() and nodes["bureau"].door.inbox.get(key(), 0) is None


def body_of(kit, table):
    return encode(table, kit.MESSAGES[0])


def test_a_good_message_is_recorded_and_readable(nodes, kit, make, take):
    body = body_of(kit, kit.blocks(b"ab"))
    header, marker = make(body, 1)
    claim = take(header, body, marker)
    (entry,) = nodes["bureau"].entries()
    assert (claim.index, claim.hash) == (entry.index, entry.hash)
    nodes["north"].ledger.check_claim("bureau", entry.statement, claim)
    assert nodes["bureau"].door.inbox.get(key(), 0) == body


@pytest.mark.parametrize("rows", [0, 2])
def test_other_rows_than_announced_are_refused(nodes, kit, make, take, rows):
    body = body_of(kit, kit.blocks(b"ab"))
    header, marker = make(body, rows)
    with pytest.raises(MessageRefused, match="other rows"):
        take(header, body, marker)
    assert nothing_kept(nodes)


def test_bytes_that_are_no_arrow_are_refused_though_sender_and_digest_agree(nodes, make, take):
    header, marker = make(b"\x80\x04pickle", 0)
    with pytest.raises(MessageRefused, match="not an Arrow stream"):
        take(header, b"\x80\x04pickle", marker)
    assert nothing_kept(nodes)


@pytest.mark.parametrize("change", [{"slices": 2}, {"size": 3}, {"digest": "0" * 64}])
def test_an_end_marker_that_counts_otherwise_is_refused(nodes, kit, make, take, change):
    body = body_of(kit, kit.blocks(b"ab"))
    header, marker = make(body, 1, **change)
    with pytest.raises(MessageRefused, match="did not arrive whole"):
        take(header, body, marker)
    assert nothing_kept(nodes)


def test_the_end_marker_must_be_one(nodes, kit, make):
    body = body_of(kit, kit.blocks(b"ab"))
    header, _ = make(body, 1)
    reception = nodes["bureau"].door.open("north", header.to_bytes())
    reception.add(body)
    with pytest.raises(MessageRefused, match="end marker"):
        reception.close(b"{}")
    assert nothing_kept(nodes)


def test_the_wrong_ends_are_refused(nodes, kit, make):
    header, _ = make(body_of(kit, kit.blocks(b"ab")), 1)
    for peer, changed in (("south", header), ("north", replace(header, sender="south")),
                          ("north", replace(header, receiver="south"))):  # fmt: skip
        with pytest.raises(PeerForeign, match="other ends"):
            nodes["bureau"].door.open(peer, changed.to_bytes())


def test_another_schema_or_protection_names_the_component_version(nodes, kit, make):
    header, _ = make(body_of(kit, kit.blocks(b"ab")), 1)
    for changed in (replace(header, schema="0" * 64), replace(header, protection="public")):
        with pytest.raises(SpecMismatch) as caught:
            nodes["bureau"].door.open("north", changed.to_bytes())
        assert "component version" in caught.value.remedy


def test_sizes_are_refused_before_anything_is_collected(nodes, kit, make):
    header, _ = make(body_of(kit, kit.blocks(b"ab")), 1)
    door = nodes["bureau"].door
    with pytest.raises(MessageRefused, match="too large"):
        door.open("north", replace(header, size=10 * 2**20 + 1).to_bytes())
    largest = door.open("north", replace(header, size=10 * 2**20).to_bytes())
    for part in (b"", b"x" * (SLICE_BYTES + 1)):
        with pytest.raises(MessageRefused, match="keep to its header"):
            largest.add(part)
    small = door.open("north", replace(header, size=3).to_bytes())
    small.add(b"abc")
    with pytest.raises(MessageRefused, match="keep to its header"):
        small.add(b"d")


def test_a_peer_may_send_a_message_only_so_often_and_is_refused_before_the_body(nodes, kit, make):
    header, _ = make(body_of(kit, kit.blocks(b"ab")), 1)
    door = nodes["bureau"].door
    door.open("north", replace(header, seq=9_999).to_bytes())
    for seq in (10_000, 2**31 - 1):
        with pytest.raises(MessageRefused, match="too often"):
            door.open("north", replace(header, seq=seq).to_bytes())
    seldom = tuple(replace(message, max_count=1) for message in kit.MESSAGES)
    strict = Door(PlanGuard("run-1", {"train": (seldom, kit.ROLES)}), nodes["bureau"].ledger, MemoryInbox())
    strict.open("north", header.to_bytes())
    with pytest.raises(MessageRefused, match="too often"):
        strict.open("north", replace(header, seq=1).to_bytes())


def test_an_attempt_has_room_for_so_many_bytes_and_a_repeat_takes_none(nodes, kit, make):
    header, _ = make(body_of(kit, kit.blocks(b"ab")), 1)
    guard = PlanGuard("run-1", {"train": (kit.MESSAGES, kit.ROLES)})
    door = Door(guard, nodes["bureau"].ledger, MemoryInbox(), attempt_bytes=1000)
    for seq in (0, 1, 1, 0):
        door.open("north", replace(header, seq=seq, size=400).to_bytes())
    with pytest.raises(MessageRefused, match="too large together"):
        door.open("north", replace(header, seq=2, size=400).to_bytes())
    door.open("north", replace(header, seq=2, size=200).to_bytes())
    door.open("north", replace(header, attempt=2, size=400).to_bytes())


def test_the_table_admits_by_name_and_roles_alone(kit):
    admitted = admit_by_table(kit.MESSAGES, kit.ROLES, key())
    assert admitted is kit.MESSAGES[0]
    assert admit_by_table(kit.MESSAGES, kit.ROLES, key("consent", "north", "south")).name == "consent"
    for wrong in (key("other"), key("part", "bureau", "north"), key("part", "north", "south"),
                  key("total", "north", "bureau"), key("part", "stranger", "bureau")):  # fmt: skip
        with pytest.raises(MessageRefused, match="is not declared from"):
            admit_by_table(kit.MESSAGES, kit.ROLES, wrong)


def test_a_guard_of_a_run_knows_its_steps_alone(kit):
    guard = PlanGuard("run-1", {"train": (kit.MESSAGES, kit.ROLES), "load": ((), kit.ROLES)})
    assert guard.admit("north", key()).name == "part"
    for other in (key(run="run-2"), key(step="align")):
        with pytest.raises(ConsentError):
            guard.admit("north", other)
    with pytest.raises(MessageRefused, match="is not declared"):
        guard.admit("north", key(step="load"))
