from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from base.errors import DataError, ExpectationFailed
from features.spec import load_all
from features.tables import clean, id_digest, require_columns

pytestmark = pytest.mark.spark
SPECS = load_all(Path(__file__).parents[2] / "feature_specs")
RATINGS = SPECS["interaction"]
ROWS: list[tuple[str | None, str | None, str | None, str | None]] = [
    ("C0000012", "7", "4", "880000000"),
    (" c12", "007", "5", "880000001"),  # the same person and item: a duplicate
    ("12", "8", "3.0", "880000002"),
    ("12.0", "8", "3", "880000002"),
    (None, "8", "3", "880000002"),
    ("13", "8", "9", "880000002"),
    ("13", "8", "good", "880000002"),
    ("13", "8", "2", "880000002"),  # the first good row of its key: no duplicate of the two before
    ("", "", "", ""),
]


def raw(rows: list[tuple[str | None, ...]]) -> pa.Table:
    columns = list(RATINGS.columns)
    return pa.table({name: pa.array([row[n] for row in rows], pa.string()) for n, name in enumerate(columns)})


def test_normal_forms_come_before_duplicates_and_every_row_is_accounted_for(spark: Any) -> None:
    found = clean(spark, raw(list(ROWS)), RATINGS)
    assert found.table.to_pylist() == [
        {"user_id": "C0000012", "item_id": "0007", "rating": 4.0, "timestamp": 880000000},
        {"user_id": "C0000012", "item_id": "0008", "rating": 3.0, "timestamp": 880000002},
        {"user_id": "C0000013", "item_id": "0008", "rating": 2.0, "timestamp": 880000002},
    ]
    assert found.dropped == {
        "duplicate": 1, "rating.bounds": 1, "rating.type": 1, "user_id.form": 1, "user_id.null": 2,
    }  # fmt: skip
    assert found.read == len(found.table) + sum(found.dropped.values())
    assert found.distinct == {"user_id": 2, "item_id": 2}


def test_two_nulls_are_no_duplicates_of_each_other(spark: Any) -> None:
    found = clean(spark, raw([(None, "7", "4", "880000000"), ("NULL", "7", "4", "880000000")]), RATINGS)
    assert found.dropped == {"user_id.null": 2}
    assert len(found.table) == 0


@pytest.mark.parametrize(
    ("change", "rule", "where"),
    [
        ({"on_duplicate": "refuse"}, "duplicate", "key user_id+item_id"),
        ({"rating": {"on_invalid": "refuse"}}, "rating.bounds", "column rating"),
        ({"user_id": {"on_null": "refuse"}}, "user_id.null", "column user_id"),
    ],
)
def test_a_spec_may_refuse_the_table(spark: Any, change: dict[str, Any], rule: str, where: str) -> None:
    changed = {
        name: RATINGS.columns[name].model_copy(update=change.pop(name)) for name in set(change) & set(RATINGS.columns)
    }
    spec = RATINGS.model_copy(update={**change, "columns": {**RATINGS.columns, **changed}})
    with pytest.raises(ExpectationFailed) as caught:
        clean(spark, raw(list(ROWS)), spec)
    assert rule in str(caught.value)
    assert where in str(caught.value)
    assert "good" not in str(caught.value)


def test_several_threads_share_one_session(spark: Any) -> None:
    tables = [raw([(str(n * 1000 + i), "7", "4", "880000000") for i in range(50 + n)]) for n in range(4)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda table: clean(spark, table, RATINGS), tables))
    assert [len(f.table) for f in found] == [50, 51, 52, 53]
    assert [f.table["user_id"][0].as_py() for f in found] == [f"C{n * 1000:07d}" for n in range(4)]


def test_other_columns_are_refused() -> None:
    with pytest.raises(DataError, match="columns of its spec"):
        require_columns(raw(list(ROWS)).drop_columns(["rating"]), RATINGS)
    with pytest.raises(DataError, match="columns of its spec"):
        require_columns(raw(list(ROWS)).append_column("rating", pa.nulls(len(ROWS))), RATINGS)


def test_a_file_without_a_header_shows_no_value_where_names_should_be() -> None:
    values = ["C0sekret7", "7", "rating", "rating"]
    with pytest.raises(DataError) as caught:
        require_columns(pa.Table.from_arrays([pa.nulls(1)] * 4, names=values), RATINGS)
    assert caught.value.found == "missing user_id, item_id, timestamp; twice rating; not in the spec: column 1, 2"
    assert "sekret" not in str(caught.value)


def test_the_same_id_in_every_row_is_one_person(spark: Any) -> None:
    rows = 100_000
    table = raw([("C0000012", "7", "4", "880000000")]).take([0] * rows)
    found = clean(spark, table, RATINGS)
    assert found.table.to_pylist() == [
        {"user_id": "C0000012", "item_id": "0007", "rating": 4.0, "timestamp": 880000000}
    ]
    assert found.dropped == {"duplicate": rows - 1}


def test_bytes_that_only_look_like_ids_are_counted_and_not_kept(spark: Any) -> None:
    dirty = ["12\x00", "\ufeff12", "x" * 5000, "9" * 2000, "12\n13", "12"]
    found = clean(spark, raw([(text, "7", "4", "880000000") for text in dirty]), RATINGS)
    assert found.table["user_id"].to_pylist() == ["C0000012"]
    assert found.dropped == {"user_id.control": 3, "user_id.form": 1, "user_id.length": 1}


def test_the_digest_of_ids_is_of_the_set() -> None:
    assert id_digest(pa.chunked_array([["2", "1"], ["1"]])) == id_digest(pa.chunked_array([["1", "2"]]))
    assert id_digest(pa.chunked_array([["1"]])) != id_digest(pa.chunked_array([["2"]]))
