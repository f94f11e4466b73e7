from typing import Any

import pyarrow as pa
import pytest

from features.rules import ROW, judge, read, schema
from features.spec import Column, FeatureSpec, IdRule

OWN: dict[str, Any] = {"owner": ("data_holder",), "sensitivity": "internal"}
REAL = Column(type="real", bounds=(-1, 5), **OWN)
WHOLE = Column(type="integer", **OWN)
FLAG = Column(type="flag", **OWN)
SEX = Column(type="category", values=("F", "M"), rule=IdRule(case="upper"), **OWN)


@pytest.mark.parametrize(
    ("column", "text", "value", "kind"),
    [
        (REAL, "4", 4.0, ""),
        (REAL, " 4.50 ", 4.5, ""),
        (REAL, "\uff14", 4.0, ""),
        (REAL, "1e0", 1.0, ""),
        (REAL, "-1", -1.0, ""),
        (REAL, "5.0001", None, "bounds"),
        (REAL, "1e99", None, "bounds"),
        (REAL, "inf", None, "type"),
        (REAL, "4,5", None, "type"),
        (REAL, "4d", None, "type"),
        (REAL, "0x4", None, "type"),
        (REAL, "NaN", None, "null"),
        (REAL, None, None, "null"),
        (WHOLE, "123456789012345678", 123456789012345678, ""),
        (WHOLE, "12.0", None, "type"),
        (WHOLE, "9" * 30, None, "type"),
        (FLAG, "1", 1, ""),
        (FLAG, "2", None, "bounds"),
        (FLAG, "300", None, "bounds"),
        (FLAG, "true", None, "type"),
        (SEX, " m", "M", ""),
        (SEX, "X", None, "values"),
        (SEX, "", None, "null"),
    ],
)
def test_reading_a_value(column: Column, text: str | None, value: Any, kind: str) -> None:
    values, kinds = read(pa.array([text], pa.string()), column)
    assert values.to_pylist() == [value]
    assert kinds.to_pylist() == [kind]


def batch(**columns: list[str | None]) -> pa.RecordBatch:
    rows = len(next(iter(columns.values())))
    arrays = {name: pa.array(values, pa.string()) for name, values in columns.items()}
    return pa.RecordBatch.from_pydict({**arrays, ROW: pa.array(range(rows), pa.int64())})


def test_a_row_leaves_for_the_first_rule_in_column_order() -> None:
    spec = FeatureSpec(
        name="two", description="", key=("sex",),
        columns={"sex": SEX, "age": Column(type="real", on_null="keep", on_invalid="null", **OWN), "n": WHOLE},
    )  # fmt: skip
    judged = judge(
        batch(sex=["m", "X", "f", "f", ""], age=["1", "old", "old", None, "old"], n=["1", "x", "2", "3", "x"]), spec
    )
    assert judged.schema.equals(schema(spec))
    assert judged["_reason"].to_pylist() == [None, "sex.values", None, None, "sex.null"]
    assert judged["age"].to_pylist() == [1.0, None, None, None, None]


def test_ids_are_judged_before_what_stands_in_front_of_them() -> None:
    who = Column(type="id", rule=IdRule(type="integer"), **OWN)
    spec = FeatureSpec(name="two", description="", key=("who",), columns={"n": WHOLE, "who": who})
    judged = judge(batch(n=["x", "x", "1"], who=["1.0", "1", None]), spec)
    assert judged["_reason"].to_pylist() == ["who.form", "n.type", "who.null"]


def test_an_invalid_value_may_be_refused_where_a_null_is_kept() -> None:
    column = Column(type="real", on_null="keep", on_invalid="drop", **OWN)
    spec = FeatureSpec(name="one", description="", key=("n",), columns={"n": WHOLE, "age": column})
    judged = judge(batch(n=["1", "2"], age=["old", None]), spec)
    assert judged["_reason"].to_pylist() == ["age.type", None]
