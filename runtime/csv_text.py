"""Read a CSV file as text: every column a string, an empty field a null, and a clear word about a file that is not CSV.

Quotes (`"`, doubled inside) may hold delimiters and line breaks. Blank lines are no rows. The file is read in blocks,
so what is needed beside the table itself is small.

No error holds anything of the file but lengths and places. What a parser says about a bad row quotes the row, so no
error is raised while one of those is being handled: it would hang on the new one as its context.
"""

from __future__ import annotations

import codecs
import csv
import re
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, NoReturn

import pyarrow as pa
from pyarrow import csv as arrow_csv

from base.errors import DataError

BLOCK = 1 << 20  # bytes read at a time; also the longest row, since an open quote would else take the rest of the file
_DELIMITERS = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a bar"}
_FIELDS = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_csv_text(path: Path, delimiter: str, where: str) -> pa.Table:
    """Return the table of a UTF-8 file with one header line; `where` is what errors call the file.

    Raises `DataError` for an encoding other than UTF-8, a header or rows that do not fit, and an empty file.
    """
    head = _head(path, where)
    names = _names(head, path, delimiter, where)
    if not re.search(rb"[\r\n]", head):  # a header and not even the end of its line
        return pa.table({name: pa.array([], pa.string()) for name in names})
    found = _parsed(path, names, delimiter)
    if isinstance(found, str):
        _explain(found, path, where)
    _closed(found, path, where)
    return found


def _parsed(path: Path, names: list[str], delimiter: str) -> pa.Table | str:
    """Return the table, or what the parser has to say."""
    try:
        return arrow_csv.read_csv(
            path,
            read_options=arrow_csv.ReadOptions(column_names=names, skip_rows=1, use_threads=False, block_size=BLOCK),
            parse_options=arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True, null_values=[""]
            ),
        )
    except pa.ArrowInvalid as error:
        return str(error)


def _head(path: Path, where: str) -> bytes:
    """Return the first line and its end, at most a block."""
    with path.open("rb") as file:
        head = file.readline(BLOCK)
    if not head.strip():
        _refuse(where, "a line of column names", "an empty file" if not head else "an empty first line")
    if head.startswith(_UTF16) or b"\0" in head:
        _refuse(where, "UTF-8", "NUL bytes in the first line, as in UTF-16", "store the file as UTF-8")
    line = re.search(rb"[\r\n]", head)
    if line is None and len(head) == BLOCK:
        _refuse(where, "a line of column names", f"no end of line in {BLOCK} bytes", "check that the file is CSV")
    return head[: line.end()] if line else head


def _names(head: bytes, path: Path, delimiter: str, where: str) -> list[str]:
    """Return the column names; a name is stripped of blanks."""
    if _bad_byte(BytesIO(head)):
        _not_utf8(path, where)
    names = _fields(head.decode("utf-8-sig").rstrip("\r\n"), delimiter)
    if not names:
        _refuse(where, "a line of column names", "a quote that is not closed in the first line")
    other = [name for char, name in _DELIMITERS.items() if char != delimiter and char in names[0]]
    if len(names) == 1 and other:
        expected = _DELIMITERS.get(delimiter, "the delimiter of party.yaml")
        _refuse(where, f"{expected} between columns", f"one column name that holds {other[0]}",
                "set delimiter of the data set in party.yaml")  # fmt: skip
    for place, name in enumerate(names):
        if not name:
            _refuse(where, "a name for every column", f"no name for column {place + 1} of {len(names)}",
                    "name the column, or take the delimiter away from the end of the line")  # fmt: skip
        if name in names[:place]:
            _refuse(where, "different column names", f"one name for columns {names.index(name) + 1} and {place + 1}")
    return names


def _fields(line: str, delimiter: str) -> list[str]:
    """Return the fields of a line without blanks around them; none if its quotes are wrong."""
    try:
        (fields,) = csv.reader([line], delimiter=delimiter, strict=True)
    except csv.Error:
        return []
    return [field.strip() for field in fields]


def _explain(error: str, path: Path, where: str) -> NoReturn:
    """Raise for what the parser found."""
    if "UTF8" in error:
        _not_utf8(path, where)
    if fields := _FIELDS.search(error):
        row, expected, found = fields.groups()
        _refuse(where, f"{expected} fields in each row", f"{found} in row {row} (the header is row 1)",
                "quote fields that hold the delimiter or a quote; take extra delimiters away")  # fmt: skip
    if "straddling" in error:
        _refuse(where, f"rows of at most {BLOCK} bytes", "a longer one, or a quote that is never closed")
    _refuse(where, "UTF-8 CSV with one header line", "a file that cannot be parsed")


def _closed(table: pa.Table, path: Path, where: str) -> None:
    """Refuse a quote that is open at the end of the file: its field holds every row after it."""
    last = table.column(table.num_columns - 1)
    text = last[-1].as_py() if len(last) else None
    if text is None or not ("\n" in text or "\r" in text):
        return
    with path.open("rb") as file:
        file.seek(-min(BLOCK, path.stat().st_size), 2)
        end = file.read().rstrip(b"\r\n")
    if not end.endswith(b'"'):
        _refuse(
            where, "closed quotes", f"a quote opened in row {len(table) + 1} (the header is row 1) and never closed"
        )


def _not_utf8(path: Path, where: str) -> NoReturn:
    """Raise with the place of the first byte that is not UTF-8."""
    with path.open("rb") as file:
        place = _bad_byte(file)
    found = f"a byte that is not, in line {place[0]}, at offset {place[1]}" if place else "bytes that are not"
    _refuse(where, "UTF-8", found, "store the file as UTF-8")


def _bad_byte(file: BinaryIO) -> tuple[int, int] | None:
    """Return (line from 1, offset from 0) of the first byte that is not UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    read, line = 0, 1
    piece = b"a first piece"
    while piece:
        piece = file.read(BLOCK)
        try:
            decoder.decode(piece, final=not piece)
        except UnicodeDecodeError as error:  # `object` begins with what was left of the piece before
            start = error.start - (len(error.object) - len(piece))
            return line + piece[: max(start, 0)].count(b"\n"), read + start
        read, line = read + len(piece), line + piece.count(b"\n")
    return None


def _refuse(where: str, expected: str, found: str, remedy: str = "repair the file and run the step again") -> NoReturn:
    raise DataError("a data set is not clean CSV", expected=expected, found=found, where=where, remedy=remedy)
