"""The node's side of its worker process: one persistent process that runs one step at a time.

The worker is a fresh interpreter, never a fork (a fork with a live Flight client hangs), and its numerics use one
thread. Commands go down its standard input and events come up a pipe of their own, as lines of JSON, so nothing that a
library prints can be mistaken for an event. When the node dies, the worker reads the end of its input and exits; when
the worker dies, the running attempt fails cleanly and the next one gets a fresh process.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from base.errors import AccordError, PeerError, StateError

CANCEL_GRACE_SECONDS = 10.0
Listener = Callable[[dict[str, Any]], None]


WORKER = "from party_node.worker import main; main()"


class Supervisor:
    """Starts the worker when it is needed, hands it one task, hears its events."""

    def __init__(self, home: Path, party: str) -> None:
        """Run the worker of the node whose directory is `home`."""
        self._home, self._party = home, party
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._job: str | None = None
        self._listener: Listener | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the worker, when it runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def warm_up(self) -> None:
        """Start the worker before the first step needs it."""
        with self._lock:
            if self.pid is None:
                self._start()

    def run(self, job: str, command: dict[str, Any], listener: Listener) -> None:
        """Start a step; `listener` hears every event of it, and exactly one whose `event` is done or failed."""
        with self._lock:
            if self._job is not None:
                raise StateError("the worker is busy", expected="no running step", found=self._job, party=self._party)
            self._job, self._listener = job, listener
            try:
                if self.pid is None:
                    self._start()
                self._write({"do": "run", "job": job, **command})
            except OSError as error:
                self._job = self._listener = None
                raise PeerError("the worker cannot be started", found=type(error).__name__, party=self._party) from None

    def post(self, command: dict[str, Any]) -> None:
        """Let the worker do something behind its steps; nobody waits for it."""
        with self._lock:
            if self.pid is None:
                self._start()
            self._write(command)

    def cancel(self, job: str, error: AccordError) -> None:
        """Ask the worker to stop a step; it is killed when it has not stopped after a grace period."""
        with self._lock:
            if self._job != job:
                return
            # When the worker has just died, its end is reported by `_listen`: there is nothing left to cancel.
            with contextlib.suppress(BrokenPipeError):
                self._write({"do": "cancel", "job": job, "error": error.to_wire()})
        timer = threading.Timer(CANCEL_GRACE_SECONDS, self._kill_if_still, args=(job,))
        timer.daemon = True
        timer.start()

    def stop(self, seconds: float = 15.0) -> None:
        """Let the worker end: it finishes nothing, it only closes what it holds."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _start(self) -> None:
        events, child_end = os.pipe()
        logs = self._home / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        with (logs / "worker.log").open("ab") as log:
            self._process = subprocess.Popen(
                # Not "-m": processes that the worker spawns would import its main module, all of it, each for seconds.
                [sys.executable, "-c", WORKER, str(self._home), str(child_end)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=(child_end,),
                env={**os.environ, "OMP_NUM_THREADS": "1", "SPARK_LOCAL_IP": "127.0.0.1"},
                start_new_session=True,  # a Ctrl-C at the node's terminal is the node's to handle
            )
        os.close(child_end)
        threading.Thread(target=self._listen, args=(self._process, events), name="worker-events", daemon=True).start()

    def _listen(self, process: subprocess.Popen[bytes], events: int) -> None:
        with os.fdopen(events, "rb") as lines:
            for line in lines:
                self._hear(json.loads(line))
        code = process.wait()
        with self._lock:
            if self._process is not process:
                return  # it died idle, and another one has been started since
            job, listener = self._job, self._listener
            self._job = self._listener = None
        if job is not None and listener is not None:
            found = signal.Signals(-code).name if code < 0 else f"exit status {code}"
            error = PeerError(
                "the worker process ended in the middle of a step",
                found=found,
                party=self._party,
                remedy="run again with the same run key: finished steps stay, and the next attempt has a fresh worker",
            )
            listener({"event": "failed", "job": job, "error": error.to_wire()})

    def _hear(self, event: dict[str, Any]) -> None:
        with self._lock:
            listener = self._listener if event.get("job") == self._job else None
            if listener is not None and event["event"] in ("done", "failed"):
                self._job = self._listener = None
        if listener is not None:
            listener(event)

    def _write(self, command: dict[str, Any]) -> None:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        process.stdin.write(json.dumps(command).encode() + b"\n")
        process.stdin.flush()

    def _kill_if_still(self, job: str) -> None:
        with self._lock:
            process = self._process if self._job == job else None
        if process is not None:
            process.kill()
