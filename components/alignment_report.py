"""What an alignment leaves at a party: who stands where, if it may learn that, and counts of its own ids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from components.alignment import AlignParams
from components.alignment_ids import Ids
from components.contract import Context, Outputs
from features.indexing import alignment_table


def finish(ctx: Context, params: AlignParams, ids: Ids, rows: np.ndarray | None, overlap: int | None) -> Outputs:
    """Return the outputs of an alignment: `rows` in the aligned order, None where this party does not learn it."""
    report = join_report(ctx, params, ids, rows, overlap)
    for name in ("distinct", "aligned"):
        if report[name] is not None:
            ctx.metric({"distinct": "ids"}.get(name, name), report[name])
    if rows is None:
        return {"report": report}
    alignment = alignment_table(rows, ids.digest).append_column("first", pa.array(ids.first[rows]))
    return {"alignment": alignment, "report": report}


def join_report(ctx: Context, params: AlignParams, ids: Ids, rows: np.ndarray | None, overlap: int | None) -> Any:
    """Return counts of this party alone, never an id: what was read, why ids were invalid, what is aligned."""
    table = params.tables[ctx.party]
    validated: Mapping[str, Any] = ctx.inputs.get("report", {}).get(table, {})
    kinds = f"{params.id_column}."
    invalid = {
        rule.removeprefix(kinds): n for rule, n in validated.get("dropped", {}).items() if rule.startswith(kinds)
    }
    return {
        "table": table,
        "read": validated.get("read"),
        "null": invalid.pop("null", 0),
        "invalid": invalid,
        "dropped_duplicates": validated.get("dropped", {}).get("duplicate", 0),  # rows, by the key of the spec
        "rows": int(ids.count.sum()),
        "distinct": len(ids.values),
        "duplicate": int((ids.count > 1).sum()),
        "padded": ids.padded,
        "buckets": params.buckets,
        "aligned": overlap if rows is None else len(rows),
        "rows_joined": None if rows is None else _joined(params, ids, rows),
    }


def _joined(params: AlignParams, ids: Ids, rows: np.ndarray) -> int:
    return int(ids.count[rows].sum()) if params.on_duplicates == "all" else len(rows)
