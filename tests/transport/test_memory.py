import threading
import time

import pytest

from base.errors import DeadlinePassed, MessageRefused
from transport.memory import MemoryExchange, MemoryInbox
from transport.message import MessageKey

KEY = MessageKey("run-1", "train", 1, "part", "north", "bureau", 0)


def test_a_reader_wakes_when_the_body_comes():
    inbox = MemoryInbox()
    timer = threading.Timer(0.1, inbox.put, (KEY, b"body"))
    timer.start()
    start = time.monotonic()
    assert inbox.get(KEY, 600) == b"body"
    assert time.monotonic() - start < 60
    timer.join()


def test_a_wait_ends_and_the_first_body_stays():
    inbox = MemoryInbox()
    assert inbox.get(KEY, 0.05) is None
    inbox.put(KEY, b"first")
    inbox.put(KEY, b"second")
    assert inbox.get(KEY, 0) == b"first"


def test_a_party_that_has_not_joined_is_awaited_until_the_deadline(nodes, kit):
    carrier = MemoryExchange().join(nodes["north"].door)
    with pytest.raises(DeadlinePassed, match="bureau was awaited to take message part") as caught:
        kit.make_channel(nodes["north"], carrier, deadline_seconds=0.2).send("part", kit.blocks(b"ab"))
    assert "has not joined" in caught.value.found


def test_the_receivers_door_decides_in_memory_too(channels, nodes, kit):
    nodes["bureau"].door.guard = kit.PlanGuard(kit.RUN, {kit.STEP: ((), kit.ROLES)})
    with pytest.raises(MessageRefused, match="is not declared"):
        channels["north"].send("part", kit.blocks(b"ab"))
    assert not nodes["bureau"].entries()


def test_three_threads_exchange_many_rounds(channels, kit):
    rounds, sums = 20, {}

    def data_holder(party, value):
        for number in range(rounds):
            channels[party].send("part", kit.blocks(bytes([value, number])))
            sums[party, number] = channels[party].recv("total")["x"].to_pylist()

    def aggregator():
        for number in range(rounds):
            parts = [channels["bureau"].recv("part", p)["c"].to_pylist()[0] for p in ("north", "south")]
            assert {part[1] for part in parts} == {number}
            channels["bureau"].send("total", kit.numbers(sum(part[0] for part in parts)))

    threads = [threading.Thread(target=data_holder, args=pair) for pair in (("north", 3), ("south", 4))]
    threads.append(threading.Thread(target=aggregator))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sums == {(party, number): [7] for party in ("north", "south") for number in range(rounds)}
