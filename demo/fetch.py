"""MovieLens-100K from public places: fetched at set-up, checked by SHA-256, unpacked, never imported, never shipped.

Two routes to the same 100,000 ratings: the wheel of recbole 1.2.1, which carries the data as an example, and the
official archive of GroupLens. Licence: research use, acknowledgement, no redistribution (docs/demo_data.md).
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import urllib.request
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from base.errors import AccordError, DataError, EnvironmentMissing

WHEEL = "recbole-1.2.1-py3-none-any.whl"
WHEEL_SHA256 = "9c9948202011f37eb0a7c6768129313f00d6403ad221ec940d5e2d5d5f33a407"
ARCHIVE_URL = "https://files.grouplens.org/datasets/movielens/ml-100k.zip"
ARCHIVE_MD5 = "0e33842e24a9c977be4e0107933c0723"  # published by GroupLens
ARCHIVE_SHA256 = "50d2a982c66986937beb9ffb3aa76efe955bf3d5c6b761f4e3a7cd717c6a3229"
GENRES = (
    "unknown", "action", "adventure", "animation", "childrens", "comedy", "crime", "documentary", "drama", "fantasy",
    "film_noir", "horror", "musical", "mystery", "romance", "sci_fi", "thriller", "war", "western",
)  # fmt: skip
_INSIDE = "recbole/dataset_example/ml-100k/ml-100k."


@dataclass(frozen=True)
class Raw:
    """A data set before it is shared out."""

    ratings: np.ndarray  # (n, 4) int64: person, item, rating 1..5, seconds since 1970
    people: list[tuple[int, int, str, str, str]]  # person, age, sex, occupation, zip
    items: list[tuple[int, str, tuple[int, ...]]]  # item, title, one flag for each of GENRES


def from_wheel(cache: Path) -> Raw:
    """Read the three ml-100k files inside the wheel; the package itself is neither installed nor imported."""
    path = cache / WHEEL
    if not path.is_file():
        _pip_download(cache)
    _check(path, "sha256", WHEEL_SHA256)
    with zipfile.ZipFile(path) as wheel:
        inter, user, item = (wheel.read(_INSIDE + name).decode() for name in ("inter", "user", "item"))
    people = [row.split("\t") for row in user.splitlines()[1:]]
    return Raw(_ratings(inter.splitlines()[1:]), _people(people), [_atomic_item(row) for row in item.splitlines()[1:]])


def from_archive(cache: Path) -> Raw:
    """Read the official archive, fetched from GroupLens when it is not in the cache."""
    path = cache / "ml-100k.zip"
    if not path.is_file():
        _download(ARCHIVE_URL, path)
    _check(path, "md5", ARCHIVE_MD5)
    _check(path, "sha256", ARCHIVE_SHA256)
    with zipfile.ZipFile(path) as archive:
        data, user, item = (archive.read(f"ml-100k/u.{name}").decode("latin-1") for name in ("data", "user", "item"))
    return parse_official(data, user, item)


def parse_official(data: str, user: str, item: str) -> Raw:
    """Read the texts of u.data, u.user and u.item."""
    items = [row.split("|") for row in item.splitlines()]
    return Raw(
        _ratings(data.splitlines()),
        _people([row.split("|") for row in user.splitlines()]),
        [(int(row[0]), row[1], tuple(int(flag) for flag in row[5:24])) for row in items],
    )


def movielens(cache: Path) -> Raw:
    """Return MovieLens-100K by the first route that works; `EnvironmentMissing` tells why each failed."""
    failed = []
    for route in (from_wheel, from_archive):
        try:
            return route(cache)
        except AccordError as error:
            failed.append(f"{route.__name__}: {error.what}")
    raise EnvironmentMissing(
        "MovieLens-100K cannot be fetched",
        found="; ".join(failed),
        where=str(cache),
        remedy="allow one of the two downloads, put the file into this directory, or use --data synthetic",
    )


def _pip_download(cache: Path) -> None:
    cache.mkdir(parents=True, exist_ok=True)
    options = ["--no-deps", "--only-binary=:all:", "--quiet", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(cache), "recbole==1.2.1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        found = (done.stderr.strip().splitlines() or ["no message"])[-1][:200]
        raise EnvironmentMissing("pip cannot download the wheel of recbole 1.2.1", found=found)


def _download(url: str, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:  # the URL is a constant of this module
            data = answer.read(16 * 2**20)
    except OSError as error:
        raise EnvironmentMissing("the official archive cannot be downloaded", found=type(error).__name__) from error
    draft = path.with_suffix(".part")
    draft.write_bytes(data)
    draft.replace(path)


def _check(path: Path, algorithm: str, expected: str) -> None:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, algorithm).hexdigest()
    if found != expected:
        raise DataError(
            f"{path.name} is not the file that was published",
            expected=f"{algorithm} {expected}",
            found=found,
            where=str(path),
            remedy="delete the file and fetch it again",
        )


def _ratings(rows: list[str]) -> np.ndarray:
    return np.array([[int(float(cell)) for cell in row.split("\t")] for row in rows], dtype=np.int64)


def _people(rows: list[list[str]]) -> list[tuple[int, int, str, str, str]]:
    return [(int(user), int(age), sex, occupation, code) for user, age, sex, occupation, code in rows]


def _atomic_item(row: str) -> tuple[int, str, tuple[int, ...]]:
    number, title, year, names = row.split("\t")
    genres = {name.lower().replace("'", "").replace("-", "_") for name in names.split()}
    return int(number), f"{title} ({year})" if year else title, tuple(int(genre in genres) for genre in GENRES)
