"""Training, validation and test ratings of a party, at random by rating, with integer indices.

Every data_holder splits its own rows; nothing crosses. Rows are put into canonical order (by person, then item) before
the draw, so the split depends on the run seed and on the set of ratings, not on the order of a file. The draw is a
public choice. Items are the whole catalogue sorted by id, the same at every party, with its numeric columns; people
are the party's own, sorted by id: a position in `users` and `items` is the index of the ratings.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
import pyarrow as pa
from annotated_types import Gt, Lt
from pydantic import model_validator

from components.contract import Component, Context, Outputs, Params
from components.known_items import item_positions, numeric_items
from features.indexing import positions, rating_table, sorted_ids


class SplitRatingsParams(Params):
    """Shares of the ratings; the rest is for training."""

    ratings: str = "ratings"  # name of the table of ratings
    catalogue: str = "catalogue"  # name of the table of items
    validation: Annotated[float, Gt(0), Lt(0.5)] = 0.1
    test: Annotated[float, Gt(0), Lt(0.5)] = 0.1

    @model_validator(mode="after")
    def _something_is_left(self) -> SplitRatingsParams:
        if self.validation + self.test > 0.8:
            raise ValueError("validation and test together leave less than a fifth for training")
        return self


def data_holder(ctx: Context, params: SplitRatingsParams) -> Outputs:
    """Return train, validation and test (user, item, rating) with the ids behind the indices."""
    table: pa.Table = ctx.inputs["tables"][params.ratings]
    # 1. Indices, and the canonical order.
    catalogue: pa.Table = ctx.inputs["tables"][params.catalogue]
    users, items = sorted_ids(table["user_id"]), sorted_ids(catalogue["item_id"])
    u, i = positions(table["user_id"], users), item_positions(ctx, table, items, params.catalogue)
    order = np.lexsort((i, u))
    rows = rating_table(u[order], i[order], table["rating"].to_numpy()[order])
    # 2. One draw for all rows.
    n = len(rows)
    drawn = ctx.shared_rng("split").permutation(n)
    n_test, n_validation = round(params.test * n), round(params.validation * n)
    parts = np.split(drawn, [n_test, n_test + n_validation])
    # 3. Each part in canonical order again.
    names = ("test", "validation", "train")
    ratings = {name: rows.take(np.sort(part)) for name, part in zip(names, parts, strict=True)}
    for name in names:
        ctx.metric(f"{name}.rows", len(ratings[name]))
    return {"ratings": {**ratings, "users": pa.table({"user_id": users}), "items": numeric_items(catalogue, items)}}


COMPONENT = Component(
    name="split_ratings",
    roles={"data_holder": data_holder},
    params=SplitRatingsParams,
    inputs={"tables": "validated tables"},
    outputs={
        "ratings": "train, validation, test: user, item, rating; users, items: the ids behind the indices, "
        "items with their numeric columns"
    },
    adversary="nothing crosses: every party splits its own ratings",
)
