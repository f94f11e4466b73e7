"""Training, validation and test items of a party, one left out at a time: each person's newest item is for the test.

The second newest is for validation, the rest for training; a person with fewer than `min_history` items stays in
training alone. Rows are sorted by person and, within one, from the oldest to the newest, so their order is the order of
time and no time leaves this step. Items of one person with one time are put in order by a permutation of the catalogue,
a public choice: the split depends on the run seed and on the set of rows, not on the order of a file. Nothing crosses.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from annotated_types import Ge
from numpy.typing import NDArray

from components.contract import Component, Context, Outputs, Params
from components.declared import TableName
from components.known_items import item_positions, numeric_items
from features.indexing import positions, rating_table, sorted_ids
from models.histories import Histories

TIME = "timestamp"


class SplitLeaveOneOutParams(Params):
    """What counts as taken, and whose newest items are left out."""

    ratings: TableName = "ratings"  # name of the table of ratings
    catalogue: TableName = "catalogue"  # name of the table of items
    min_history: Annotated[int, Ge(3)] = 3  # items of a person whose two newest are left out
    positive_from: float | None = None  # lowest rating that counts, in units of the scale; null: every rating counts


def data_holder(ctx: Context, params: SplitLeaveOneOutParams) -> Outputs:
    """Return train, validation and test (user, item, rating) with the ids behind the indices."""
    table: pa.Table = ctx.inputs["tables"][params.ratings]
    catalogue: pa.Table = ctx.inputs["tables"][params.catalogue]
    if params.positive_from is not None:
        table = table.filter(pc.greater_equal(table["rating"], params.positive_from))
    # 1. Indices, and the order of time within each person.
    users, items = sorted_ids(table["user_id"]), sorted_ids(catalogue["item_id"])
    u, i = positions(table["user_id"], users), item_positions(ctx, table, items, params.catalogue)
    tie = ctx.shared_rng("ties").permutation(len(items))
    order = np.lexsort((tie[i], _times(ctx, table), u))
    rows = rating_table(u[order], i[order], table["rating"].to_numpy()[order])
    # 2. How many newer items the person has.
    h = Histories(rows["user"].to_numpy(), rows["item"].to_numpy(), len(users), len(items))
    enough = np.diff(h.start)[h.user] >= params.min_history
    newer = np.where(enough, h.age, len(rows))
    # 3. The parts, in that order.
    parts = {"train": newer > 1, "validation": newer == 1, "test": newer == 0}
    ratings = {name: rows.filter(pa.array(part)) for name, part in parts.items()}
    for name, part in ratings.items():
        ctx.metric(f"{name}.rows", len(part))
    return {"ratings": {**ratings, "users": pa.table({"user_id": users}), "items": numeric_items(catalogue, items)}}


def _times(ctx: Context, table: pa.Table) -> NDArray[np.int64]:
    """Return the time of each row (n,); `DataError` for a table that lacks some."""
    missing = table[TIME].null_count if TIME in table.column_names else len(table)
    ctx.require(
        missing == 0, f"rows without a {TIME}", expected=0, found=missing,
        remedy=f"give {TIME} the rule on_null: drop in the feature spec, or take split_ratings",
    )  # fmt: skip
    return np.asarray(table[TIME].to_numpy())


COMPONENT = Component(
    name="split_leave_one_out",
    roles={"data_holder": data_holder},
    params=SplitLeaveOneOutParams,
    inputs={"tables": "validated tables"},
    outputs={
        "ratings": "train, validation, test: user, item, rating, from each person's oldest to the newest; users, "
        "items: the ids behind the indices, items with their numeric columns"
    },
    adversary="nothing crosses: every party splits its own rows",
)
