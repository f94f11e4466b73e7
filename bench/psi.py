"""Whole alignments, each party in a process of its own: CPU of both, memory as PSS, and what a second night costs.

    openmined-psi, spu     beside `align_ecdh`: ids a side over the CPU seconds of both parties
    pycryptodome           beside `align_rsa` with a key that is there already
    larger sizes           ids a CPU-second, memory of the larger party, CPU seconds for a million ids
    second night           `align_rsa` once more with what the first night kept: 1 % of the ids are new, 1 % are gone

Peers are libraries without transport, doors, keys and checkpoints; ours has all of these. Their own rate is for one id,
and spu gets fewer ids since its sound curve is slow. Half of each side's ids are common, and every run is checked: both
parties end with the same people in the same order. Runs that take minutes are measured once, the others in turn.
Spark takes no part: ids go through Arrow at every size.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.crypto_meter import BITS
from bench.frame import Case, Figure, Suite
from bench.peer import Place, notes, open_peers, peer_rate
from bench.psi_picture import picture, tables
from bench.psi_run import Pair, Run, curve_params, rsa_params

CURVE, RSA = (100_000, 1_000_000), (100_000,)
PEERS = ("openmined", "spu", "pycryptodome")
BESIDE = {"curve": 10_000, "spu": 2_500, "rsa": 1_000}
RATE, GB = "ids/CPU-s", 1e9
LIMIT = 2.0  # GB, of all processes of a party
NEW = 100  # one id in so many is new in the second night


@contextmanager
def cases(
    curve: Sequence[int] = CURVE, rsa: Sequence[int] = RSA, beside: Mapping[str, int] = BESIDE,
    place: Place | None = None,
) -> Iterator[Suite]:  # fmt: skip
    """Yield the cases for these numbers of ids a side."""
    with open_peers(place, PEERS) as (peers, found), tempfile.TemporaryDirectory() as folder:
        runs = Runs(Path(folder))
        ours, signed = runs.turn("align_ecdh", beside["curve"]), runs.turn("align_rsa", beside["rsa"])
        openmined = peer_rate(peers, "openmined.psi", n=beside["curve"])
        spu = peer_rate(peers, "spu.ecdh_sound", n=beside["spu"])
        pycryptodome = peer_rate(peers, "pycryptodome.psi", ids=beside["rsa"])
        listed = [
            Case("align_ecdh", "openmined-psi", RATE, ours, openmined, ">= 1.6"),
            Case("align_ecdh", "spu ECDH, sound", RATE, ours, spu, ">= 4"),
            Case("align_rsa", "pycryptodome", RATE, signed, pycryptodome, ">= 1.2"),
            *_sizes(runs, "align_ecdh", curve), *_sizes(runs, "align_rsa", rsa), *(_second(runs, n) for n in rsa),
        ]  # fmt: skip
        sizes = {"beside peers, in turn": dict(beside), "once": {"align_ecdh": [*curve], "align_rsa": [*rsa]}}
        header = {"psi": {"bits": BITS, "ids a side": sizes, "peers": found, "runs": runs.documents}}
        yield Suite(listed, header, notes(found), lambda _: tables(runs.done), lambda _, path: picture(runs.done, path))


class Runs:
    """Alignments of one benchmark; those that take minutes happen once, whoever asks."""

    def __init__(self, root: Path) -> None:
        """Keep the nodes' directories below `root`."""
        self._root, self._pairs, self._kept = root, dict[str, Pair](), dict[tuple[str, int, int], Run]()
        self.done: list[Run] = []
        self.documents: list[dict[str, Any]] = []

    def turn(self, component: str, n: int) -> Figure:
        """Return f() = ids a CPU-second of a run of its own: all ids new, the RSA key that of the turn before."""
        turns = iter(range(1 << 30))
        return lambda: n / self._run(component, n, f"turns of {component}", 2 * n * next(turns)).cpu_seconds

    def night(self, component: str, n: int, number: int = 1) -> Run:
        """Return the run of a night, the same whenever it is asked for; the second one comes after the first."""
        key = component, n, number
        if key not in self._kept:
            self._kept[key] = self._run(component, n, f"{component} {n}", (number - 1) * max(1, n // NEW), number)
        return self._kept[key]

    def _run(self, component: str, n: int, pair: str, first: int, night: int = 1) -> Run:
        if pair not in self._pairs:
            self._pairs[pair] = Pair(self._root / pair.replace(" ", "_"))
        params = {"align_ecdh": curve_params, "align_rsa": rsa_params}[component](n)
        run = self._pairs[pair].align(component, n, params, first, night)
        self.done.append(run)
        self.documents.append(run.document())
        return run


def _sizes(runs: Runs, component: str, sizes: Sequence[int]) -> Iterator[Case]:
    """Yield the cases of each size; CPU for an id is compared with that of the smallest."""
    for n in sizes:
        name, run = f"{component}, {n:,} ids a side", _later(runs, component, n)
        yield Case(name, "", RATE, lambda run=run, n=n: n / run().cpu_seconds, None, once=True)  # type: ignore[misc]
        yield Case(f"{name}: memory", f"limit of {LIMIT:g} GB", "GB", lambda run=run: run().memory / GB,  # type: ignore[misc]
                   lambda: LIMIT, "<= 1", once=True)  # fmt: skip
        if n > min(sizes):
            yield Case(f"{name}: CPU", f"{min(sizes):,} ids", "s/million", _per_million(run),
                       _per_million(_later(runs, component, min(sizes))), "<= 1.2", once=True)  # fmt: skip


def _second(runs: Runs, n: int) -> Case:
    name = f"align_rsa, {n:,} ids a side: second night, 1 % new"
    return Case(
        name, "first night", "CPU-s", lambda: runs.night("align_rsa", n, 2).cpu_seconds,
        lambda: runs.night("align_rsa", n).cpu_seconds, "<= 0.03", once=True,
    )  # fmt: skip


def _later(runs: Runs, component: str, n: int) -> Callable[[], Run]:
    return lambda: runs.night(component, n)


def _per_million(run: Callable[[], Run]) -> Figure:
    return lambda: run().cpu_seconds / run().ids * 1e6
