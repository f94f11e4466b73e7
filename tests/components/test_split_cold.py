import numpy as np
import pyarrow as pa
import pytest

from base.errors import DataError
from features.indexing import alignment_table, ids_digest, sorted_ids

PEOPLE, ITEMS = 60, 80


def given(few: int = 0, order: int = 0) -> dict[str, object]:
    """60 people with 12 to 40 ratings each, `few` of them with 5; the first 50 of the sorted ids are aligned."""
    rng = np.random.default_rng(4)
    rows = []
    for u in range(PEOPLE):
        count = 5 if u < few else int(rng.integers(12, 41))
        rows += [(u, int(i)) for i in rng.choice(ITEMS, count, replace=False)]
    rows = [rows[n] for n in np.random.default_rng(order).permutation(len(rows))]
    ratings = pa.table(
        {
            "user_id": [f"C{u:07d}" for u, _ in rows],
            "item_id": [f"{i:04d}" for _, i in rows],
            "rating": [1.0 + (u + i) % 5 for u, i in rows],
        }
    )
    row = np.random.default_rng(8).permutation(50)
    tables = {"half_ratings": ratings, "catalogue": pa.table({"item_id": [f"{i:04d}" for i in range(ITEMS)]})}
    return {"tables": tables, "alignment": alignment_table(row, ids_digest(sorted_ids(ratings["user_id"])))}


def counts(part: pa.Table) -> np.ndarray:
    return np.bincount(part["user"].to_numpy(), minlength=50)


def test_cold_people_keep_exactly_what_their_group_says(alone) -> None:
    found, metrics = alone("split_cold", "north_bank", given())
    ratings = found["ratings"]
    cold = ratings["people"]["cold"].to_numpy()
    assert sorted(cold[cold >= 0].tolist()) == [0] * 4 + [3] * 3 + [10] * 3  # a fifth of 50, in equal groups
    train, test = counts(ratings["train"]), counts(ratings["test"])
    assert (train[cold >= 0] == cold[cold >= 0]).all()
    assert (test[cold >= 0] > 0).all()
    assert metrics["train.rows"] + metrics["test.rows"] == train.sum() + test.sum()


def test_every_rating_of_an_aligned_person_is_in_one_part(alone) -> None:
    inputs = given()
    found, metrics = alone("split_cold", "north_bank", inputs)
    ratings = found["ratings"]
    users, items = ratings["users"]["user_id"].to_pylist(), ratings["items"]["item_id"].to_pylist()
    both = pa.concat_tables([ratings["train"], ratings["test"]]).to_pylist()
    back = [(users[row["user"]], items[row["item"]], row["rating"]) for row in both]
    rows = inputs["tables"]["half_ratings"].to_pylist()
    aligned = [tuple(row[n] for n in ("user_id", "item_id", "rating")) for row in rows if int(row["user_id"][1:]) < 50]
    assert sorted(back) == sorted(aligned)
    assert metrics["rows_not_aligned"] == len(rows) - len(aligned) > 0
    row = inputs["alignment"]["row"].to_pylist()
    assert users == [f"C{r:07d}" for r in row]  # the index is the alignment's


def test_a_tenth_of_the_warm_ratings_is_test(alone) -> None:
    ratings = alone("split_cold", "north_bank", given(), {"test": 0.25})[0]["ratings"]
    warm = ratings["people"]["cold"].to_numpy() < 0
    test, train = counts(ratings["test"])[warm].sum(), counts(ratings["train"])[warm].sum()
    assert test / (test + train) == pytest.approx(0.25, abs=0.05)


def test_the_split_follows_the_seed_and_not_the_order_of_the_file(alone) -> None:
    first = alone("split_cold", "north_bank", given())[0]["ratings"]
    shuffled = alone("split_cold", "north_bank", given(order=5), secret=b"o" * 32)[0]["ratings"]
    assert all(first[name].equals(shuffled[name]) for name in first)
    other = alone("split_cold", "north_bank", given(), seed=2)[0]["ratings"]
    assert other["people"] != first["people"]


def test_people_with_few_ratings_are_never_made_new(alone) -> None:
    inputs = given(few=35)
    ratings = alone("split_cold", "north_bank", inputs)[0]["ratings"]
    users, cold = ratings["users"]["user_id"].to_pylist(), ratings["people"]["cold"].to_pylist()
    assert all(int(users[u][1:]) >= 35 for u, kept in enumerate(cold) if kept >= 0)
    with pytest.raises(DataError, match="too few people") as caught:
        alone("split_cold", "north_bank", inputs, {"cold_share": 0.5})
    assert "25" in str(caught.value)
