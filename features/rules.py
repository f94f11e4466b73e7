"""The rules of a feature spec, applied to rows in Arrow: normal forms, types, nulls, bounds, allowed values.

Rule names are `<column>.<kind>` with the kinds of `idnorm` and `id_forms` for ids, categories and text (null, form,
length, control, ...) and null, type, bounds, values for the rest. The rules of ids come first, so that every id that is
null or invalid is counted as such, whatever else its row breaks.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from features.idnorm import NULL, normalise
from features.spec import Column, FeatureSpec, IdRule

ROW, REASON = "_row", "_reason"
TYPES = {"real": pa.float64(), "integer": pa.int64(), "flag": pa.int8()}  # every other type is text
_REAL = r"^-?[0-9]{1,18}([.][0-9]{1,18})?([eE][+-]?[0-9]{1,2})?$"
_WHOLE = r"^-?[0-9]{1,18}$"
_AS_TEXT = IdRule(max_length=64)  # how a number is read: NFKC, strip, the usual spellings of null


def schema(spec: FeatureSpec) -> pa.Schema:
    """Return the columns of a judged table: those of the spec, typed, with `_row` and `_reason`."""
    columns = [(name, TYPES.get(column.type, pa.string())) for name, column in spec.columns.items()]
    return pa.schema([*columns, (ROW, pa.int64()), (REASON, pa.string())])


def judge(rows: pa.RecordBatch, spec: FeatureSpec) -> pa.RecordBatch:
    """Return typed values, `_row` as it came, and `_reason`: the first rule that makes the row leave.

    First means ids, then the order of columns. `_reason` is null for a good row. A value that a rule turned down is
    null.
    """
    values, reasons = [], {}
    for name, column in spec.columns.items():
        value, kind = read(rows.column(name), column)
        values.append(value)
        reasons[name] = _leaves(kind, name, column)
    ids_first = sorted(reasons, key=lambda name: spec.columns[name].type != "id")
    reason = pc.coalesce(*(reasons[name] for name in ids_first))
    return pa.RecordBatch.from_arrays([*values, rows.column(ROW), reason], schema=schema(spec))


def read(texts: pa.Array, column: Column) -> tuple[pa.Array, pa.Array]:
    """Return (values of the column's type, null where a rule turned them down; the kind of that rule or "")."""
    if column.type in ("id", "category", "text"):
        values, kind = normalise(texts, column.normal_form)
        if column.values is not None:
            allowed = pc.is_in(values, value_set=pa.array(column.values))
            kind = pc.if_else(pc.or_(allowed, pc.is_null(values)), kind, "values")
    else:
        text, kind = normalise(texts, _AS_TEXT)
        values = _number(text, column)
        kind = pc.if_else(pc.and_(pc.is_null(values), pc.is_valid(text)), "type", kind)
        low, high = (0, 1) if column.type == "flag" else column.bounds or (float("-inf"), float("inf"))
        about = values.cast(pa.float64(), safe=False)  # near enough to compare with a bound
        inside = pc.and_(pc.greater_equal(about, low), pc.less_equal(about, high))
        kind = pc.if_else(pc.fill_null(inside, True), kind, "bounds")
    good = pc.equal(kind, "")
    return pc.if_else(good, values, pa.scalar(None, values.type)).cast(TYPES.get(column.type, pa.string())), kind


def _number(text: pa.Array, column: Column) -> pa.Array:
    real = column.type == "real"
    fits = pc.match_substring_regex(text, _REAL if real else _WHOLE)
    return pc.if_else(fits, text, pa.scalar(None, pa.string())).cast(pa.float64() if real else pa.int64())


def _leaves(kind: pa.Array, name: str, column: Column) -> pa.Array:
    """Return the rule's full name where the row must leave, else null."""
    stays = pc.equal(kind, "")
    if column.on_null == "keep":
        stays = pc.or_(stays, pc.equal(kind, NULL))
    if column.on_invalid == "null":
        stays = pc.or_(stays, pc.not_equal(kind, NULL))
    rule = pc.binary_join_element_wise(name, kind, ".")
    return pc.if_else(stays, pa.scalar(None, pa.string()), rule)
