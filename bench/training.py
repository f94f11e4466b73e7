"""Horizontal training, each party a process of its own: what protection costs, and what a round costs beside a loop.

    protection   ML-1M, k = 32: `secagg` and `paillier` (3072 bits) beside the same training in the clear; values take
                 lanes of 16 bits in all three. With 8 local epochs as `horizontal_mf` has by default, and with one,
                 where protection has least to hide behind
    a round      ML-100K, three silos, at least 55,506 shared values, one local epoch: seconds a round with `secagg`,
                 keys and the first round included, beside a bare numpy loop in one process. A row needs two raters;
                 k = 37 makes up for the rows that have none of that
    a node       CPU of its start beyond imports
    a sum        the aggregator's CPU for a party, up to 32 parties in threads of one process
    compression  RMSE and bytes with short lanes and rows in turn (`training_compression`), sums in the open
    a slow bank  seconds of a round (`training_slow`), sums in the open

With --large 20 million ratings instead, and the memory that they take (`training_large`). The local step is numpy's: no
compiler of Python is among what the product needs, so there is no other to compare with.

A Paillier ciphertext is twice as long as what it holds, so bytes cannot be below twice those of the same lanes in the
clear; beside them stands what all items take as float32, which is how frameworks send them. Parties share the
cores of one machine, with whatever else runs there (`load` in the header), so the clock sees their work one after the
other; CPU seconds of all parties stand beside it. Without ACCORD_DATA ratings are made up.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from bench.frame import Case, Figure, Suite
from bench.sets import BANKS
from bench.training_compression import Curves, compression, earlier
from bench.training_curve import page, picture
from bench.training_floor import VALUES, lone_node, loop, start_cpu, sum_cpu
from bench.training_large import Large, large
from bench.training_open import split
from bench.training_run import MIB, Job, Run, Trainer, shared_out
from bench.training_slow import Paces, paces

KEY_BITS = 3072
TARGETS = {"secagg": "<= 1.15", "secagg, bytes": "<= 1.05", "paillier": "<= 15", "paillier, bytes": "<= 1.5"}
TOLD = ("cpu_seconds", "mib")
ROUND_LIMIT, START_LIMIT = 0.3, 1.0  # s, CPU-s
LARGE = {"embedding_size": 32, "rounds": 2, "key_bits": KEY_BITS}
ONE = {**LARGE, "local_epochs": 1}
SHORT = {**ONE, "rounds": 4, "row_share": 0.3, "lane": 10}  # its first sum, of counts, weighs less in more rounds
PEERS = {"embedding_size": 37, "rounds": 10, "local_epochs": 1, "min_raters_per_item": 2}


@dataclass(frozen=True)
class Jobs:
    """What is trained, and how many parties a sum has at the ends of its line."""

    default: Job
    one: Job
    peers: Job
    short: Job
    parties: tuple[int, ...] = (4, 8, 16, 32)


def published() -> Jobs:
    """Return the jobs whose figures are published."""
    (origin, large), (small_origin, small) = shared_out("ml-1m"), shared_out("ml-100k")
    return Jobs(
        Job("ML-1M, 8 local epochs", origin, large, LARGE), Job("ML-1M, one local epoch", origin, large, ONE),
        Job("ML-100K, one local epoch", small_origin, small, PEERS),
        Job("ML-1M, one local epoch, 30% of rows in turn, 10 bits", origin, large, SHORT),
    )  # fmt: skip


@contextmanager
def cases(jobs: Jobs | None = None, resume: Sequence[Path] = (), large: bool = False) -> Iterator[Suite]:
    """Yield the cases; trainings in the JSON files `resume` are not repeated for the compression."""
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(Path(folder) / "nodes")
        yield _many(trainer) if large else _all(jobs or published(), trainer, Path(folder), resume)


def _many(trainer: Trainer) -> Suite:
    """Return the cases with 20 million ratings."""
    found = Large(trainer)
    return Suite([*large(found)], found.header)


def _all(jobs: Jobs, trainer: Trainer, folder: Path, resume: Sequence[Path]) -> Suite:
    runs, home = Runs(trainer), lone_node(folder / "start")
    listed = [
        *_protection(runs, jobs.default, TARGETS), *_protection(runs, jobs.one, {}), *_short(runs, jobs.short),
        *_round(runs, jobs.peers),
    ]  # fmt: skip
    start = partial(start_cpu, home)
    listed.append(
        Case("start of a node, beyond imports", "limit of 1 CPU-s", "CPU-s", start, _limit(START_LIMIT), "<= 1")
    )
    listed += _sums(jobs.parties)
    described = [_described(job) for job in (jobs.default, jobs.one, jobs.peers, jobs.short)]
    header: dict[str, Any] = {"load": os.getloadavg(), "local step": "numpy", "jobs": described, "runs": runs.documents}
    if os.environ.get("ACCORD_DATA") is None:  # made-up ratings have no RMSE to speak of
        return Suite(listed, {"training": header}, ["compression and a slow bank: NOT MEASURED without ACCORD_DATA"])
    read = [json.loads(file.read_text(encoding="utf-8"))["training"]["compression"] for file in resume]
    curves, slow = Curves(found=earlier([each for file in read for each in file])), Paces(split("ml-100k", 1))
    header |= {"compression": curves.documents, "slow": slow.documents}
    listed += [*paces(slow, "ml-100k"), *compression(curves)]
    return Suite(listed, {"training": header}, picture=lambda _, path: picture(curves, path), page=page(curves))


@dataclass
class Runs:
    """The trainings of a benchmark; the last of a job and a protection is the one of which is told what it took."""

    trainer: Trainer
    last: dict[tuple[str, str], Run] = field(default_factory=dict)
    documents: list[dict[str, Any]] = field(default_factory=list)

    def seconds(self, job: Job, protection: str) -> Figure:
        """Return f() = seconds of a training of its own."""

        def figure() -> float:
            run = self.last[job.name, protection] = self.trainer.train(job, protection)
            self.documents.append(run.document())
            return run.wall

        return figure

    def told(self, job: Job, protection: str, of: str) -> float:
        """Return what the last training took: `cpu_seconds` of all parties, or `mib` that they sent."""
        return float(getattr(self.last[job.name, protection], of))


def float32_mib(job: Job) -> float:
    """Return MiB of b and q of all items as float32, to the aggregator and back, of every bank in every round."""
    items = next(iter(job.shares.values())).items
    values = items * (int(job.params["embedding_size"]) + 1) * int(job.params["rounds"])
    return 4 * values * 2 * len(job.shares) / MIB


def _protection(runs: Runs, job: Job, targets: Mapping[str, str]) -> list[Case]:
    """Return the cases of one job; the arm with ciphertexts takes minutes, so it is measured once."""
    plain, secagg, paillier = (runs.seconds(job, name) for name in ("plain", "secagg", "paillier"))
    told = {(name, of): partial(runs.told, job, name, of) for name in ("plain", "secagg", "paillier") for of in TOLD}
    rows: list[tuple[str, str, str, Figure, Figure]] = [
        ("secagg", "plain", "s", secagg, plain),
        ("secagg, CPU", "plain", "CPU-s", told["secagg", "cpu_seconds"], told["plain", "cpu_seconds"]),
        ("secagg, bytes", "plain", "MiB", told["secagg", "mib"], told["plain", "mib"]),
        ("paillier", "plain", "s", paillier, plain),
        ("paillier, CPU", "plain", "CPU-s", told["paillier", "cpu_seconds"], told["plain", "cpu_seconds"]),
        ("paillier, bytes", "plain", "MiB", told["paillier", "mib"], told["plain", "mib"]),
        ("paillier, bytes", "float32, counted", "MiB", told["paillier", "mib"], partial(float32_mib, job)),
    ]
    return [
        Case(f"{job.name}: {what}", peer, unit, ours, theirs, targets.get(what) if peer == "plain" else None,
             once=what.startswith("paillier"))
        for what, peer, unit, ours, theirs in rows
    ]  # fmt: skip


def _short(runs: Runs, job: Job) -> Iterator[Case]:
    """Yield bytes with shared coordinates in short lanes, as they really travel."""
    for name, target in (("secagg", None), ("paillier", "<= 0.2")):
        yield Case(f"{job.name}: {name}", "", "s", runs.seconds(job, name), None, once=True)
        yield Case(f"{job.name}: {name}, bytes", "float32, counted", "MiB", partial(runs.told, job, name, "mib"),
                   partial(float32_mib, job), target, once=True)  # fmt: skip


def _round(runs: Runs, job: Job) -> list[Case]:
    def each(seconds: Figure) -> Figure:
        return lambda: seconds() / job.params["rounds"]

    secagg, plain, bare = each(runs.seconds(job, "secagg")), each(runs.seconds(job, "plain")), each(partial(loop, job))
    return [
        Case(f"{job.name}: a round, secagg", "limit of 0.3 s", "s", secagg, _limit(ROUND_LIMIT), "<= 1"),
        Case(f"{job.name}: a round, secagg", "plain", "s", secagg, plain),
        Case(f"{job.name}: a round, secagg", "loop in one process", "s", secagg, bare),
    ]


def _sums(parties: tuple[int, ...]) -> Iterator[Case]:
    """Yield the aggregator's CPU for a party, beside that with the fewest; a sum that is linear has the same."""
    few, *more = (partial(sum_cpu, n) for n in parties)
    for n, each in zip(parties[1:], more, strict=True):
        yield Case(
            f"aggregator of {n} parties, a party and sum of {VALUES:,} values", f"{parties[0]} parties", "CPU-s", each,
            few, "<= 1.2",
        )  # fmt: skip


def _limit(value: float) -> Figure:
    return lambda: value


def _described(job: Job) -> dict[str, Any]:
    sizes = {bank: {"users": job.shares[bank].users, "ratings": len(job.shares[bank].rating)} for bank in BANKS}
    items = next(iter(job.shares.values())).items
    return {"name": job.name, "data": job.data, "items": items, "banks": sizes, "params": dict(job.params)}
