import numpy as np
import pyarrow as pa
import pytest

from base.errors import DataError
from features.indexing import alignment_table, ids_digest, sorted_ids

pytestmark = pytest.mark.spark
PEOPLE, ITEMS, STRANGERS = 300, 60, 20


@pytest.fixture(scope="module")
def inputs(specs):
    """A bureau with 320 people, 300 of them aligned in random order, and their behaviour."""
    rng = np.random.default_rng(2)
    n = PEOPLE + STRANGERS
    ids = [f"C{u:07d}" for u in rng.permutation(n)]
    jobs = np.array(["artist"] * (n - 9) + ["doctor"] * 9)
    people = {
        "user_id": ids,
        "age": rng.integers(18, 70, n).astype(float),
        "sex": np.where(rng.random(n) < 0.6, "M", "F").tolist(),
        "occupation": np.where(np.arange(n) % 3 == 0, "writer", jobs).tolist(),
        "zip": [None] * n,
    }
    pairs = [(u, int(i)) for u in range(n) for i in rng.choice(ITEMS, rng.integers(5, 30), replace=False)]
    taste = 3 + rng.normal(0, 0.6, (n, 1)) + rng.normal(0, 1, (n, 4)) @ rng.normal(0, 0.6, (4, ITEMS))
    behaviour = {
        "user_id": [ids[u] for u, _ in pairs],
        "item_id": [f"{i:04d}" for _, i in pairs],
        "rating": [float(np.clip(np.rint(taste[u, i]), 1, 5)) for u, i in pairs],
    }
    flags = specs["item"].encoded("shares")
    catalogue = {"item_id": [f"{i:04d}" for i in range(ITEMS)]}
    catalogue |= {f: pa.array((rng.random(ITEMS) < 0.3).astype(np.int8)) for f in flags[:4]}
    catalogue |= {f: pa.array(np.zeros(ITEMS, np.int8)) for f in flags[4:]}
    named = {"people": (people, "user"), "behaviour": (behaviour, "interaction"), "catalogue": (catalogue, "item")}
    tables = {name: pa.table(t).replace_schema_metadata({"spec": spec}) for name, (t, spec) in named.items()}
    row = rng.permutation(n)[:PEOPLE]
    own = sorted_ids(tables["people"]["user_id"])
    return {"tables": tables, "alignment": alignment_table(row, ids_digest(own))}


@pytest.fixture(scope="module")
def factors():
    return {"factors": 4, "sweeps": 3, "reg_user": 2, "reg_item": 2}


def test_the_columns_are_those_of_the_aligned_people_in_their_order(alone, inputs, factors) -> None:
    outputs, metrics = alone("encode_features", "bureau", inputs, factors)
    X, columns = outputs["features"]["X"], outputs["encoding"]["columns"]
    assert X.shape == (PEOPLE, len(columns)) == (PEOPLE, metrics["columns"])
    assert columns[:3] == ["age", "sex=F", "sex=M"]
    assert columns[-5:] == ["bias", "factor_1", "factor_2", "factor_3", "factor_4"]
    assert sum(name.startswith("share_") for name in columns) == 4  # a share that is nought for all says nothing
    ids = sorted(inputs["tables"]["people"]["user_id"].to_pylist())
    people = {row["user_id"]: row for row in inputs["tables"]["people"].to_pylist()}
    aligned = [people[ids[r]] for r in inputs["alignment"]["row"].to_pylist()]
    assert [row["sex"] == "M" for row in aligned] == X[:, columns.index("sex=M")].astype(bool).tolist()
    age = np.array([row["age"] for row in aligned])
    assert np.corrcoef(age, X[:, 0])[0, 1] > 0.99


def test_nobody_stands_out(alone, inputs, factors) -> None:
    outputs, metrics = alone("encode_features", "bureau", inputs, factors)
    X, columns = outputs["features"]["X"], outputs["encoding"]["columns"]
    for n, name in enumerate(columns):
        _, people = np.unique(X[:, n], return_counts=True)
        assert people.min() >= 10, name
    assert "occupation=doctor" not in columns  # nine people at most
    assert metrics["leverage"] <= 0.5
    with pytest.raises(DataError, match="single a person out"):
        alone("encode_features", "bureau", inputs, {**factors, "max_leverage": metrics["leverage"] - 0.001})


def test_the_same_secret_gives_the_same_features_and_another_secret_other_factors(alone, inputs, factors) -> None:
    first = alone("encode_features", "bureau", inputs, factors)[0]
    again = alone("encode_features", "bureau", inputs, factors)[0]
    assert first["features"]["X"].tobytes() == again["features"]["X"].tobytes()
    assert first["encoding"] == again["encoding"]
    other = alone("encode_features", "bureau", inputs, factors, secret=b"o" * 32)[0]
    assert other["features"]["X"].tobytes() != first["features"]["X"].tobytes()


def test_shares_are_of_the_behaviour(alone, inputs, factors) -> None:
    outputs, _ = alone("encode_features", "bureau", inputs, factors)
    tables, columns = inputs["tables"], outputs["encoding"]["columns"]
    name = next(c for c in columns if c.startswith("share_"))
    flag = dict(zip(tables["catalogue"]["item_id"].to_pylist(), tables["catalogue"][name[6:]].to_pylist(), strict=True))
    rows: dict[str, list[int]] = {}
    for row in tables["behaviour"].to_pylist():
        rows.setdefault(row["user_id"], []).append(flag[row["item_id"]])
    ids = sorted(tables["people"]["user_id"].to_pylist())
    share = [np.mean(rows[ids[r]]) for r in inputs["alignment"]["row"].to_pylist()]
    assert np.corrcoef(share, outputs["features"]["X"][:, columns.index(name)])[0, 1] > 0.98
