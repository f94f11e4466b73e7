"""What a file can be: each either comes out right or is refused with the place, and no error holds a value of it."""

import resource
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import csv

from base.errors import DataError
from runtime.csv_text import BLOCK
from runtime.data import read_data_set, snapshot_digest
from runtime.party import Home

CANARY = "C0sekret7"
PARTY = """\
party: north_bank
listen: 127.0.0.1:1
advertise: 127.0.0.1:1
feature_specs: specs
clients: {}
peers: {}
data_sets:
  people: {path: people.csv}
  semi: {path: people.csv, delimiter: ";"}
"""


@pytest.fixture
def read(tmp_path: Path) -> Any:
    """`read(bytes of the file, data set)` -> columns as lists."""
    (tmp_path / "party.yaml").write_text(PARTY)

    def run(content: bytes, name: str = "people") -> dict[str, list[str | None]]:
        (tmp_path / "people.csv").write_bytes(content)
        found = read_data_set(Home(tmp_path), name)
        assert all(str(field.type) == "string" for field in found.schema)
        return found.to_pydict()  # type: ignore[no-any-return]

    return run


ROWS = {"id": ["007", None], "age": ["4", "5"]}


@pytest.mark.parametrize(
    "content",
    [
        b"id,age\n007,4\n,5\n",
        b"id,age\n007,4\n,5",
        b"id,age\r\n007,4\r\n,5\r\n",
        b"id,age\r007,4\r,5\r",
        b"\xef\xbb\xbfid,age\n007,4\n,5\n",
        b"\xef\xbb\xbfid,age\r\n007,4\r\n,5\r\n",
        b'"id","age"\n"007","4"\n"","5"\n',
        b" id , age\n007,4\n\n,5\n\n\n",
    ],
    ids=["lf", "no end of line", "crlf", "cr", "bom", "bom crlf", "quoted", "blank lines and blanks in the header"],
)
def test_the_same_rows_in_every_dress(read: Any, content: bytes) -> None:
    assert read(content) == ROWS


def test_quotes_hold_delimiters_quotes_and_line_breaks(read: Any) -> None:
    content = b'id,note\n1,"a, ""b""\nc"\n2,"d\r\ne"\n3,f\n4,"g\nh"\n'
    assert read(content) == {"id": ["1", "2", "3", "4"], "note": ['a, "b"\nc', "d\r\ne", "f", "g\nh"]}


def test_line_breaks_in_quotes_at_the_edge_of_a_block(read: Any) -> None:
    rows = BLOCK // 10
    content = b"id,note\n" + b"".join(b'%07d,"a\nb"\n' % n for n in range(rows))
    assert len(content) > BLOCK
    found = read(content)
    assert found["id"] == [f"{n:07d}" for n in range(rows)]
    assert set(found["note"]) == {"a\nb"}


def test_numbers_stay_text_and_long_ids_whole(read: Any) -> None:
    ids = ["123456789012345678901234567890", "1e5", "0", "NaN", "true", "x" * 5000, "a\x00b", "\u00e9\U0001f600"]
    assert read(("id,age\n" + "".join(f"{i},1\n" for i in ids)).encode())["id"] == ids


@pytest.mark.parametrize(
    ("content", "rows"),
    [(b"id,age\n", 0), (b"id,age", 0), (b"id,age\r\n", 0), (b"id,age\n1,2", 1), (b"id,age\n,\n,\n", 2)],
    ids=["header", "header without end", "header crlf", "one row", "all null"],
)
def test_few_rows(read: Any, content: bytes, rows: int) -> None:
    assert [len(values) for values in read(content).values()] == [rows, rows]


def test_another_delimiter_by_configuration(read: Any) -> None:
    assert read(b'id;age\n007;4\n;"5"\n', "semi") == ROWS


LATIN = f"id,name\n1,{CANARY}\n".encode() + f"2,{CANARY}\u00e9\n".encode("latin-1")


@pytest.mark.parametrize(
    ("content", "expected", "found"),
    [
        (LATIN, "UTF-8", "line 3, at offset 31"),
        (f"id,n\u00e4me\n1,{CANARY}\n".encode("latin-1"), "UTF-8", "line 1, at offset 4"),
        (b"id,name\n1,a\n" * BLOCK + LATIN, "UTF-8", f"line {2 * BLOCK + 3}, at offset {12 * BLOCK + 31}"),
        (b"id,name\n" + b"1" * (BLOCK - 9) + b",\xc3\n2,b\n", "UTF-8", f"line 2, at offset {BLOCK}"),
        (f"id,name\n1,{CANARY}".encode() + b"\xc3", "UTF-8", "line 2, at offset 19"),
        (b"id,name\n" + b"1" * (BLOCK - 10) + b",\xc3" + b"\n2,b\n", "UTF-8", f"line 2, at offset {BLOCK - 1}"),
        (f"id,name\n1,{CANARY}\n".encode("utf-16"), "UTF-8", "as in UTF-16"),
        (f"id,name\n1,{CANARY}\n".encode("utf-16-be"), "UTF-8", "as in UTF-16"),
        (b"", "a line of column names", "an empty file"),
        (f"\n\n{CANARY}\n".encode(), "a line of column names", "an empty first line"),
        (CANARY.encode() * BLOCK, "a line of column names", "no end of line"),
        (f"id,name,\n1,{CANARY},\n".encode(), "a name for every column", "no name for column 3 of 3"),
        (f",name\n1,{CANARY}\n".encode(), "a name for every column", "no name for column 1 of 2"),
        (f"id,name,id\n1,{CANARY},1\n".encode(), "different column names", "one name for columns 1 and 3"),
        (f"{CANARY},a,{CANARY}\n1,2,3\n".encode(), "different column names", "one name for columns 1 and 3"),
        (f"id;name\n1;{CANARY}\n".encode(), "a comma between columns", "holds a semicolon"),
        (f"id\tname\n1\t{CANARY}\n".encode(), "a comma between columns", "holds a tab"),
        (f'id,"na\nme"\n1,{CANARY}\n'.encode(), "a line of column names", "a quote that is not closed"),
        (f"id,name\n1,2\n{CANARY},2,\n".encode(), "2 fields in each row", "3 in row 3"),
        (f"id,name\n1,2\n\n{CANARY}\n".encode(), "2 fields in each row", "1 in row 3"),
        (f'id,name\n1,2\n2,"{CANARY}\n3,4\n5,6\n'.encode(), "closed quotes", "row 3"),
        (f'id\n1\n"{CANARY}\n3\n4\n'.encode(), "closed quotes", "row 3"),
        (f'id\n1\n"{CANARY}\n'.encode() + b"3\n" * BLOCK, "rows of at most", "never closed"),
        (b"id\n" + CANARY.encode() * BLOCK + b"\n", "rows of at most", "a longer one"),
    ],
)
def test_what_is_refused_says_what_where_and_no_value(read: Any, content: bytes, expected: str, found: str) -> None:
    with pytest.raises(DataError) as caught:
        read(content)
    error = caught.value
    assert expected in str(error.expected)
    assert found in str(error.found)
    assert error.where == "north_bank, data set people"
    assert error.remedy
    assert "sekret" not in str(error)
    assert error.__cause__ is None
    assert error.__context__ is None


def test_the_parsers_own_words_would_have_held_the_row() -> None:
    with pytest.raises(pa.ArrowInvalid, match="sekret"):
        csv.read_csv(BytesIO(f"id,name\n1,2\n{CANARY},2,\n".encode()))


def test_a_comma_between_columns_where_another_delimiter_is_declared(read: Any) -> None:
    with pytest.raises(DataError, match="holds a comma"):
        read(b"id,age\n1,2\n", "semi")


def test_a_file_that_is_not_there_or_not_to_be_read(read: Any, tmp_path: Path) -> None:
    home = Home(tmp_path)
    for run in (read_data_set, snapshot_digest):
        with pytest.raises(DataError, match="is missing") as caught:
            run(home, "people")
        assert (caught.value.expected, caught.value.found) == (
            "a CSV file where data_sets.people in party.yaml says",
            "no file there",
        )
        assert "put the file there" in str(caught.value.remedy)
    (tmp_path / "people.csv").mkdir()
    with pytest.raises(DataError, match="cannot be read"):
        read_data_set(home, "people")
    with pytest.raises(DataError, match="no such data set"):
        read_data_set(home, "nothing")


def test_the_same_id_a_million_times_needs_little(read: Any, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_bytes(b"id\n" + b"C0000001\n" * 1_000_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    table = read_data_set(Home(tmp_path), "people")
    assert len(table) == 1_000_000
    assert table["id"].unique().to_pylist() == ["C0000001"]
    assert table.nbytes < 16_000_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KB
