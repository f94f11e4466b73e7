"""Airflow as its four real processes on this machine: API server, scheduler, DAG processor, triggerer.

`python -m demo.airflow` starts the demo's nodes and north_bank's Airflow, and stops both on Ctrl-C.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from base.errors import AccordError, EnvironmentMissing
from demo.airflow_home import ROOT, AirflowHome
from demo.airflow_rest import AirflowRest
from demo.harness import Demo

# The log servers would listen on every address of the machine; the API server reads the files itself.
PROCESSES = {
    "api-server": (),
    "scheduler": ("--skip-serve-logs",),
    "dag-processor": (),
    "triggerer": ("--skip-serve-logs",),
}
START_SECONDS = 90.0
STOP_SECONDS = 20.0


class Airflow:
    """Starts and stops the four processes, each the leader of its own process group."""

    def __init__(self, home: AirflowHome) -> None:
        self.home = home
        self.rest = AirflowRest(home.port)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Start all four and wait until they are healthy; `EnvironmentMissing` names port or process and its log."""
        require_port(self.home.port)
        self.home.prepare()
        environment = self.home.environment()
        for name, more in PROCESSES.items():
            with open(self._log(name), "ab") as log:
                self._processes[name] = subprocess.Popen(
                    [sys.executable, "-m", "airflow", name, *more],
                    env=environment, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
                )  # fmt: skip
        try:
            self._wait_healthy()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End all groups, politely first; workers and supervisors are members of their parent's group."""
        for process in self._processes.values():
            _signal_group(process, signal.SIGTERM)
        until = time.monotonic() + STOP_SECONDS
        for process in self._processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, until - time.monotonic()))
            _signal_group(process, signal.SIGKILL)
            process.wait()
        self._processes.clear()

    def check(self) -> None:
        """Raise when one of the processes has ended."""
        for name, process in self._processes.items():
            if process.poll() is not None:
                raise EnvironmentMissing(
                    f"Airflow's {name} ended", found=f"exit code {process.returncode}", where=str(self._log(name))
                )

    def __enter__(self) -> Airflow:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _wait_healthy(self) -> None:
        until = time.monotonic() + START_SECONDS
        while bad := self.rest.unhealthy():
            self.check()
            if time.monotonic() > until:
                raise EnvironmentMissing(
                    "Airflow does not get healthy", expected=f"within {START_SECONDS:g} s", found=", ".join(bad),
                    where=str(self.home.home),
                )  # fmt: skip
            time.sleep(0.3)

    def _log(self, name: str) -> Path:
        return self.home.home / f"{name}.log"


def _signal_group(process: subprocess.Popen[Any], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):  # the whole group has gone
        os.killpg(process.pid, number)


def require_port(port: int) -> None:
    """Raise `EnvironmentMissing` when something listens on the port already."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            raise EnvironmentMissing(
                "a port is taken", expected="free", found=f"127.0.0.1:{port} is in use",
                remedy="stop what listens there, or choose another: make airflow AIRFLOW_PORT=8081",
            ) from None  # fmt: skip


def main() -> int:
    """Serve the demo until somebody presses Ctrl-C; the exit code is that of the error, if there is one."""
    console = Console()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    demo = Demo()
    try:
        require_port(port := int(os.environ.get("AIRFLOW_PORT", "8080")))
        if not demo.root.exists():
            demo.prepare(console.print)
        with demo.consortium as consortium, Airflow(replace(demo.airflow(), port=port)) as airflow:
            for pipeline in demo.pipelines:
                consortium.approve(demo.file(pipeline))
            console.print(f"Airflow of north_bank: {airflow.rest.url}   (Ctrl-C stops it and the nodes)")
            while True:
                airflow.check()
                time.sleep(1)
    except KeyboardInterrupt:
        return 0
    except AccordError as error:
        console.print(str(error), markup=False, highlight=False)
        return error.code


if __name__ == "__main__":
    sys.exit(main())
