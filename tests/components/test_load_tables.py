import pyarrow as pa
import pytest

from base.errors import DataError

RATINGS = pa.table(
    {
        "timestamp": ["880000000", "880000001"],
        "user_id": pa.array(["007", None], pa.string()),
        "item_id": ["1", "2"],
        "rating": ["4", "9"],
    }
)
PARAMS = {"data_sets": {"north_bank": ["ratings"]}}


def test_tables_stay_text_and_carry_their_spec(alone, specs) -> None:
    data = {"ratings": (RATINGS, {"spec": "interaction"})}
    outputs, metrics = alone("load_tables", "north_bank", {}, PARAMS, data=data)
    table = outputs["tables"]["ratings"]
    assert table.column_names == list(specs["interaction"].columns)
    assert table["user_id"].to_pylist() == ["007", None]
    assert table.schema.metadata == {
        b"spec": b"interaction", b"spec_digest": specs["interaction"].digest.encode(), b"agreed": b"",
    }  # fmt: skip
    assert outputs["report"]["ratings"]["rows"] == metrics["ratings.rows_read"] == 2
    assert outputs["report"]["ratings"]["nulls"] == {"user_id": 1}


@pytest.mark.parametrize(
    ("table", "party", "says"),
    [
        (RATINGS.drop_columns(["rating"]), "north_bank", "columns of its spec"),
        (RATINGS.slice(0, 0), "north_bank", "is empty"),
        (RATINGS, "south_bank", "no data set is named"),
    ],
)
def test_what_cannot_be_loaded(alone, table, party, says) -> None:
    with pytest.raises(DataError, match=says):
        alone("load_tables", party, {}, PARAMS, data={"ratings": (table, {"spec": "interaction"})})
