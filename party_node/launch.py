"""Start and stop a node in the background, and reach it: for the command line and for the demo."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from base.errors import EnvironmentMissing, PeerDown
from party_node.client import NodeClient
from runtime.party import Home

PID_FILE = "node.pid"
START_SECONDS, STOP_SECONDS = 60.0, 30.0


def running(home: Home) -> psutil.Process | None:
    """Return the node's process, if it runs; a number that another program has by now does not count."""
    with contextlib.suppress(OSError, ValueError, psutil.Error):
        process = psutil.Process(int(home.path(PID_FILE).read_text()))
        if "party_node.node" in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
            return process
    return None


def start(home: Home) -> subprocess.Popen[bytes] | None:
    """Start a node in the background unless it runs; `wait_healthy` tells how it went."""
    if running(home) is not None:
        return None
    home.path("logs").mkdir(parents=True, exist_ok=True)
    with home.path("logs", "node.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "party_node.node", str(home.root)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            start_new_session=True,
        )


def wait_healthy(home: Home, process: subprocess.Popen[bytes] | None, seconds: float = START_SECONDS) -> None:
    """Wait until a node answers; raise with the end of its log when it has ended instead."""
    until = time.monotonic() + seconds
    while True:
        if process is not None and process.poll() is not None:
            raise EnvironmentMissing(
                "the node ended while it started",
                found=_last_lines(home.path("logs", "node.log")),
                where=str(home.path("logs", "node.log")),
                party=home.party,
            )
        try:
            with client(home, "operator") as node:
                node.call("hello", seconds=2.0)
            return
        except PeerDown as error:
            if time.monotonic() > until:
                raise error from None
            time.sleep(0.1)


def stop(homes: list[Home]) -> None:
    """Stop nodes gracefully, all at the same time; what does not end within `STOP_SECONDS` is killed."""
    processes = [process for home in homes if (process := running(home)) is not None]
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGTERM)
    _, left = psutil.wait_procs(processes, timeout=STOP_SECONDS)
    for process in left:
        process.kill()


def client(home: Home, who: str) -> NodeClient:
    """Return a client of the node with one of its client certificates: airflow, cli, approver, operator."""
    host, _, port = home.conf.advertise.rpartition(":")
    keys, name = home.path("keys"), f"{home.party}.{who}"
    cert, key = keys / "clients" / f"{name}.crt", keys / "clients" / f"{name}.key"
    return NodeClient(host, int(port), keys / "ca.crt", cert, key, home.party)


def _last_lines(path: Path, count: int = 6) -> str:
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    return "\n".join(text.strip().splitlines()[-count:]) or "nothing"
