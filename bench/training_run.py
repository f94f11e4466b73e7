"""Three banks and an aggregator that train `horizontal_mf`, each in a process of its own, over mutual TLS on loopback.

Time is that of the whole step at the party that takes longest: keys, all rounds, checkpoints on disk. Bytes are those
of all bodies with header, end marker and receipt, before TLS. Every run is checked: all banks end with one item side,
and the same training has the same, bit by bit, under every protection.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import feather

from base.canonical import digest
from base.errors import EnvironmentMissing
from bench.crypto_meter import check
from bench.processes import Nodes
from bench.sets import BANKS, banks

AGGREGATOR = "bureau"
MIB = 2**20
ROLES = {"data_holder": BANKS, "aggregator": (AGGREGATOR,)}
COMMAND = "from bench.training_party import main; main()"
SHAPES = {"ml-100k": (943, 1682, 100_000), "ml-1m": (6040, 3706, 1_000_209)}  # users, items, ratings


@dataclass(frozen=True)
class Share:
    """What a bank trains on: rows (n,) with numbers of its own users and of the items of all."""

    user: np.ndarray
    item: np.ndarray
    rating: np.ndarray
    users: int
    items: int


@dataclass(frozen=True)
class Job:
    """A data set, shared out, and how it is trained on."""

    name: str
    data: str  # where it came from
    shares: Mapping[str, Share]
    params: Mapping[str, Any]

    @property
    def mu(self) -> float:
        """Mean of all ratings."""
        return float(np.concatenate([share.rating for share in self.shares.values()]).mean())


@dataclass(frozen=True)
class Run:
    """One training; `cpu` is by party."""

    job: str
    protection: str
    wall: float  # s
    cpu: Mapping[str, float]  # s
    bytes: int  # that all parties sent, with what stands around the bodies
    rows: float  # that are shared after the last round
    saturated: float  # values that were clipped in the last round, at the first bank
    digest: str  # of the shared item side
    memory: Mapping[str, list[int]]  # largest resident size of a bank in bytes, from its start to the end of each round

    @property
    def cpu_seconds(self) -> float:
        """Of all parties."""
        return sum(self.cpu.values())

    @property
    def mib(self) -> float:
        """MiB that all parties sent."""
        return self.bytes / MIB

    def document(self) -> dict[str, Any]:
        """Return what the JSON file holds of it."""
        return asdict(self)


class Trainer:
    """The nodes, and the jobs' tables on disk."""

    def __init__(self, root: Path) -> None:
        """Make keys and certificates below `root`."""
        self._root, self._nodes, self._digests = root, Nodes(root, ROLES, COMMAND), dict[str, str]()

    def train(self, job: Job, protection: str) -> Run:
        """Train once; `StateError` when the model is not the one that it has to be."""
        tasks = {party: {"seed": 1, "label": "", **self._tables(job, party)} for party in self._nodes.parties}
        told = self._nodes.run("horizontal_mf", {**job.params, "protection": protection}, tasks)
        found = {told[bank]["digest"] for bank in BANKS}
        check(found == {self._digests.setdefault(job.name, min(found))})
        metrics = told[BANKS[0]]["metrics"]
        return Run(
            job.name, protection, max(each["wall"] for each in told.values()),
            {party: each["cpu"] for party, each in told.items()},
            sum(each["bytes"] + each["around"] for each in told.values()),
            metrics["shared_rows"], metrics["saturated"], self._digests[job.name],
            {bank: told[bank]["memory"] for bank in BANKS},
        )  # fmt: skip

    def _tables(self, job: Job, party: str) -> dict[str, Any]:
        """Return where the tables of a bank are, written on first use; nothing for the aggregator."""
        if party == AGGREGATOR:
            return {}
        share, folder = job.shares[party], self._root / "tables" / job.name.replace(" ", "_") / party
        catalogue = [f"{i:06}" for i in range(share.items)]
        ratings = pa.table({"user": share.user, "item": share.item, "rating": share.rating})
        tables = {
            "train": ratings,
            "validation": ratings.slice(0, 0),
            "users": pa.table({"user_id": [f"{u:06}" for u in range(share.users)]}),
            "items": pa.table({"item_id": catalogue}),
        }
        if not folder.exists():
            folder.mkdir(parents=True)
            for name, table in tables.items():
                feather.write_feather(table, folder / name, compression="uncompressed")
        paths = {name: str(folder / name) for name in tables}
        return {"ratings": paths, "statistics": {"mean": job.mu, "catalogue": digest(catalogue)}}


def shared_out(name: str) -> tuple[str, dict[str, Share]]:
    """Return (origin, share of each bank) of a data set below ACCORD_DATA, else of generated ratings of its shape."""
    try:
        found = banks(name, seed=1)
    except EnvironmentMissing as error:
        return f"generated in the shape of {name}: {error.found}", generated(*SHAPES[name])
    return f"{name}, all ratings", {bank: _indexed(tables) for bank, tables in found.items()}


def generated(users: int, items: int, ratings: int) -> dict[str, Share]:
    """Return ratings whose popularity falls as 1 / (rank + 30) and whose activity is log-normal."""
    rng = np.random.default_rng(1)
    popularity, activity = 1 / (np.arange(items) + 30.0), rng.lognormal(0, 1, users)
    weight = np.outer(activity / activity.sum(), popularity / popularity.sum()).ravel()
    user, item = np.divmod(rng.choice(weight.size, ratings, replace=False, p=weight), items)
    rating = rng.integers(1, 6, ratings)
    found = dict[str, Share]()
    for n, bank in enumerate(BANKS):
        mine = user % len(BANKS) == n
        found[bank] = _share(user[mine] // len(BANKS), item[mine], rating[mine], items)
    return found


def _indexed(tables: Mapping[str, pa.Table]) -> Share:
    ratings, catalogue = tables["ratings"], np.sort(tables["catalogue"]["item_id"].to_numpy())
    _, user = np.unique(ratings["user_id"].to_numpy(), return_inverse=True)
    item = np.searchsorted(catalogue, ratings["item_id"].to_numpy())
    return _share(user, item, ratings["rating"].to_numpy(), len(catalogue))


def _share(user: np.ndarray, item: np.ndarray, rating: np.ndarray, items: int) -> Share:
    columns = user.astype(np.int32), item.astype(np.int32), rating.astype(np.float32)
    return Share(*columns, int(user.max()) + 1, items)
