"""Two parties that align their ids, each in a process of its own, with mutual TLS over loopback between them.

What is counted is the whole component: both parties' CPU with all processes that they start, from the moment when both
have their ids to the end of the step; the seconds on the clock; and memory as PSS, which divides a page among those who
share it, summed over all processes of a party every 0.2 s from its start on.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from base.errors import StateError
from bench.crypto_meter import BITS, check
from bench.peer import HERE, ONE_THREAD
from bench.psi_party import COLUMN, TABLE
from crypto.node_keys import NodePublicKeys
from party_node.identity import provision, public_keys

ROLES = {"receiver": ("alpha",), "sender": ("beta",)}
PARTIES = {party: role for role, members in ROLES.items() for party in members}
COMMAND = "from bench.psi_party import main; main()"
SAMPLE = 0.2  # seconds
BUCKET = 1 << 17  # ids, at most, on average
BATCHES = 128  # of signatures, about, in a first night
PAD_TO = 1000
ANY = 1 << 40


@dataclass(frozen=True)
class Run:
    """One alignment; `cpu`, `peak` are by party."""

    component: str
    ids: int  # a side
    night: int  # 1: every id is new
    params: Mapping[str, Any]
    wall: float  # s
    cpu: Mapping[str, float]  # s
    peak: Mapping[str, int]  # bytes of PSS
    bytes: int  # on the wire, both directions

    @property
    def cpu_seconds(self) -> float:
        """Of both parties."""
        return sum(self.cpu.values())

    @property
    def memory(self) -> int:
        """Of the party that takes more, in bytes."""
        return max(self.peak.values())

    def document(self) -> dict[str, Any]:
        """Return what the JSON file holds of it."""
        return asdict(self)


class Pair:
    """Two nodes' directories, which keep what one night leaves for the next."""

    def __init__(self, root: Path) -> None:
        """Make keys and certificates."""
        self._root, self._nights = root, 0
        for party in PARTIES:
            provision(root / party, party, root / "ca")
        self._publics = {party: public_keys(root / party) for party in PARTIES}

    def align(self, component: str, n: int, params: Mapping[str, Any], first: int = 0, night: int = 1) -> Run:
        """Align ids `first` to `first + n` of the receiver with as many of the sender, half of them in common."""
        self._nights += 1
        params = {"tables": dict.fromkeys(PARTIES, TABLE), "id_column": COLUMN, "min_overlap": 1, **params}
        starts = {"receiver": first, "sender": first + n // 2}
        with _processes() as processes:
            for k, (party, role) in enumerate(PARTIES.items()):
                processes[party] = process = _Process()
                process.tell({
                    "home": str(self._root / party), "party": party, "roles": ROLES, "component": component,
                    "publics": _documents(self._publics), "run": f"night{self._nights}", "params": params, "ids": n,
                    "first": starts[role], "seed": 2 * self._nights + k,
                })  # fmt: skip
            ports = {party: process.hear(processes)["port"] for party, process in processes.items()}
            for process in processes.values():
                process.tell(ports)
            told = {party: process.hear(processes) for party, process in processes.items()}
            peaks = {party: process.end() for party, process in processes.items()}
        check(len({each["digest"] for each in told.values()}) == 1)
        check(all(each["aligned"] == n - n // 2 for each in told.values()))
        wall, sent = max(each["wall"] for each in told.values()), sum(each["bytes"] for each in told.values())
        return Run(component, n, night, params, wall, {p: each["cpu"] for p, each in told.items()}, peaks, sent)


def curve_params(n: int) -> dict[str, Any]:
    """Return the parameters for `n` ids a side on the curve."""
    return {"buckets": -(-n // BUCKET), "pad_to": PAD_TO, "max_tests": ANY, "spark_above": ANY}


def rsa_params(n: int) -> dict[str, Any]:
    """Return those with signatures: `pad_to` is a batch."""
    size = max(PAD_TO, n // BATCHES) if n >= PAD_TO else n
    return {"key_bits": BITS, "pad_to": size, "max_signatures": ANY, "spark_above": ANY}


class _Process:
    """One party's process and what it takes."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", COMMAND], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=HERE.parent,
            env={**os.environ, **ONE_THREAD},
        )  # fmt: skip
        self._peak, self._over = 0, threading.Event()
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        self._sampler.start()

    def tell(self, document: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
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


def _documents(publics: Mapping[str, NodePublicKeys]) -> dict[str, dict[str, str]]:
    return {party: keys.to_document() for party, keys in publics.items()}
