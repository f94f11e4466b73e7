"""Two parties that align their ids, each in a process of its own, with mutual TLS over loopback between them.

What is counted is the whole component: both parties' CPU with all processes that they start, from the moment when both
have their ids to the end of the step; the seconds on the clock; and memory as PSS of all processes of a party.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.crypto_meter import BITS, check
from bench.processes import Nodes
from bench.psi_party import COLUMN, TABLE

ROLES = {"receiver": ("alpha",), "sender": ("beta",)}
PARTIES = {party: role for role, members in ROLES.items() for party in members}
COMMAND = "from bench.psi_party import main; main()"
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
        self._nodes, self._nights = Nodes(root, ROLES, COMMAND), 0

    def align(self, component: str, n: int, params: Mapping[str, Any], first: int = 0, night: int = 1) -> Run:
        """Align ids `first` to `first + n` of the receiver with as many of the sender, half of them in common."""
        self._nights += 1
        params = {"tables": dict.fromkeys(PARTIES, TABLE), "id_column": COLUMN, "min_overlap": 1, **params}
        starts = {"receiver": first, "sender": first + n // 2}
        labels = {"receiver": f"{component}, {n:,} ids a side", "sender": ""}
        tasks = {
            party: {"ids": n, "first": starts[role], "seed": 2 * self._nights + k, "label": labels[role]}
            for k, (party, role) in enumerate(PARTIES.items())
        }
        told = self._nodes.run(component, params, tasks, memory=True)
        check(len({each["digest"] for each in told.values()}) == 1)
        check(all(each["aligned"] == n - n // 2 for each in told.values()))
        cpu, peak = ({party: each[name] for party, each in told.items()} for name in ("cpu", "peak"))
        wall, sent = max(each["wall"] for each in told.values()), sum(each["bytes"] for each in told.values())
        return Run(component, n, night, params, wall, cpu, peak, sent)


def curve_params(n: int) -> dict[str, Any]:
    """Return the parameters for `n` ids a side on the curve."""
    return {"buckets": -(-n // BUCKET), "pad_to": PAD_TO, "max_tests": ANY, "spark_above": ANY}


def rsa_params(n: int) -> dict[str, Any]:
    """Return those with signatures: `pad_to` is a batch."""
    size = max(PAD_TO, n // BATCHES) if n >= PAD_TO else n
    return {"key_bits": BITS, "pad_to": size, "max_signatures": ANY, "spark_above": ANY}
