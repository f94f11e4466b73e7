"""The feature_holder's columns as features X (m, d) by aligned index: what it knows of people, never sent in clear.

Three kinds of columns, as the feature specs say: demographics (numbers merged by rank, categories one-hot), shares of
a person's behaviour by flag of the catalogue (genres), and the user factors of its own factorisation of that behaviour.
Numbers are merged to groups by rank, rare categories dropped, and the largest leverage of a person is bounded.

The factorisation starts from `private_rng`: with a start that the label_holder knows, it could decode attributes from
what it sees later. Nothing crosses here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from annotated_types import Ge, Gt, Le

from components.contract import Component, Context, Outputs, Params
from components.declared import TableName
from features.behaviour import flag_shares
from features.encoders import OneHot, RankGroups, fit_one_hot, fit_ranks, names, require_leverage, state
from features.indexing import aligned_ids, positions, sorted_ids
from features.spec import FeatureSpec
from models import vertical as mf

Pair = tuple[RankGroups | OneHot, Any]  # an encoder and its column of m values


class EncodeFeaturesParams(Params):
    """Names of the tables, and how much of a person may show."""

    people: TableName = "people"
    behaviour: TableName = "behaviour"
    catalogue: TableName = "catalogue"
    factors: Annotated[int, Ge(1), Le(64)] = 16  # of the own factorisation; a bias comes on top
    sweeps: Annotated[int, Ge(1), Le(100)] = 10  # of the own factorisation
    reg_user: Annotated[float, Gt(0)] = 10.0  # ridge weights, in units of squared stars
    reg_item: Annotated[float, Gt(0)] = 20.0
    reg_bias: Annotated[float, Gt(0)] = 2.0
    group_size: Annotated[int, Ge(10)] = 10  # people who share a level or a category, at least
    max_leverage: Annotated[float, Gt(0), Le(0.5)] = 0.5


def feature_holder(ctx: Context, params: EncodeFeaturesParams) -> Outputs:
    """Return X and the fitted encoders."""
    tables = ctx.inputs["tables"]
    people = aligned_ids(tables[params.people]["user_id"], ctx.inputs["alignment"])  # (m,)
    # 1. Columns of the aligned people, each merged to groups.
    pairs = [*_demographics(ctx, params, people), *_shares(ctx, params, people), *_factors(ctx, params, people)]
    ctx.progress(1, 2, "stages")
    # 2. One matrix; nobody may stand out.
    X = np.column_stack([encoder.apply(values) for encoder, values in pairs])  # (m, d)
    found = require_leverage(X, params.max_leverage, f"{ctx.party}, step {ctx.step}")
    ctx.metric("columns", X.shape[1])
    ctx.metric("leverage", found)
    ctx.progress(2, 2, "stages")
    columns = [name for encoder, _ in pairs for name in names(encoder)]
    encoding = {"columns": columns, "people": len(people), "encoders": [state(encoder) for encoder, _ in pairs]}
    return {"features": {"X": X}, "encoding": encoding}


def _demographics(ctx: Context, params: EncodeFeaturesParams, people: pa.Array) -> Iterator[Pair]:
    table = ctx.inputs["tables"][params.people]
    rows = table.take(pa.array(positions(people, table["user_id"].combine_chunks())))
    spec = _spec(ctx, table)
    for name in spec.encoded("rank"):
        yield from _ranked(name, rows[name].to_numpy(), params.group_size)
    for name in spec.encoded("one_hot"):
        values = np.array(rows[name].to_pylist(), dtype=object)
        yield fit_one_hot(name, values, params.group_size), values


def _shares(ctx: Context, params: EncodeFeaturesParams, people: pa.Array) -> Iterator[Pair]:
    tables = ctx.inputs["tables"]
    behaviour, catalogue = tables[params.behaviour], tables[params.catalogue]
    flags = _spec(ctx, catalogue).encoded("shares")
    shares = flag_shares(ctx.spark(), behaviour, catalogue, flags, people)
    for n, flag in enumerate(flags):
        yield from _ranked(f"share_{flag}", shares[:, n], params.group_size)


def _factors(ctx: Context, params: EncodeFeaturesParams, people: pa.Array) -> Iterator[Pair]:
    """Fit the behaviour of the aligned people alone, and take the user side: bias and factors."""
    table = ctx.inputs["tables"][params.behaviour]
    user, items = positions(table["user_id"], people), sorted_ids(table["item_id"])
    mine = user >= 0
    item, value = positions(table["item_id"], items)[mine], table["rating"].to_numpy()[mine]
    ratings = mf.Ratings(user[mine], item, value, (len(people), len(items)))
    ridge = mf.Ridge(params.reg_user, params.reg_item, params.reg_bias)
    P = mf.fit(ratings, params.factors, ridge, params.sweeps, ctx.private_rng("factors")).P  # (m, k+1)
    for n in range(P.shape[1]):
        yield from _ranked("bias" if n == 0 else f"factor_{n}", P[:, n], params.group_size)


def _ranked(name: str, values: Any, size: int) -> Iterator[Pair]:
    encoder = fit_ranks(name, np.asarray(values, dtype=np.float64), size)
    if encoder is not None:
        yield encoder, np.asarray(values, dtype=np.float64)


def _spec(ctx: Context, table: pa.Table) -> FeatureSpec:
    spec: FeatureSpec = ctx.spec(table.schema.metadata[b"spec"].decode())
    return spec


COMPONENT = Component(
    name="encode_features",
    roles={"feature_holder": feature_holder},
    params=EncodeFeaturesParams,
    inputs={"tables": "validated tables", "alignment": "row and aligned index"},
    outputs={"features": "X (m, d) by aligned index", "encoding": "the fitted encoders and the names of the columns"},
    adversary="nothing crosses: the feature_holder encodes its own columns",
)
