"""The tables and columns that the parameters of a pipeline name, and the tables that each party has before a step.

Parameters say in their schema that they name a table or a column (`components.declared`), so
what is wrong is found before anything runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from base.yaml_lines import KeyPath
from components.registry import catalogue
from pipelines.spec import PipelineSpec


@dataclass(frozen=True)
class TableUse:
    """A table that a step reads at a party, and the key of the pipeline that names it."""

    param: str
    input: str
    party: str
    table: str
    path: KeyPath


def named_tables(spec: PipelineSpec, step: str) -> Iterator[TableUse]:
    """Yield the tables that the parameters of a step name, for each party that takes part."""
    params = spec.step_params(step)
    for name, schema in _properties(spec, step).items():
        by_party = bool(schema.get("by_party"))
        entry = schema.get("additionalProperties", {}) if by_party else schema
        for party in spec.step_parties(step) if "table_in" in entry else ():
            path: KeyPath = ("steps", step, "params", name, *([party] if by_party else []))
            yield TableUse(name, entry["table_in"], party, params[name][party] if by_party else params[name], path)


def named_columns(spec: PipelineSpec, step: str) -> Iterator[tuple[str, TableUse, list[str]]]:
    """Yield (parameter that names a column, one of the tables that must have it, types that it may be of)."""
    for name, schema in _properties(spec, step).items():
        for use in named_tables(spec, step) if "column_of" in schema else ():
            if use.param == schema["column_of"]:
                yield name, use, schema["column_types"]


def tables_at(spec: PipelineSpec, step: str, input_name: str, party: str) -> tuple[str, ...] | None:
    """Return the tables in an input at a party: the data sets that it loads; None where the pipeline does not say."""
    source = spec.steps[step].inputs.get(input_name)
    while source is not None:
        step, output = source.split(".")
        if (sets := spec.steps[step].params.get("data_sets")) is not None:
            return tuple(sets.get(party, ()))
        source = spec.steps[step].inputs.get(output)  # an output with an input's name has the tables of that input
    return None


def _properties(spec: PipelineSpec, step: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = catalogue()[spec.steps[step].component]["params"].get("properties", {})
    return found
