"""Other libraries, each in a process of its own: the interpreter of `.venv-bench` runs `bench/peers/peer_NAME.py`.

They cannot be installed beside this product, and a measurement beside them should share nothing with them but the
machine. Requests and answers are JSON lines (`bench/peers/serve.py`). A peer that is not there is not an error: it is
listed with its reason.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.frame import Figure, Unmeasured

HERE = Path(__file__).resolve().parent
ENVIRONMENT = HERE.parent / ".venv-bench"
REMEDY = "make bench-peers"
IN_BOTH = ("phe", "pycryptodome")  # the product's own environment has them too
NAMES = (*IN_BOTH, "heu", "tenseal", "openmined", "spu")
ANSWER_SECONDS = 300
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}


@dataclass(frozen=True)
class Place:
    """Where peers are: their interpreter, their scripts, and what pip said of those that it could not install."""

    interpreter: Path = ENVIRONMENT / "bin" / "python"
    scripts: Path = HERE / "peers"
    failures: Path = ENVIRONMENT / "failed.txt"


class Peer:
    """One running peer; `Unmeasured` when it fails, with its own words."""

    def __init__(self, interpreter: Path, script: Path) -> None:
        """Start it and wait until its library is loaded."""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 -- closed with the peer
        self._process = subprocess.Popen(
            [interpreter, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True,
            env={**os.environ, **ONE_THREAD},
        )  # fmt: skip
        try:
            self.versions: Mapping[str, str] = self._read()["versions"]
        except Unmeasured:
            self.close()
            raise

    def ask(self, op: str, **arguments: int) -> Mapping[str, Any]:
        """Return what the peer answers: `count`, `cpu` seconds, perhaps `bytes`."""
        if self._process.stdin is None or self._process.poll() is not None:
            raise Unmeasured("the peer's process has ended", found=self._process.poll())
        self._process.stdin.write(json.dumps({"op": op, **arguments}) + "\n")
        self._process.stdin.flush()
        return self._read()

    def close(self) -> None:
        """End the peer."""
        self._process.kill()
        self._process.communicate()
        self._errors.close()

    def _read(self) -> Mapping[str, Any]:
        out = self._process.stdout
        if out is None or not select.select([out], [], [], ANSWER_SECONDS)[0]:
            self._process.kill()
            raise Unmeasured("the peer does not answer", found=f"nothing for {ANSWER_SECONDS} s")
        line = out.readline()
        if not line:
            raise Unmeasured(f"the peer's process ended with {self._process.wait()}", found=self._last_words())
        answer: Mapping[str, Any] = json.loads(line)
        if "error" in answer:
            raise Unmeasured(str(answer["error"]))
        return answer

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else "no message"


@contextmanager
def open_peers(
    place: Place | None = None, names: Sequence[str] = NAMES
) -> Iterator[tuple[dict[str, Peer], dict[str, dict[str, Any]]]]:
    """Start peers; yield those that run, and for each name its versions or the reason why it is not measured."""
    place = place or Place()
    peers, found = dict[str, Peer](), dict[str, dict[str, Any]]()
    with ExitStack() as stack:
        for name in names:
            try:
                peers[name] = peer = _start(name, place)
            except Unmeasured as error:
                found[name] = {"versions": None, "reason": f"{error.what}{_said(name, place)}", "remedy": error.remedy}
                continue
            stack.callback(peer.close)
            found[name] = {"versions": dict(peer.versions), "reason": None}
        yield peers, found


def peer_rate(
    peers: Mapping[str, Peer], asked: str, heard: Callable[[Mapping[str, Any]], None] = lambda answer: None, /,
    **n: int,
) -> Figure:  # fmt: skip
    """Return f() = the rate of PEER.OPERATION for a CPU-second of what the peer reports; `heard` gets its answer.

    f raises `Unmeasured` when the peer does not run.
    """
    peer, op = asked.split(".")

    def rate() -> float:
        if peer not in peers:
            raise Unmeasured("not installed or not importable: see `peers`")
        answer = peers[peer].ask(op, **n)
        heard(answer)
        return float(answer["count"]) / max(float(answer["cpu"]), 1e-6)

    return rate


def notes(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a line for each peer: its versions, or why it is not measured."""
    lines = []
    for name, state in found.items():
        versions = ", ".join(f"{library} {version}" for library, version in (state["versions"] or {}).items())
        lines.append(f"peer {name}: {versions or 'NOT MEASURED: ' + state['reason']}")
    if any(state.get("remedy") == REMEDY for state in found.values()):
        lines.append(f"remedy: {REMEDY} installs the peers into an environment of their own")
    return lines


def _start(name: str, place: Place) -> Peer:
    interpreter = place.interpreter
    if not interpreter.exists():
        if name not in IN_BOTH:
            raise Unmeasured("the peers' environment is missing", remedy=REMEDY)
        interpreter = Path(sys.executable)
    return Peer(interpreter, place.scripts / f"peer_{name}.py")


def _said(name: str, place: Place) -> str:
    """Return what pip said when it could not install this peer."""
    lines = place.failures.read_text(encoding="utf-8").splitlines() if place.failures.exists() else []
    return "".join(f"; {line}" for line in lines if name in line.split("==")[0])
