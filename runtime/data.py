"""Read a party's data set as it lies there: every column is text, so that no id becomes a number on the way."""

from __future__ import annotations

import hashlib
import os

import pyarrow as pa

from base.errors import DataError
from runtime.csv_text import read_csv_text
from runtime.party import DataSet, Home


def read_data_set(home: Home, name: str) -> pa.Table:
    """Return the data set `name` with all columns as text; an empty field is null.

    Raises `DataError` for a file that is missing, cannot be opened, or is not UTF-8 CSV (`runtime.csv_text`).
    """
    entry = _entry(home, name)
    where = f"{home.party}, data set {name}"
    try:
        return read_csv_text(home.root / entry.path, entry.delimiter, where)
    except FileNotFoundError:
        raise _missing(home, name) from None
    except OSError as error:
        raise DataError(
            "the file of a data set cannot be read", expected="a readable file", found=os.strerror(error.errno or 0),
            where=where, remedy="see data_sets in party.yaml and the rights of the file",
        ) from None  # fmt: skip


def snapshot_digest(home: Home, name: str) -> str:
    """Return the SHA-256 of the file of a data set, read in pieces."""
    path = home.root / _entry(home, name).path
    if not path.is_file():
        raise _missing(home, name)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _missing(home: Home, name: str) -> DataError:
    # Peers read this error: it names the entry of party.yaml, not the path.
    return DataError(
        "the file of a data set is missing",
        expected=f"a CSV file where data_sets.{name} in party.yaml says",
        found="no file there",
        where=f"{home.party}, data set {name}",
        remedy="put the file there, or correct data_sets in party.yaml",
    )


def _entry(home: Home, name: str) -> DataSet:
    if name not in home.conf.data_sets:
        raise DataError(
            "the party has no such data set",
            expected=", ".join(home.conf.data_sets) or "none",
            found=name,
            where=home.party,
            remedy="add it under data_sets in party.yaml, or correct the pipeline",
        )
    return home.conf.data_sets[name]
