"""Raw tables made clean, as one Spark job a table, with every row that leaves counted by the rule that it broke.

A row leaves for one reason: the first rule that it breaks, ids first (`features.rules`). A duplicate is looked for
among the rows that are otherwise good. No value enters a report or an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 (the name that Spark's own pages use)

from base.canonical import digest
from base.errors import DataError, ExpectationFailed
from features.idnorm import NULL
from features.rules import REASON, ROW, judge, schema
from features.spec import Column, FeatureSpec

DUPLICATE = "duplicate"
_SPARK_TYPES = {pa.string(): "string", pa.float64(): "double", pa.int64(): "bigint", pa.int8(): "tinyint"}


@dataclass(frozen=True)
class Clean:
    """A clean table, and what became of the rows that were read."""

    table: pa.Table  # in the order of the file, columns and types of the spec
    read: int
    dropped: dict[str, int]  # rows, by rule
    nulls: dict[str, int]  # nulls that the spec allows, by column
    distinct: dict[str, int]  # ids, by column

    def document(self) -> dict[str, Any]:
        """Return the counts as JSON."""
        counts = {"dropped": self.dropped, "nulls": self.nulls, "distinct": self.distinct}
        return {"read": self.read, "kept": len(self.table), **counts}


def clean(spark: Any, raw: pa.Table, spec: FeatureSpec) -> Clean:
    """Return the clean table of `raw` (text, the columns of the spec).

    Raises `DataError` for other columns, `ExpectationFailed` where the spec refuses a table for what it holds.
    """
    require_columns(raw, spec)
    judged = _judged(spark, raw, spec).sort_by(ROW)
    reasons = Counter({rule: count for rule, count in _counts(judged[REASON]).items() if rule is not None})
    _refuse(spec, reasons, len(raw))
    table = judged.filter(pc.is_null(judged[REASON])).select(list(spec.columns)).combine_chunks()
    nulls = {name: table[name].null_count for name, column in spec.columns.items() if column.on_null == "keep"}
    ids = [name for name, column in spec.columns.items() if column.type == "id"]
    distinct = {name: pc.count_distinct(table[name]).as_py() for name in ids}
    return Clean(table, len(raw), dict(sorted(reasons.items())), nulls, distinct)


def id_digest(ids: pa.ChunkedArray) -> str:
    """Return the SHA-256 of a set of ids in normal form: equal at two parties that hold the same catalogue."""
    return digest(sorted(set(ids.to_pylist())))


def require_columns(raw: pa.Table, spec: FeatureSpec, at: str = "") -> None:
    """Raise `DataError` unless the table, which stands `at`, has exactly the columns of its spec, each named once.

    A file without a header has values where names should be: names that are not in the spec are not shown.
    """
    if sorted(raw.column_names) != sorted(spec.columns):
        names = Counter(raw.column_names)
        other = [str(place + 1) for place, name in enumerate(raw.column_names) if name not in spec.columns]
        found = {
            "missing": [name for name in spec.columns if name not in names],
            "twice": [name for name in spec.columns if names[name] > 1],
            "not in the spec: column": other,
        }
        raise DataError(
            "a data set does not have the columns of its spec",
            expected=", ".join(sorted(spec.columns)),
            found="; ".join(f"{what} {', '.join(which)}" for what, which in found.items() if which),
            where=f"{at}feature spec {spec.name}",
            remedy="begin the file with the names of the columns, as in the spec, or correct the spec in the accord",
        )


def _counts(column: pa.ChunkedArray) -> dict[str | None, int]:
    return {row["values"]: row["counts"] for row in column.value_counts().to_pylist()}


def _judged(spark: Any, raw: pa.Table, spec: FeatureSpec) -> pa.Table:
    """Run the job: judge every row, then mark all but the first good row of a key."""
    numbered = raw.select(list(spec.columns)).append_column(ROW, pa.array(np.arange(len(raw))))
    columns = ", ".join(f"`{field.name}` {_SPARK_TYPES[field.type]}" for field in schema(spec))

    def judge_all(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (judge(batch, spec) for batch in batches)

    frame = spark.createDataFrame(numbered).mapInArrow(judge_all, columns)
    good = F.col(REASON).isNull()
    place = F.row_number().over(Window.partitionBy(*spec.key, good).orderBy(ROW))
    frame = frame.withColumn(REASON, F.when(good & (place > 1), DUPLICATE).otherwise(F.col(REASON)))
    return frame.toArrow().cast(schema(spec))


def _refuse(spec: FeatureSpec, reasons: Counter[str], read: int) -> None:
    """Raise for the first rule for which the spec refuses the table instead of dropping the row."""
    for rule, found in sorted(reasons.items()):
        name, _, kind = rule.partition(".")
        column = spec.columns.get(name)
        where = f"column {name}" if column else f"key {'+'.join(spec.key)}"
        if _policy(spec, column, kind) == "refuse":
            raise ExpectationFailed(
                f"rule {rule} of spec {spec.name} does not hold",
                expected="no such row",
                found=f"{found} of {read} rows",
                where=where,
                remedy="repair the data set, or let the spec say what becomes of such rows",
            )


def _policy(spec: FeatureSpec, column: Column | None, kind: str) -> str:
    if column is None:
        return spec.on_duplicate
    return column.on_null if kind == NULL else column.on_invalid
