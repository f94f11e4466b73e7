"""Whether the columns that a pipeline names are in the feature specs of its tables, as far as these specs lie here.

Which spec a party's data set keeps to is in the accord. A node runs only where all parties hold the same specs, so one
party's own are enough to judge by; what is not here is not judged.
"""

from __future__ import annotations

from collections.abc import Mapping

from base.errors import SpecError
from base.near import did_you_mean
from features.spec import Column, FeatureSpec
from pipelines.accord import SignedAccord
from pipelines.alignment_ids import admit_ids
from pipelines.load import Pipeline
from pipelines.named_tables import TableUse, named_columns, tables_at
from pipelines.sensitivity import admit_sensitivity


def require_fit(pipeline: Pipeline, accord: SignedAccord, specs: Mapping[str, FeatureSpec]) -> None:
    """Raise `SpecError` for columns that do not fit, `ConsentError` for ids or sums that need another consent.

    The accord has admitted the pipeline; `specs` are the feature specs that lie here, by name.
    """
    for name, step in pipeline.spec.steps.items():
        columns = _columns(pipeline, name, accord, specs)
        if step.component.startswith("align_"):
            admit_ids(accord.terms, pipeline, name, columns)
        admit_sensitivity(pipeline, name, accord, specs)


def _columns(
    pipeline: Pipeline, step: str, accord: SignedAccord, specs: Mapping[str, FeatureSpec]
) -> Mapping[str, tuple[FeatureSpec, Column]]:
    """Return by party what is known of the column that a step names; `SpecError` for a wrong one."""
    spec, found = pipeline.spec, {}
    for param, use, types in named_columns(spec, step):
        if use.table not in (tables_at(spec, step, use.input, use.party) or ()):
            continue
        known = specs.get(accord.terms.parties[use.party].data_sets[use.table].spec)
        if known is not None:
            where = pipeline.at(("steps", step, "params", param))
            found[use.party] = known, _column(use, known, str(spec.step_params(step)[param]), types, where)
    return found


def _column(use: TableUse, spec: FeatureSpec, name: str, types: list[str], where: str) -> Column:
    table = f"table {use.table} of {use.party}"
    if name not in spec.columns:
        raise SpecError(
            f"{table} has no such column", expected=", ".join(spec.columns), found=name, where=where,
            remedy=did_you_mean(name, spec.columns) or f"a column of the feature spec {spec.name}, or another table",
        )  # fmt: skip
    if (column := spec.columns[name]).type not in types:
        wanted = f"type {' or '.join(types)}"
        raise SpecError(
            f"column {name} of {table} is of another type", expected=f"{wanted} in the feature spec {spec.name}",
            found=f"type {column.type}", where=where,
            remedy=f"another column, or {wanted} in {spec.name}.yaml, the same file at every party",
        )  # fmt: skip
    return column
