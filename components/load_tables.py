"""Read a party's data sets as they lie there: text in the columns of their feature spec, rows and nulls counted.

Every data_holder ends with its own tables, each carrying the name and the digest of its spec in its metadata; nothing
crosses. Ids stay text: an 18-digit id or a leading zero survives.
"""

from __future__ import annotations

from typing import Annotated, Any

import pyarrow as pa
from annotated_types import MinLen

from components.contract import Component, Context, Outputs, Params
from components.declared import ByParty
from features.tables import require_columns


class LoadTablesParams(Params):
    """Which data sets each party brings."""

    data_sets: Annotated[
        dict[str, Annotated[tuple[str, ...], MinLen(1)]], ByParty
    ]  # party -> names, as in the accord and in party.yaml


def data_holder(ctx: Context, params: LoadTablesParams) -> Outputs:
    """Return the party's tables and what was read."""
    names = params.data_sets.get(ctx.party, ())
    ctx.require(bool(names), "no data set is named for this party", expected="one or more", found="none",
                remedy=f"add {ctx.party} under data_sets of step {ctx.step}")  # fmt: skip
    tables, report = {}, {}
    for done, name in enumerate(names):
        tables[name], report[name] = _load(ctx, name)
        ctx.metric(f"{name}.rows_read", len(tables[name]))
        ctx.progress(done + 1, len(names), "tables")
    return {"tables": tables, "report": report}


def _load(ctx: Context, name: str) -> tuple[pa.Table, dict[str, Any]]:
    raw, entry = ctx.data(name)
    spec = ctx.spec(entry["spec"])
    require_columns(raw, spec, f"data set {name}, ")
    ctx.require(len(raw) > 0, f"data set {name} is empty", expected="a header and rows", found="no rows",
                remedy=f"export it again; data_sets.{name} in party.yaml names the file")  # fmt: skip
    table = raw.select(list(spec.columns))
    nulls = {column: table[column].null_count for column in spec.columns if table[column].null_count}
    metadata = {"spec": spec.name, "spec_digest": spec.digest, "agreed": entry.get("digest") or ""}
    return table.replace_schema_metadata(metadata), {"rows": len(table), "nulls": nulls, **metadata}


COMPONENT = Component(
    name="load_tables",
    roles={"data_holder": data_holder},
    params=LoadTablesParams,
    outputs={"tables": "raw tables by name, all text", "report": "rows, nulls by column, spec and its digest"},
    adversary="nothing crosses: every party reads its own files",
)
