"""Whether sums are protected as the feature specs of what they are over ask for, as far as these lie here.

    public     may be summed in the clear, where the accord names that (`protections`)
    internal   protected: secagg, paillier, or noise of every party (`dp`)
    sensitive  secagg or paillier, and besides noise (`dp`) or enough people behind what is told (`min_count`, ...)

A sum is over everything that its step depends on: the most sensitive column of all these tables decides.
"""

from __future__ import annotations

from collections.abc import Mapping

from base.errors import ConsentError
from features.spec import FeatureSpec
from pipelines.accord import SignedAccord
from pipelines.load import Pipeline
from pipelines.privacy_terms import read_by

LEVELS = ("public", "internal", "sensitive")
THRESHOLDS = ("min_count", "min_raters", "min_raters_per_item")  # an accord bounds each of them from below


def admit_sensitivity(pipeline: Pipeline, step: str, accord: SignedAccord, specs: Mapping[str, FeatureSpec]) -> None:
    """Raise `ConsentError` unless step `step`, if it sums, protects its columns; `specs`: those that lie here."""
    params = pipeline.spec.step_params(step)
    if (protection := params.get("protection")) is None:
        return
    level, where_from = _most_sensitive(pipeline, step, accord, specs)
    noise, behind = params.get("dp") is not None, any(params.get(name, 0) > 1 for name in THRESHOLDS)
    path, plain = pipeline.at(("steps", step, "params", "protection")), protection == "plain"
    if plain and (level == "sensitive" or (level == "internal" and not noise)):
        raise ConsentError(
            f"a sum over {level} columns may not be readable by the aggregator", where=path,
            expected="secagg or paillier" + (", or dp" if level == "internal" else ""), found=f"plain, {where_from}",
            remedy=f"protection: secagg under params of step {step}",
        )  # fmt: skip
    if level == "sensitive" and not (noise or behind):
        raise ConsentError(
            "a sum over sensitive columns tells of few people", where=path, found=f"neither, {where_from}",
            expected=f"dp, or one of {', '.join(THRESHOLDS)} above 1", remedy="dp: {...} under params of the step",
        )  # fmt: skip


def _most_sensitive(
    pipeline: Pipeline, step: str, accord: SignedAccord, specs: Mapping[str, FeatureSpec]
) -> tuple[str, str]:
    """Return the highest level of what the step depends on, and one column that has it."""
    found = ("public", "")
    for party in pipeline.spec.step_roles(step)["data_holder"]:
        for data_set in sorted(read_by(pipeline.spec, step, party)):
            known = specs.get(accord.terms.parties[party].data_sets[data_set].spec)
            for name, column in known.columns.items() if known else ():
                if LEVELS.index(column.sensitivity) > LEVELS.index(found[0]):
                    found = (column.sensitivity, f"column {name} of {data_set}")
    return found
