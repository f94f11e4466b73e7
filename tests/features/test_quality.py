from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from base.errors import ExpectationFailed
from features.quality import check, suite
from features.spec import Column, FeatureSpec, IdRule, load_all

SPEC = FeatureSpec(
    name="small",
    description="a table",
    key=("user_id",),
    min_rows=3,
    columns={
        "user_id": Column(
            type="id", owner=("data_holder",), sensitivity="sensitive", rule=IdRule(type="integer", prefix="C", width=3)
        ),
        "age": Column(type="real", owner=("data_holder",), sensitivity="internal", bounds=(0, 100)),
        "sex": Column(type="category", owner=("data_holder",), sensitivity="internal", values=("F", "M")),
        "zip": Column(type="text", owner=("data_holder",), sensitivity="internal", on_null="keep", max_null=0.4),
    },
)
GOOD: dict[str, list[Any]] = {
    "user_id": ["C001", "C002", "C003"],
    "age": [4.0, 44.0, 100.0],
    "sex": ["F", "M", "M"],
    "zip": ["1", None, "2"],
}


def test_a_good_table_passes_and_says_how_many_rules() -> None:
    assert check(pa.table(GOOD), SPEC) == len(suite(SPEC).expectations) == 10


@pytest.mark.parametrize(
    ("change", "rule", "column", "count"),
    [
        ({"age": [4.0, 444.5, 100.0]}, "between", "age", "1 of 3"),
        ({"age": [None, None, 1.0]}, "not_be_null", "age", "2 of 3"),
        ({"sex": ["F", "M", "canary"]}, "in_set", "sex", "1 of 3"),
        ({"user_id": ["C001", "C002", "C002"]}, "unique", "user_id", "2 of 3"),
        ({"user_id": ["C001", "C002", "canary"]}, "regex", "user_id", "1 of 3"),
        ({"zip": [None, None, "2"]}, "not_be_null", "zip", "2 of 3"),
    ],
)
def test_a_broken_rule_says_rule_column_and_count_and_no_value(
    change: dict[str, list[Any]], rule: str, column: str, count: str
) -> None:
    with pytest.raises(ExpectationFailed) as caught:
        check(pa.table({**GOOD, **change}), SPEC)
    text = str(caught.value)
    assert rule in text
    assert f"column {column}" in text
    assert count in text
    assert "canary" not in text
    assert "444" not in text


def test_too_few_rows_and_missing_columns() -> None:
    with pytest.raises(ExpectationFailed, match="row_count"):
        check(pa.table(GOOD).slice(0, 2), SPEC)
    with pytest.raises(ExpectationFailed, match="columns_to_match_set"):
        check(pa.table(GOOD).drop_columns(["zip"]), SPEC)


def test_a_key_of_two_columns_must_be_unique() -> None:
    spec = SPEC.model_copy(update={"key": ("age", "sex")})
    check(pa.table(GOOD), spec)
    with pytest.raises(ExpectationFailed, match="compound"):
        check(pa.table({**GOOD, "age": [4.0, 4.0, 4.0]}), spec)


@pytest.mark.spark
def test_the_same_suite_runs_on_a_spark_frame(spark: Any) -> None:
    with pytest.raises(ExpectationFailed, match="between") as caught:
        check(spark.createDataFrame(pa.table({**GOOD, "age": [4.0, 444.5, 100.0]})), SPEC)
    assert "1 of 3" in str(caught.value)


def test_every_shipped_spec_makes_a_suite() -> None:
    specs = load_all(Path(__file__).parents[2] / "feature_specs")
    assert {len(suite(spec).expectations) for spec in specs.values()} == {3 + 8, 3 + 3 + 19 * 2, 3 + 9}
