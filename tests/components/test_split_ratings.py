import numpy as np
import pyarrow as pa
import pytest

from base.errors import DataError, SpecError


def tables(seed: int, users: int = 40, items: int = 30, order: int | None = None) -> dict[str, pa.Table]:
    rng = np.random.default_rng(seed)
    pairs = [(u, i) for u in range(users) for i in rng.choice(items, 20, replace=False)]
    if order is not None:
        pairs = [pairs[n] for n in np.random.default_rng(order).permutation(len(pairs))]
    ratings = pa.table(
        {
            "user_id": [f"C{u:07d}" for u, _ in pairs],
            "item_id": [f"{i:04d}" for _, i in pairs],
            "rating": [1.0 + (u * 7 + i) % 5 for u, i in pairs],
        }
    )
    return {"ratings": ratings, "catalogue": pa.table({"item_id": [f"{i:04d}" for i in reversed(range(items))]})}


def triples(part: pa.Table) -> set[tuple[int, int, float]]:
    return set(zip(*(part[name].to_pylist() for name in ("user", "item", "rating")), strict=True))


def test_three_parts_hold_every_rating_once(alone) -> None:
    given = tables(1)
    found = alone("split_ratings", "north_bank", {"tables": given})[0]["ratings"]
    parts = [triples(found[name]) for name in ("train", "validation", "test")]
    assert [len(part) for part in parts] == [640, 80, 80]
    users, items = found["users"]["user_id"].to_pylist(), found["items"]["item_id"].to_pylist()
    assert users == sorted(users)
    assert items == sorted(items)
    back = {(users[u], items[i], r) for u, i, r in set().union(*parts)}
    rows = given["ratings"].to_pylist()
    assert back == {(row["user_id"], row["item_id"], row["rating"]) for row in rows}
    kinds = [str(field.type) for field in found["train"].schema]
    assert kinds == ["int32", "int32", "float"]


def test_the_split_follows_the_seed_and_not_the_order_of_the_file(alone) -> None:
    first = alone("split_ratings", "north_bank", {"tables": tables(1)})[0]["ratings"]
    shuffled = alone("split_ratings", "north_bank", {"tables": tables(1, order=9)}, secret=b"o" * 32)[0]["ratings"]
    assert all(first[name].equals(shuffled[name]) for name in first)
    other = alone("split_ratings", "north_bank", {"tables": tables(1)}, seed=2)[0]["ratings"]
    assert triples(other["test"]) != triples(first["test"])


def test_items_are_the_whole_catalogue_and_nothing_else(alone) -> None:
    given = tables(1)
    given["catalogue"] = pa.concat_tables([given["catalogue"], pa.table({"item_id": ["9999"]})])
    assert len(alone("split_ratings", "north_bank", {"tables": given})[0]["ratings"]["items"]) == 31
    given["catalogue"] = given["catalogue"].slice(1)
    with pytest.raises(DataError, match="catalogue does not hold"):
        alone("split_ratings", "north_bank", {"tables": given})


def test_items_keep_their_numeric_columns_in_the_order_of_their_ids(alone) -> None:
    given = tables(1)
    number = [int(item) for item in given["catalogue"]["item_id"].to_pylist()]
    catalogue = given["catalogue"].append_column("title", pa.array([f"title {n}" for n in number]))
    given["catalogue"] = catalogue.append_column("genre", pa.array(number, pa.int8()))
    items = alone("split_ratings", "north_bank", {"tables": given})[0]["ratings"]["items"]
    assert items.column_names == ["item_id", "genre"]
    assert items["genre"].to_pylist() == list(range(30))


def test_shares_must_leave_something(alone) -> None:
    with pytest.raises(SpecError):
        alone("split_ratings", "north_bank", {"tables": tables(1)}, {"validation": 0.45, "test": 0.45})
