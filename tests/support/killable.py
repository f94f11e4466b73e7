"""Nodes whose processes stop at a place that a test names, so that kill -9 hits them exactly there.

A place is a moment in the life of a message, with the message's name and number in the attempt:

    send       a worker has made the message and recorded it; no byte has left
    cut        all slices of it have left the worker, its end marker has not
    delivered  the receiving node has it in ledger and inbox; the sender has no receipt
    read       a worker has read it from the inbox, and done nothing with it

A process that gets there renames the file `halt` of its node, which holds the place, to `halted`, and waits.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil

HALT, HALTED = "halt", "halted"
SECONDS = 60
ONE_AT_A_TIME = threading.Lock()


class KillableNodes:
    """The real nodes of some parties of a consortium; a context manager that starts and stops them."""

    def __init__(self, consortium, parties):
        self.consortium, self.parties, self._nodes = consortium, parties, {}

    def __enter__(self):
        try:
            self._start(*self.parties)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in self._nodes.values():
            process.terminate()
        for process in self._nodes.values():
            process.wait(SECONDS)

    def halt(self, party, place):
        """Ask the party's node to stop at the place when it gets there."""
        self._file(party, HALTED).unlink(missing_ok=True)
        self._file(party, HALT).write_text(place)

    def await_halt(self, party, going_on=None, seconds=SECONDS):
        """Wait until the party's node has stopped at the place; `going_on` is the attempt that leads there."""
        until = time.monotonic() + seconds
        while not self._file(party, HALTED).exists():
            assert going_on is None or not going_on.done(), f"the attempt has ended before: {going_on.exception()}"
            assert time.monotonic() < until, "the place is not reached"
            time.sleep(0.01)

    def kill(self, party, going_on):
        """Kill node and worker of a party when they have stopped, and start the node; `going_on` is the attempt."""
        self.await_halt(party, going_on)
        node = psutil.Process(self._nodes[party].pid)
        processes = [node, *node.children(recursive=True)]
        for each in processes:  # the node first: it shall not see that its worker died
            with suppress(psutil.NoSuchProcess):
                each.kill()
        self._nodes[party].wait(SECONDS)
        _, alive = psutil.wait_procs(processes, timeout=SECONDS)
        assert not alive
        self._start(party)

    def _start(self, *parties):
        from party_node import launch

        paths = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths)}
        for party in parties:
            home = self.consortium.home(party)
            home.path("logs").mkdir(exist_ok=True)
            with home.path("logs", "node.log").open("ab") as log:
                self._nodes[party] = subprocess.Popen(
                    [sys.executable, "-c", "import killable; killable.node()", str(home.root)], stdout=log, stderr=log,
                    stdin=subprocess.DEVNULL, env=env, start_new_session=True,
                )  # fmt: skip
        for party in parties:
            launch.wait_healthy(self.consortium.home(party), self._nodes[party])

    def _file(self, party, name):
        return self.consortium.home(party).path(name)


def node():
    """Be a node: the product's own, with a place to stop at."""
    from party_node import node as product
    from party_node import supervisor
    from transport.inbox import DirectoryInbox

    supervisor.WORKER = "import killable; killable.worker()"
    put = DirectoryInbox.put

    def delivered(self, key, body):
        put(self, key, body)
        _at("delivered", key)

    DirectoryInbox.put = delivered
    product.main()


def worker():
    """Be the worker of such a node."""
    from party_node import worker as product
    from transport import flight

    carrier, on_its_way = flight.FlightCarrier, []
    put, get, slices = carrier._put, carrier.get, flight.slices

    def sent(self, client, parcel, seconds):
        _at("send", parcel.key)
        on_its_way[:] = [parcel.key]
        return put(self, client, parcel, seconds)

    def cut(body):
        yield from slices(body)
        _at("cut", *on_its_way)

    def read(self, key, patience):
        body = get(self, key, patience)
        if body is not None:
            _at("read", key)
        return body

    carrier._put, carrier.get, flight.slices = sent, read, cut
    product.main()


def _at(moment, key):
    wish = Path(sys.argv[1]) / HALT
    with ONE_AT_A_TIME:  # a message to several parties leaves in as many threads
        here = wish.exists() and wish.read_text() == f"{moment} {key.name} {key.seq}"
        if here:
            wish.rename(wish.with_name(HALTED))
    if here:
        threading.Event().wait()
