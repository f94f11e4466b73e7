import threading
import time

import pyarrow as pa
import pytest

from base.errors import Cancelled, DeadlinePassed, MessageRefused, PeerDown


def test_tables_arrive_in_order_and_unchanged(channels, kit):
    channels["north"].send("part", kit.blocks(b"ab", b"cd"), to="bureau")
    channels["north"].send("part", kit.blocks(b"ef"))
    first = channels["bureau"].recv("part", from_="north")
    second = channels["bureau"].recv("part", from_="north")
    assert first.equals(kit.blocks(b"ab", b"cd"), check_metadata=True)
    assert second["c"].to_pylist() == [b"ef"]


def test_without_a_receiver_every_other_party_of_the_role_gets_it(channels, kit):
    channels["bureau"].send("total", kit.numbers(1, 2))
    assert [channels[p].recv("total").num_rows for p in ("north", "south")] == [2, 2]
    channels["north"].send("consent", kit.numbers(7))
    assert channels["south"].recv("consent")["x"].to_pylist() == [7]


def test_an_empty_table_crosses(channels, kit):
    channels["bureau"].send("total", kit.numbers(), to="north")
    assert channels["north"].recv("total").num_rows == 0


def test_chunks_do_not_change_the_bytes(channels, nodes, kit):
    whole, cut = kit.numbers(1, 2, 3), pa.concat_tables([kit.numbers(1), kit.numbers(2, 3)])
    channels["bureau"].send("total", whole, to="north")
    channels["bureau"].send("total", cut, to="north")
    first, second = nodes["bureau"].store.entries("run-1")
    assert first.statement.size == second.statement.size
    assert channels["north"].recv("total").equals(channels["north"].recv("total"))


@pytest.mark.parametrize(
    ("name", "to"),
    [("secret", None), ("total", "bureau"), ("part", "south"), ("part", "north"), ("consent", "bureau")],
)
def test_what_is_not_in_the_table_is_not_sent(channels, nodes, name, to, kit):
    with pytest.raises(MessageRefused, match="not in the component's table"):
        channels["north"].send(name, kit.numbers(1), to=to)
    assert not nodes["north"].store.entries("run-1")


def test_recv_needs_a_declared_message_and_one_possible_sender(channels):
    for name, from_ in [("part", None), ("part", "bureau"), ("total", "north"), ("consent", "north")]:
        with pytest.raises(MessageRefused):
            channels["bureau"].recv(name, from_)


def test_a_table_of_another_schema_is_not_sent(channels, kit):
    for table in (kit.blocks(b"a"), kit.numbers(1).rename_columns(["y"]), pa.table({"x": pa.array([1], pa.int32())})):
        with pytest.raises(MessageRefused, match="schema"):
            channels["bureau"].send("total", table)
    with pytest.raises(MessageRefused, match="nulls"):
        channels["bureau"].send("total", pa.table({"x": pa.array([1, None], pa.int64())}))


def test_a_table_above_the_limit_is_not_sent(channels, nodes, kit):
    with pytest.raises(MessageRefused, match="too large"):
        channels["bureau"].send("total", kit.numbers(*range(9 * 2**17)), to="north")
    assert not nodes["bureau"].store.entries("run-1")


def test_a_deadline_says_who_was_awaited_for_what_and_since_when(channels):
    channels["bureau"].deadline_seconds = 0.2
    with pytest.raises(DeadlinePassed) as caught:
        channels["bureau"].recv("part", from_="south")
    text = str(caught.value)
    for part in ("south was awaited", "message part number 0", "since 20", "0.2 seconds", "step train", "attempt 1"):
        assert part in text
    assert caught.value.party == "bureau"


def test_a_wait_ends_when_the_step_is_stopped(channels):
    stop = threading.Event()
    channels["bureau"].deadline_seconds = 600
    channels["bureau"].cancelled = lambda: Cancelled("south stopped") if stop.is_set() else None
    threading.Timer(0.1, stop.set).start()
    start = time.monotonic()
    with pytest.raises(Cancelled, match="south stopped"):
        channels["bureau"].recv("part", from_="south")
    assert time.monotonic() - start < 60


def test_a_stopped_step_sends_nothing(channels, nodes, kit):
    channels["bureau"].cancelled = lambda: Cancelled("stop")
    with pytest.raises(Cancelled):
        channels["bureau"].send("total", kit.numbers(1), to="north")
    assert not nodes["north"].store.entries("run-1")


class Flaky:
    """A carrier that delivers, but loses the first two acknowledgements."""

    def __init__(self, carrier):
        self.carrier, self.seen = carrier, []

    def put(self, parcel, seconds):
        self.seen.append(parcel.body)
        claim = self.carrier.put(parcel, seconds)
        if len(self.seen) < 3:
            raise PeerDown("the connection was lost")
        return claim

    def get(self, key, patience):
        return self.carrier.get(key, patience)


def test_a_lost_acknowledgement_is_resent_byte_for_byte_and_read_once(channels, nodes, kit):
    flaky = Flaky(channels["bureau"].carrier)
    channel = kit.make_channel(nodes["bureau"], flaky)
    channel.send("total", kit.numbers(5), to="north")
    assert len(flaky.seen) == 3
    assert len(set(flaky.seen)) == 1
    assert len(nodes["north"].store.entries("run-1")) == len(nodes["bureau"].store.entries("run-1")) == 1
    assert channels["north"].recv("total")["x"].to_pylist() == [5]
    channels["north"].deadline_seconds = 0.1
    with pytest.raises(DeadlinePassed):
        channels["north"].recv("total")


class Dead:
    def put(self, parcel, seconds):
        raise PeerDown("nobody listens at 127.0.0.1")

    def get(self, key, patience):
        raise AssertionError


def test_a_peer_that_stays_down_ends_the_send_at_the_deadline(nodes, kit):
    channel = kit.make_channel(nodes["bureau"], Dead(), deadline_seconds=0.3)
    with pytest.raises(DeadlinePassed, match="north was awaited to take message total") as caught:
        channel.send("total", kit.numbers(5), to="north")
    assert "nobody listens" in str(caught.value)


class Meeting:
    """A carrier that takes a message to north only once the one to south is out."""

    def __init__(self, carrier, refuse=None):
        self.carrier, self.refuse, self.south = carrier, refuse, threading.Event()

    def put(self, parcel, seconds):
        if parcel.header.receiver == "south":
            self.south.set()
            if self.refuse:
                raise self.refuse
        elif not self.south.wait(2) or self.refuse:
            raise PeerDown("nobody listens at 127.0.0.1")
        return self.carrier.put(parcel, seconds)

    def get(self, key, patience):
        return self.carrier.get(key, patience)


def test_a_slow_receiver_keeps_nobody_waiting_and_the_ledger_keeps_the_order_of_names(channels, nodes, kit):
    kit.make_channel(nodes["bureau"], Meeting(channels["bureau"].carrier)).send("total", kit.numbers(1, 2))
    assert [channels[p].recv("total").num_rows for p in ("north", "south")] == [2, 2]
    entries = nodes["bureau"].store.entries("run-1")
    assert [entry.peer for entry in entries] == ["north", "south"]
    assert all(entry.claim for entry in entries)


def test_a_receiver_s_refusal_ends_the_wait_for_one_that_is_down(channels, nodes, kit):
    carrier = Meeting(channels["bureau"].carrier, MessageRefused("another version"))
    start = time.monotonic()
    with pytest.raises(MessageRefused, match="another version"):
        kit.make_channel(nodes["bureau"], carrier, deadline_seconds=60).send("total", kit.numbers(1))
    assert time.monotonic() - start < 10
    assert [entry.claim for entry in nodes["bureau"].store.entries("run-1")] == [None, None]


def test_the_first_of_several_is_taken_and_numbers_go_on_at_each(channels, kit):
    bureau, both = channels["bureau"], ("north", "south")
    assert bureau.recv_any("part", both, patience=0.01) is None
    channels["south"].send("part", kit.blocks(b"s0"))
    channels["south"].send("part", kit.blocks(b"s1"))
    channels["north"].send("part", kit.blocks(b"n0"))
    found = [bureau.recv_any("part", parties) for parties in (("south",), ("north",), ("south",))]
    assert [(party, table["c"].to_pylist()) for party, table in found] == [
        ("south", [b"s0"]), ("north", [b"n0"]), ("south", [b"s1"])
    ]  # fmt: skip
    channels["north"].send("part", kit.blocks(b"n1"))
    assert bureau.recv("part", from_="north")["c"].to_pylist() == [b"n1"]


def test_a_wait_for_any_ends_at_the_deadline_when_stopped_and_for_parties_of_the_role_alone(channels):
    bureau = channels["bureau"]
    with pytest.raises(MessageRefused):
        bureau.recv_any("part", ("north", "bureau"))
    bureau.deadline_seconds = 0.05
    with pytest.raises(DeadlinePassed, match="north, south was awaited for message part"):
        bureau.recv_any("part", ("north", "south"))
    bureau.cancelled = lambda: Cancelled("stop")
    with pytest.raises(Cancelled):
        bureau.recv_any("part", ("north", "south"), patience=5)
