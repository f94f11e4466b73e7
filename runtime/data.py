"""Read a party's data set as it lies there: every column is text, so that no id becomes a number on the way."""

from __future__ import annotations

import hashlib

import pyarrow as pa
from pyarrow import csv

from base.errors import DataError
from runtime.party import DataSet, Home


def read_data_set(home: Home, name: str) -> pa.Table:
    """Return the data set `name` with all columns as text; an empty field is null.

    Raises `DataError` for a missing file, another encoding than UTF-8, or rows with another number of fields.
    """
    entry = _entry(home, name)
    path = home.root / entry.path
    where = f"{home.party}, data set {name}"
    try:
        with path.open("rb") as file:
            header = file.readline().decode("utf-8-sig").rstrip("\r\n")
        columns = [column.strip().strip('"') for column in header.split(entry.delimiter)]
        return csv.read_csv(
            path,
            read_options=csv.ReadOptions(column_names=columns, skip_rows=1, use_threads=False),
            parse_options=csv.ParseOptions(delimiter=entry.delimiter),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(columns, pa.string()), strings_can_be_null=True, null_values=[""]
            ),
        )
    except FileNotFoundError:
        raise DataError(
            "the file of a data set is missing", where=where, remedy="see data_sets in party.yaml"
        ) from None
    except (UnicodeDecodeError, pa.ArrowInvalid) as error:
        found = "another number of fields in a row" if "columns" in str(error) else "bytes that are not UTF-8"
        remedy = "store the file as UTF-8 with one header line"
        raise DataError(
            "a data set is not clean CSV", expected="UTF-8 CSV", found=found, where=where, remedy=remedy
        ) from None


def snapshot_digest(home: Home, name: str) -> str:
    """Return the SHA-256 of the file of a data set, read in pieces."""
    path = home.root / _entry(home, name).path
    if not path.is_file():
        raise DataError("the file of a data set is missing", where=f"{home.party}, data set {name}")
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
