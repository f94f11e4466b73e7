"""Parties of a benchmark, each a process of its own (`bench.party`), with mutual TLS over loopback between them."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from base.errors import StateError
from bench.peer import HERE, ONE_THREAD
from party_node.identity import provision, public_keys

SAMPLE = 0.2  # seconds
Roles = Mapping[str, tuple[str, ...]]


class Nodes:
    """The directories of some nodes, which keep what one run leaves for the next."""

    def __init__(self, root: Path, roles: Roles, command: str) -> None:
        """Make keys and certificates; `command` is the Python code of a party's process."""
        self._root, self._roles, self._command, self._runs = root, roles, command, 0
        self.parties = {party: role for role, members in roles.items() for party in members}
        for party in self.parties:
            provision(root / party, party, root / "ca")
        self._publics = {party: public_keys(root / party).to_document() for party in self.parties}

    def run(
        self, component: str, params: Mapping[str, Any], tasks: Mapping[str, Mapping[str, Any]], memory: bool = False
    ) -> dict[str, dict[str, Any]]:
        """Run a step at all parties; return what each answers, with its `peak` in bytes when `memory` is asked for.

        `tasks`: what each party's `Work` wants to know, its seed, and a label of its progress ("" says nothing).
        Memory is PSS, which divides a page among those who share it, summed over all processes of a party every 0.2 s
        from its start on; looking takes time of its own. `StateError` when a process ends before it has answered.
        """
        self._runs += 1
        shared = {"component": component, "params": params, "roles": self._roles, "publics": self._publics}
        with _processes() as processes:
            for party in self.parties:
                processes[party] = process = _Process(self._command, memory)
                own = {"home": str(self._root / party), "party": party, "run": f"run{self._runs}"}
                process.tell({**shared, **own, **tasks[party]})
            ports = {party: process.hear(processes)["port"] for party, process in processes.items()}
            for process in processes.values():
                process.tell(ports)
            told = {party: process.hear(processes) for party, process in processes.items()}
            for process in processes.values():
                process.tell({})
            return {party: told[party] | {"peak": process.end()} for party, process in processes.items()}


class _Process:
    """One party's process and what it takes."""

    def __init__(self, command: str, memory: bool) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=HERE.parent,
            env={**os.environ, **ONE_THREAD},
        )  # fmt: skip
        self._peak, self._over = 0, threading.Event()
        self._sampler = threading.Thread(target=self._sample if memory else self._over.wait, daemon=True)
        self._sampler.start()

    def tell(self, document: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended: `hear` says so
            self._process.stdin.write(json.dumps(document) + "\n")
            self._process.stdin.flush()

    def hear(self, processes: Mapping[str, _Process]) -> dict[str, Any]:
        """Return the next line; `StateError` when a process has ended without it."""
        out = self._process.stdout
        assert out is not None
        while not select.select([out], [], [], SAMPLE)[0]:
            for each in processes.values():
                if each._process.poll():
                    raise each._failed()
        if not (line := out.readline()):
            raise self._failed()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def end(self) -> int:
        """Wait for the end; return the largest sum of PSS that was seen."""
        self._process.wait()
        self.close()
        return self._peak

    def close(self) -> None:
        self._over.set()
        self._sampler.join()
        self._process.kill()
        self._process.communicate()

    def _failed(self) -> StateError:
        code = self._process.wait()
        return StateError(
            "a party failed in its process", found=f"exit status {code}", remedy="its own words are above"
        )

    def _sample(self) -> None:
        me = psutil.Process(self._process.pid)
        while not self._over.wait(SAMPLE):
            found = 0
            with suppress(psutil.Error):  # it has ended
                for each in [me, *me.children(recursive=True)]:
                    with suppress(psutil.Error):  # a helper has ended
                        found += each.memory_full_info().pss
            self._peak = max(self._peak, found)


@contextmanager
def _processes() -> Iterator[dict[str, _Process]]:
    found: dict[str, _Process] = {}
    try:
        yield found
    finally:
        for process in found.values():
            process.close()
