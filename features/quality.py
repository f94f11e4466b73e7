"""The gate before data are used: a Great Expectations suite made from the feature spec.

`features.tables` repairs and drops; this looks again, with another library, at what is left, and adds what only a whole
table can break: too few rows, too many nulls, a key that is not unique. A failed expectation stops the run with the
rule, the column and the count. Values are never asked for, so none can reach an error or a log.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from base.errors import ExpectationFailed
from features.id_forms import PATTERNS
from features.spec import Column, FeatureSpec, IdRule

os.environ["GX_ANALYTICS_ENABLED"] = "false"  # read when the library is imported: nothing is reported anywhere
import great_expectations as gx
from great_expectations import expectations as gxe

_ONE_AT_A_TIME = threading.Lock()  # the library keeps its context in a global
_COUNTS_ONLY = {"result_format": "BASIC", "partial_unexpected_count": 0}


def suite(spec: FeatureSpec) -> Any:
    """Return the suite of a spec; the same spec gives the same expectations."""
    table = [
        gxe.ExpectTableColumnsToMatchSet(column_set=list(spec.columns), exact_match=True),
        gxe.ExpectTableRowCountToBeBetween(min_value=spec.min_rows),
        _unique(spec.key),
    ]
    columns = [rule for name, column in spec.columns.items() for rule in _column(name, column)]
    return gx.ExpectationSuite(name=f"{spec.name}-{spec.digest[:12]}", expectations=[*table, *columns])


def check(frame: Any, spec: FeatureSpec) -> int:
    """Run the suite on an Arrow table or a Spark frame and return the number of expectations, all met.

    Raises `ExpectationFailed` for one that is not: what the whole table breaks comes first, then columns by name.
    """
    with _ONE_AT_A_TIME:
        context = gx.get_context(mode="ephemeral")
        context.enable_analytics(False)
        context.variables.progress_bars = {"globally": False}
        arrow = isinstance(frame, pa.Table)
        sources = context.data_sources
        source = sources.add_pandas(spec.name) if arrow else sources.add_spark(spec.name)
        batch = source.add_dataframe_asset(spec.name).add_batch_definition_whole_dataframe("all")
        found = batch.get_batch({"dataframe": frame.to_pandas() if arrow else frame})
        results = found.validate(suite(spec), result_format=_COUNTS_ONLY).results
    failed = [result for result in results if not result.success]
    if failed:
        _fail(spec, min(failed, key=_order))
    return len(results)


def _unique(key: tuple[str, ...]) -> Any:
    if len(key) == 1:
        return gxe.ExpectColumnValuesToBeUnique(column=key[0])
    return gxe.ExpectCompoundColumnsToBeUnique(column_list=list(key))


def _column(name: str, column: Column) -> Iterator[Any]:
    yield gxe.ExpectColumnValuesToNotBeNull(column=name, mostly=1 - column.max_null)
    if column.bounds or column.type == "flag":
        low, high = column.bounds or (0, 1)
        yield gxe.ExpectColumnValuesToBeBetween(column=name, min_value=low, max_value=high)
    if column.values:
        yield gxe.ExpectColumnValuesToBeInSet(column=name, value_set=list(column.values))
    if column.type == "id":
        yield gxe.ExpectColumnValuesToMatchRegex(column=name, regex=_pattern(column.normal_form))


def _pattern(rule: IdRule) -> str:
    """Return what a normal form looks like; text: no blanks at the ends when the rule strips them."""
    if rule.type == "integer":
        return f"^{re.escape(rule.prefix)}[0-9]{{{max(rule.width, 1)},{rule.max_length}}}$"
    if rule.type == "text":
        return r"^\S(.*\S)?$" if rule.strip else r"^.+$"
    return PATTERNS[rule.type]


def _order(result: Any) -> tuple[bool, str, str]:
    rule = str(result.expectation_config.type)
    return not rule.startswith("expect_table"), _where(result), rule


def _where(result: Any) -> str:
    settings = result.expectation_config.kwargs
    return str(settings.get("column") or "+".join(settings.get("column_list", [])) or "(table)")


def _fail(spec: FeatureSpec, result: Any) -> None:
    settings, counts = result.expectation_config.kwargs, result.result
    rule = result.expectation_config.type
    if "unexpected_count" in counts:
        found = f"{counts['unexpected_count']} of {counts['element_count']} rows break it"
    elif rule == "expect_table_row_count_to_be_between":
        found = f"{counts['observed_value']} rows"
    else:
        found = "the table does not fit the rule"
    limits = ("min_value", "max_value", "mostly", "column_set")
    expected = ", ".join(f"{limit} {settings[limit]}" for limit in limits if settings.get(limit) is not None)
    raise ExpectationFailed(
        f"{rule} does not hold",
        expected=expected or "every row",
        found=found,
        where=f"feature spec {spec.name}, column {_where(result)}",
        remedy="repair the data set; the spec says what each column may hold",
    )
