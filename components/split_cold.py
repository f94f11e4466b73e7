"""Training and test ratings of aligned people, some of whom are made new: what a feature_holder can do for strangers.

The label_holder draws `cold_share` of the aligned people and leaves each of them 0, 3 or 10 training ratings (groups of
equal size); all their other ratings are test. Of everybody else's ratings a share is test, at random. Nothing crosses.

    m   aligned people; `user` is the aligned index 0..m-1

Cold people are drawn among those with more ratings than the largest of `cold_ratings`, so that each has a test rating
and exactly the training ratings that its group says. Rows are put into canonical order before a draw; draws are public
choices. Ratings of people who are not aligned are left out, and counted.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
import pyarrow as pa
from annotated_types import Ge, Gt, Lt, MinLen
from numpy.typing import NDArray

from components.contract import Component, Context, Outputs, Params
from components.declared import TableName
from components.known_items import item_positions
from features.indexing import aligned_ids, positions, rating_table, sorted_ids

WARM = -1


class SplitColdParams(Params):
    """Who is made new, and how much is for the test."""

    ratings: TableName = "half_ratings"  # name of the table of ratings
    catalogue: TableName = "catalogue"  # name of the table of items
    cold_share: Annotated[float, Gt(0), Lt(1)] = 0.2  # of the aligned people
    cold_ratings: Annotated[tuple[Annotated[int, Ge(0)], ...], MinLen(1)] = (0, 3, 10)  # training ratings, by group
    test: Annotated[float, Gt(0), Lt(1)] = 0.1  # share of the ratings of everybody else


def label_holder(ctx: Context, params: SplitColdParams) -> Outputs:
    """Return train and test (user, item, rating), people (user, cold) and the ids behind the indices."""
    # 1. Ratings of aligned people, in canonical order.
    rows, users, items = _indexed(ctx, params)
    user = rows["user"].to_numpy()
    rng = ctx.shared_rng("split")
    # 2. The cold groups, and everybody else's test ratings.
    cold = _cold_people(ctx, np.bincount(user, minlength=len(users)), params, rng)
    place = _random_place(user, rng)  # 0, 1, ... in random order within each person
    warm = cold[user] == WARM
    test = np.where(warm, rng.random(len(user)) < params.test, place >= cold[user])
    # 3. What a person sees.
    ratings = {"train": rows.filter(pa.array(~test)), "test": rows.filter(pa.array(test))}
    for name, part in ratings.items():
        ctx.metric(f"{name}.rows", len(part))
    people = pa.table({"user": np.arange(len(users), dtype=np.int32), "cold": cold})
    ids = {"users": pa.table({"user_id": users}), "items": pa.table({"item_id": items})}
    return {"ratings": {**ratings, "people": people, **ids}}


def _indexed(ctx: Context, params: SplitColdParams) -> tuple[pa.Table, pa.Array, pa.Array]:
    table: pa.Table = ctx.inputs["tables"][params.ratings]
    items = sorted_ids(ctx.inputs["tables"][params.catalogue]["item_id"])
    users = aligned_ids(table["user_id"], ctx.inputs["alignment"])
    u, i = positions(table["user_id"], users), item_positions(ctx, table, items, params.catalogue)
    ctx.metric("people", len(users))
    ctx.metric("rows_not_aligned", int((u < 0).sum()))
    order = np.lexsort((i, u))
    order = order[u[order] >= 0]
    return rating_table(u[order], i[order], table["rating"].to_numpy()[order]), users, items


def _cold_people(
    ctx: Context, count: NDArray[np.int64], params: SplitColdParams, rng: np.random.Generator
) -> NDArray[np.int32]:
    """Return the training ratings that each person keeps, WARM for all of them; `count` (m,) is what they have."""
    wanted = round(params.cold_share * len(count))
    able = np.flatnonzero(count > max(params.cold_ratings))
    ctx.require(len(able) >= wanted, "too few people have enough ratings to be made new", expected=wanted,
                found=len(able), remedy="lower cold_share or cold_ratings")  # fmt: skip
    cold = np.full(len(count), WARM, dtype=np.int32)
    for n, person in enumerate(rng.permutation(able)[:wanted]):
        cold[person] = params.cold_ratings[n % len(params.cold_ratings)]
    return cold


def _random_place(user: NDArray[np.int32], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return for each rating its place in a random order of its person's ratings."""
    order = np.lexsort((rng.random(len(user)), user))
    start = np.searchsorted(user[order], user[order])  # where the person's block begins
    place = np.empty(len(user), dtype=np.int64)
    place[order] = np.arange(len(user)) - start
    return place


COMPONENT = Component(
    name="split_cold",
    roles={"label_holder": label_holder},
    params=SplitColdParams,
    inputs={"tables": "validated tables", "alignment": "row and aligned index"},
    outputs={"ratings": "train, test: user, item, rating; people: user, cold (-1 warm); users, items: ids"},
    adversary="nothing crosses: the label_holder splits its own ratings",
)
