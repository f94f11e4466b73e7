import csv
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from base.errors import DataError, ExpectationFailed
from components.alignment import AlignParams
from components.alignment_ids import Ids
from components.alignment_report import join_report
from demo.data import prepare
from features.tables import id_digest

pytestmark = pytest.mark.spark
SPEC_OF = {"people": "user", "behaviour": "interaction", "catalogue": "item", "ratings": "interaction"}
SEED = 11


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    return folder, prepare("synthetic", folder, SEED)


def load(alone, folder: Path, party: str, names: list[str], agreed: str | None = None):
    data = {}
    for name in names:
        with (folder / party / "data" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            header, *rows = csv.reader(file)
        columns = {c: pa.array([row[n] or None for row in rows], pa.string()) for n, c in enumerate(header)}
        data[name] = (pa.table(columns), {"spec": SPEC_OF[name], "digest": agreed})
    outputs, _ = alone("load_tables", party, {}, {"data_sets": {party: names}}, data=data)
    return outputs["tables"]


def test_what_was_put_in_is_what_is_caught(alone, prepared) -> None:
    folder, manifest = prepared
    names = ["people", "behaviour", "catalogue"]
    raw = load(alone, folder, "bureau", names)
    outputs, metrics = alone("validate_tables", "bureau", {"tables": raw})
    for name in names:
        put = manifest["files"][f"bureau/{name}"]
        report = outputs["report"][name]
        assert report["dropped"] == dict(sorted(put["extra"].items()))
        assert report["read"] == put["rows"]
        assert report["kept"] == len(outputs["tables"][name]) == put["clean"] == metrics[f"{name}.rows"]
        assert report["expectations"] > 5
    assert outputs["report"]["people"]["nulls"] == {"zip": 5}
    again, _ = alone("validate_tables", "bureau", {"tables": raw})
    assert all(again["tables"][name].equals(outputs["tables"][name], check_metadata=True) for name in names)
    assert again["tables"]["people"].schema.metadata[b"spec"] == b"user"


def rating_table(specs, users: list[str | None]) -> pa.Table:
    table = pa.table(
        {
            "user_id": pa.array(users, pa.string()),
            "item_id": ["1"] * len(users),
            "rating": ["3"] * len(users),
            "timestamp": ["880000000"] * len(users),
        }
    )
    spec = specs["interaction"]
    return table.replace_schema_metadata({"spec": spec.name, "spec_digest": spec.digest, "agreed": ""})


def test_too_much_dirt_refuses_the_table_with_counts_and_no_values(alone, specs) -> None:
    table = rating_table(specs, [*map(str, range(17)), "canary-7", "canary-8", "5"])
    with pytest.raises(ExpectationFailed) as caught:
        alone("validate_tables", "north_bank", {"tables": {"ratings": table}})
    text = str(caught.value)
    assert "duplicate 1, user_id.form 2" in text
    assert "3: " in text
    assert "at most 5.0% of 20 rows" in text
    assert "canary" not in text
    outputs, _ = alone("validate_tables", "north_bank", {"tables": {"ratings": table}}, {"max_dropped": 0.15})
    assert len(outputs["tables"]["ratings"]) == 17


def test_the_alignment_reads_what_became_of_the_ids(alone, specs) -> None:
    users = [*map(str, range(100, 200)), "100", "101", "100.0", "1\x002", "9" * 20, "NULL", None, "x"]
    tables = {"ratings": rating_table(specs, users)}
    outputs, metrics = alone("validate_tables", "north_bank", {"tables": tables}, {"max_dropped": 0.2})
    ctx = SimpleNamespace(party="north_bank", inputs={"report": outputs["report"]})
    ids = Ids(outputs["tables"]["ratings"]["user_id"], np.arange(100), np.ones(100, np.int32), 1024, None, None)
    params = AlignParams(tables={"north_bank": "ratings"}, id_column="user_id")
    report = join_report(ctx, params, ids, None, None)
    assert report["read"] == len(users)
    assert report["null"] == 2
    assert report["invalid"] == {"control": 1, "form": 2, "length": 1}
    assert outputs["report"]["ratings"]["dropped"]["duplicate"] == 2
    assert report["read"] == report["null"] + sum(report["invalid"].values()) + 2 + report["distinct"]
    assert metrics["ratings.dropped.user_id.form"] == 2
    assert outputs["report"]["ratings"]["distinct"]["user_id"] == 100


def test_a_column_of_nulls_is_refused_as_such(alone, specs) -> None:
    with pytest.raises(ExpectationFailed, match=r"user_id\.null 30"):
        alone("validate_tables", "north_bank", {"tables": {"ratings": rating_table(specs, [None] * 30)}})


def test_what_only_a_whole_table_can_break_stops_at_the_gate(alone, specs) -> None:
    spec = specs["user"]
    rows = {"user_id": ["1"], "age": ["30"], "sex": ["F"], "occupation": ["none"], "zip": ["1"]}
    people = pa.table(rows).replace_schema_metadata({"spec": "user", "spec_digest": spec.digest, "agreed": ""})
    with pytest.raises(ExpectationFailed, match="row_count") as caught:
        alone("validate_tables", "bureau", {"tables": {"people": people}})
    assert "min_value 100" in str(caught.value)


def test_another_version_of_the_spec_is_refused(alone, specs) -> None:
    table = rating_table(specs, ["1", "2"])
    stale = table.replace_schema_metadata({**table.schema.metadata, b"spec_digest": b"0" * 64})
    with pytest.raises(DataError, match="changed after it was read"):
        alone("validate_tables", "north_bank", {"tables": {"ratings": stale}})


def test_the_catalogue_is_the_one_of_the_accord(alone, prepared) -> None:
    folder, manifest = prepared
    agreed = id_digest(pa.chunked_array([[f"{n + 1:04d}" for n in range(manifest["items"])]]))
    tables = load(alone, folder, "west_bank", ["catalogue"], agreed)
    outputs, _ = alone("validate_tables", "west_bank", {"tables": tables})
    assert len(outputs["tables"]["catalogue"]) == manifest["items"]
    with pytest.raises(DataError, match="that the accord agreed on"):
        alone("validate_tables", "west_bank", {"tables": load(alone, folder, "west_bank", ["catalogue"], "f" * 64)})
