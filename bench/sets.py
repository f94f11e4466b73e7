"""Public data sets as the tables of three banks; the folder that holds them is named by ACCORD_DATA.

    ml-100k, ml-1m   ratings with their times; genres of the items
    lastfm-2k        who listened to which artist, without those of fewer than 5; no times, so the order is drawn

They may not be passed on (licences: README.md of each folder), so none is in this repository.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from base.errors import EnvironmentMissing

BANKS = ("bank_a", "bank_b", "bank_c")
LEAST = 5  # users of an item and items of a user in lastfm-2k
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Raw:
    """A data set before it is shared out: rows (n,) of users and items by number, and the catalogue."""

    user: Ints
    item: Ints
    rating: Ints
    time: Ints | None  # seconds; None where the source has none
    items: Ints  # numbers of all items
    attributes: Mapping[str, NDArray[np.float32]]  # of each item, by name


def banks(name: str, seed: int) -> dict[str, dict[str, pa.Table]]:
    """Return `ratings` and `catalogue` of each of `BANKS`, a third of the users each, drawn by seed."""
    raw, rng = SETS[name](_folder(name)), np.random.default_rng([seed, 0xBA2C])
    numbers, user = np.unique(raw.user, return_inverse=True)
    bank = rng.permutation(np.arange(len(numbers)) % len(BANKS))[user]
    time = rng.permutation(len(user)) if raw.time is None else raw.time
    catalogue = pa.table({"item_id": _ids(raw.items), **raw.attributes})
    columns = {"user_id": _ids(raw.user), "item_id": _ids(raw.item)}
    columns |= {"rating": pa.array(raw.rating, pa.float32()), "timestamp": pa.array(time, pa.int64())}
    rows = pa.table(columns)
    return {each: {"ratings": rows.filter(pa.array(bank == n)), "catalogue": catalogue} for n, each in enumerate(BANKS)}


def _ml_100k(folder: Path) -> Raw:
    rows = np.array([line.split("\t") for line in _lines(folder / "u.data.gz")], np.int64)
    items = [line.split("|") for line in _lines(folder / "u.item.gz")]
    flags = np.array([item[5:24] for item in items], np.float32)
    genres = {f"genre_{g}": flags[:, g] for g in range(flags.shape[1])}
    return Raw(rows[:, 0], rows[:, 1], rows[:, 2], rows[:, 3], np.array([int(item[0]) for item in items]), genres)


def _ml_1m(folder: Path) -> Raw:
    rows = np.array([line.split("::") for line in _lines(folder / "ratings.dat.gz")], np.int64)
    rated = set(rows[:, 1].tolist())  # the figures to compare with know no other items
    items = [item for line in _lines(folder / "movies.dat.gz") if int((item := line.split("::"))[0]) in rated]
    names = sorted({genre for item in items for genre in item[2].split("|")})
    genres = {f"genre_{g}": np.array([g in item[2].split("|") for item in items], np.float32) for g in names}
    return Raw(rows[:, 0], rows[:, 1], rows[:, 2], rows[:, 3], np.array([int(item[0]) for item in items]), genres)


def _lastfm_2k(folder: Path) -> Raw:
    rows = np.array([line.split("\t") for line in _lines(folder / "user_artists.dat.gz")[1:]], np.int64)
    while True:
        user, item = rows[:, 0], rows[:, 1]
        enough = (np.bincount(user)[user] >= LEAST) & (np.bincount(item)[item] >= LEAST)
        if enough.all():
            return Raw(user, item, rows[:, 2], None, np.unique(item), {})
        rows = rows[enough]


SETS: Mapping[str, Callable[[Path], Raw]] = {"ml-100k": _ml_100k, "lastfm-2k": _lastfm_2k, "ml-1m": _ml_1m}


def _ids(numbers: Ints) -> pa.Array:
    return pa.array([f"{number:06d}" for number in numbers.tolist()])


def _lines(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="latin-1", newline="\n") as file:
        return file.read().splitlines()


def _folder(name: str) -> Path:
    root = os.environ.get("ACCORD_DATA")
    if not root or not (Path(root) / name).is_dir():
        raise EnvironmentMissing(
            f"the public data set {name} is not here", expected=f"a folder {name} below ACCORD_DATA",
            found="no ACCORD_DATA" if not root else "no such folder",
            remedy="set ACCORD_DATA to a folder that holds it, or choose others with --data",
        )  # fmt: skip
    return Path(root) / name
