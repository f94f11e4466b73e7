import numpy as np
import pyarrow as pa
import pytest

from base.errors import DataError, SpecError

ITEMS = 30


def given(seed: int = 1, users: int = 40, order: int | None = None, times: int = 8) -> dict[str, dict[str, pa.Table]]:
    """People with 1 to 12 items each; few times, so that many items of a person have one time."""
    rng = np.random.default_rng(seed)
    pairs = [(u, i) for u in range(users) for i in rng.choice(ITEMS, 1 + u % 12, replace=False)]
    time, rating = rng.integers(0, times, len(pairs)), rng.integers(1, 6, len(pairs))
    shuffled = np.arange(len(pairs)) if order is None else np.random.default_rng(order).permutation(len(pairs))
    ratings = pa.table({
        "user_id": [f"C{pairs[n][0]:07d}" for n in shuffled], "item_id": [f"{pairs[n][1]:04d}" for n in shuffled],
        "rating": rating[shuffled].astype(float), "timestamp": time[shuffled],
    })  # fmt: skip
    numbers = list(reversed(range(ITEMS)))
    catalogue = pa.table({"item_id": [f"{i:04d}" for i in numbers], "title": map(str, numbers), "genre": numbers})
    return {"tables": {"ratings": ratings, "catalogue": catalogue}}


def rows(found: dict[str, pa.Table], name: str) -> list[tuple[str, str, float]]:
    users, items = found["users"]["user_id"].to_pylist(), found["items"]["item_id"].to_pylist()
    return [(users[row["user"]], items[row["item"]], row["rating"]) for row in found[name].to_pylist()]


def test_newest_is_test_second_newest_is_validation_and_train_is_in_the_order_of_time(alone) -> None:
    inputs = given()
    found, metrics = alone("split_leave_one_out", "north_bank", inputs)
    ratings = found["ratings"]
    when = {(row["user_id"], row["item_id"]): row["timestamp"] for row in inputs["tables"]["ratings"].to_pylist()}
    parts = {name: rows(ratings, name) for name in ("train", "validation", "test")}
    for user in ratings["users"]["user_id"].to_pylist():
        times = {name: [when[u, i] for u, i, _ in part if u == user] for name, part in parts.items()}
        own = [t for (u, _), t in when.items() if u == user]
        left_out = 1 if len(own) >= 3 else 0
        assert [len(times[name]) for name in ("validation", "test")] == [left_out, left_out]
        in_order = times["train"] + times["validation"] + times["test"]
        assert in_order == sorted(own)
    assert metrics == {f"{name}.rows": len(part) for name, part in parts.items()}
    users = ratings["train"]["user"].to_pylist()
    assert users == sorted(users)
    every = {(row["user_id"], row["item_id"], row["rating"]) for row in inputs["tables"]["ratings"].to_pylist()}
    assert set().union(*parts.values()) == every
    assert ratings["train"].column_names == ["user", "item", "rating"]


def test_the_split_follows_the_seed_and_not_the_order_of_the_file(alone) -> None:
    first = alone("split_leave_one_out", "north_bank", given())[0]["ratings"]
    shuffled = alone("split_leave_one_out", "north_bank", given(order=9), secret=b"o" * 32)[0]["ratings"]
    assert all(first[name].equals(shuffled[name]) for name in first)
    other = alone("split_leave_one_out", "north_bank", given(), seed=2)[0]["ratings"]
    assert rows(other, "test") != rows(first, "test")  # ties fall otherwise


def test_without_ties_the_seed_has_no_say(alone) -> None:
    inputs = given(times=10**9)
    first, other = (alone("split_leave_one_out", "north_bank", inputs, seed=seed)[0]["ratings"] for seed in (1, 2))
    assert all(first[name].equals(other[name]) for name in first)


def test_a_longer_least_history_leaves_more_people_in_training_alone(alone) -> None:
    inputs = given()
    found = alone("split_leave_one_out", "north_bank", inputs, {"min_history": 6})[0]["ratings"]
    count = {u: 0 for u, _, _ in rows(found, "train")}
    for u in inputs["tables"]["ratings"]["user_id"].to_pylist():
        count[u] += 1
    assert {u for u, _, _ in rows(found, "test")} == {u for u, n in count.items() if n >= 6}
    with pytest.raises(SpecError):
        alone("split_leave_one_out", "north_bank", inputs, {"min_history": 2})


def test_ratings_below_the_bound_do_not_count(alone) -> None:
    inputs = given()
    found = alone("split_leave_one_out", "north_bank", inputs, {"positive_from": 4.0})[0]["ratings"]
    kept = {(row["user_id"], row["item_id"]) for row in inputs["tables"]["ratings"].to_pylist() if row["rating"] >= 4}
    parts = [rows(found, name) for name in ("train", "validation", "test")]
    assert {(u, i) for part in parts for u, i, _ in part} == kept
    assert found["users"]["user_id"].to_pylist() == sorted({u for u, _ in kept})


def test_items_are_the_whole_catalogue_with_its_numbers(alone) -> None:
    items = alone("split_leave_one_out", "north_bank", given())[0]["ratings"]["items"]
    assert items.column_names == ["item_id", "genre"]
    assert items["genre"].to_pylist() == list(range(ITEMS))


def test_wrong_tables_are_refused(alone) -> None:
    ratings, catalogue = given()["tables"]["ratings"], given()["tables"]["catalogue"]
    cases = {
        "timestamp": {"ratings": ratings.drop_columns(["timestamp"]), "catalogue": catalogue},
        "catalogue": {"ratings": ratings, "catalogue": catalogue.slice(1)},
        "histories": {"ratings": pa.concat_tables([ratings, ratings.slice(0, 1)]), "catalogue": catalogue},
    }
    cases["rows without"] = {
        "ratings": ratings.set_column(3, "timestamp", pa.array([None, *ratings["timestamp"].to_pylist()[1:]])),
        "catalogue": catalogue,
    }
    for words, tables in cases.items():
        with pytest.raises(DataError, match=words) as caught:
            alone("split_leave_one_out", "north_bank", {"tables": tables})
        assert "C0000" not in str(caught.value)
