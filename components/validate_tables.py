"""Normal ids, types and known dirt; then the gate: every data_holder ends with tables that fit their feature specs.

Rows that break a rule are dropped and counted by rule, up to `max_dropped` of a table; above that the table is refused,
since a file that is so dirty is another file. The suite of Great Expectations made from the spec looks at what is left.
Nothing crosses. Errors and reports say rule, column and count, never a value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import pyarrow as pa
from annotated_types import Ge, Le

from base.errors import ExpectationFailed
from components.contract import Component, Context, Outputs, Params
from features.id_entropy import notes
from features.quality import check
from features.spec import FeatureSpec
from features.tables import Clean, clean, id_digest


class ValidateTablesParams(Params):
    """How much dirt is too much."""

    max_dropped: Annotated[float, Ge(0), Le(1)] = 0.05  # share of the rows of a table, all rules together
    engine: Literal["pandas", "spark"] = "pandas"  # of the gate: spark pays from some million rows on


def data_holder(ctx: Context, params: ValidateTablesParams) -> Outputs:
    """Return the clean tables, with the columns and types of their specs, and the counts by rule."""
    tables, report = {}, {}
    raw: Mapping[str, pa.Table] = ctx.inputs["tables"]
    for done, name in enumerate(sorted(raw)):
        spec = _spec(ctx, name, raw[name])
        # 1. Normal forms, types, bounds, nulls, duplicates: one Spark job.
        found = clean(ctx.spark(), raw[name], spec)
        _limit(ctx, name, found, params.max_dropped)
        # 2. The gate, on what is left.
        table = found.table.replace_schema_metadata(raw[name].schema.metadata)
        rules = check(table if params.engine == "pandas" else ctx.spark().createDataFrame(table), spec)
        _agreed(ctx, name, table, spec)
        tables[name], report[name] = table, {**found.document(), "expectations": rules, "notes": notes(spec)}
        # 3. What a person sees.
        ctx.metric(f"{name}.rows", len(table))
        for rule, count in found.dropped.items():
            ctx.metric(f"{name}.dropped.{rule}", count)
        ctx.progress(done + 1, len(raw), "tables")
    return {"tables": tables, "report": report}


def _spec(ctx: Context, name: str, table: pa.Table) -> FeatureSpec:
    """Return the spec that the table was read under; refuse another version of it."""
    metadata = table.schema.metadata or {}
    spec: FeatureSpec = ctx.spec(metadata.get(b"spec", b"").decode())
    read_under = metadata[b"spec_digest"].decode()
    ctx.require(spec.digest == read_under, f"the spec of {name} changed after it was read", expected=read_under,
                found=spec.digest, remedy="run the pipeline again from the load step")  # fmt: skip
    return spec


def _limit(ctx: Context, name: str, found: Clean, max_dropped: float) -> None:
    dropped = found.read - len(found.table)
    if dropped > max_dropped * found.read:
        raise ExpectationFailed(
            f"too many rows of {name} break the spec",
            expected=f"at most {max_dropped:.1%} of {found.read} rows",
            found=f"{dropped}: " + ", ".join(f"{rule} {count}" for rule, count in found.dropped.items()),
            where=f"{ctx.party}, step {ctx.step}",
            remedy="repair the file, or raise max_dropped after looking at the rules",
        )


def _agreed(ctx: Context, name: str, table: pa.Table, spec: FeatureSpec) -> None:
    """Refuse another catalogue than the accord agreed on, where it names a digest of ids."""
    agreed = table.schema.metadata[b"agreed"].decode()
    found = id_digest(table[spec.key[0]]) if agreed else ""
    ctx.require(agreed == found, f"{name} is not the table that the accord agreed on", expected=agreed, found=found,
                remedy="bring the agreed table, or sign a new accord")  # fmt: skip


COMPONENT = Component(
    name="validate_tables",
    roles={"data_holder": data_holder},
    params=ValidateTablesParams,
    inputs={"tables": "raw tables by name, all text, with their spec in the metadata"},
    outputs={"tables": "tables that fit their specs", "report": "rows read, kept and dropped by rule"},
    adversary="nothing crosses: every party looks at its own tables",
)
