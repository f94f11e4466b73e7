"""Whether ids fit the alignment that is asked for them, as far as their feature specs lie here.

The same is refused in the run, by the parties themselves; here it is found before anything is approved.
"""

from __future__ import annotations

from collections.abc import Mapping

from base.errors import ConsentError, SpecError
from features.id_entropy import low_entropy
from features.spec import Column, FeatureSpec
from pipelines.alignment_terms import AlignmentTerms
from pipelines.load import Pipeline

BOTH = "both allow_low_entropy: true in the step and low_entropy_keyed_hash: true in a new version of the accord"


def admit_ids(
    terms: AlignmentTerms, pipeline: Pipeline, step: str, columns: Mapping[str, tuple[FeatureSpec, Column]]
) -> None:
    """Raise `ConsentError` for keyed hashes of ids that can be counted through, `SpecError` for two rules of ids.

    `columns` are what is known of the ids, by party.
    """
    params, where = pipeline.spec.step_params(step), pipeline.at(("steps", step, "params", "id_column"))
    refused = "allow_low_entropy" in params and not (params["allow_low_entropy"] and terms.low_entropy_keyed_hash)
    for party, (known, column) in columns.items():
        if refused and low_entropy(column.normal_form):
            raise ConsentError(
                f"ids of {party} can be tried one by one by the party that holds the key", where=where,
                expected="ids of a large space", found=f"type {column.normal_form.type} in feature spec {known.name}",
                remedy=f"align_ecdh or align_rsa; or {BOTH}",
            )  # fmt: skip
    _one_rule(columns, where)


def _one_rule(columns: Mapping[str, tuple[FeatureSpec, Column]], where: str) -> None:
    """Refuse ids that are written by two rules: nothing would match."""
    parties = list(columns.items())
    for party, (spec, other) in parties[1:]:
        first, (own, column) = parties[0]
        mine, theirs = column.normal_form.model_dump(), other.normal_form.model_dump()
        if differing := [key for key, value in mine.items() if theirs[key] != value]:
            raise SpecError(
                f"ids of {first} and {party} are written by different rules", expected="one rule in all specs",
                found=f"another {', '.join(differing)} in the feature spec {spec.name} than in {own.name}", where=where,
                remedy=f"the same rule for the column in {own.name}.yaml and {spec.name}.yaml, or a new column for it",
            )  # fmt: skip
