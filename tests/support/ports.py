"""Ports of loopback that nothing uses now.

They lie below those that the system gives to connections that go out, so nothing takes one before its server starts, or
while a test starts its server again; and each process of a test run has a range of its own.
"""

import os
import random
import socket
from collections.abc import Iterable
from contextlib import ExitStack, suppress

EACH = 2000
FIRST = 10_000 + EACH * (int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 11)
_DRAWN = random.SystemRandom()


def free_port() -> int:
    return free_ports([""])[""]


def free_ports(names: Iterable[str]) -> dict[str, int]:
    """Return a port for each name; all are held until all are found, so no two are the same."""
    with ExitStack() as held:
        return {name: _hold(held) for name in names}


def _hold(held: ExitStack) -> int:
    while True:
        one = held.enter_context(socket.socket())
        with suppress(OSError):  # in use
            one.bind(("127.0.0.1", port := _DRAWN.randrange(FIRST, FIRST + EACH)))
            return port
