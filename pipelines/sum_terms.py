"""What an accord says about sums over parties, and whether a step keeps to it.

A statistic of all people still speaks about people: so the parties agree how sums are protected, how many own people
stand behind what a bank lets out, and how often it leaves. A new `epoch` is a new version of the accord.
"""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import Field

from pipelines.alignment_terms import Label, Limits, Locate, keep_within, need
from pipelines.spec import PipelineSpec, Strict


class SumTerms(Strict):
    """What the parties agree on about sums."""

    protections: list[Literal["secagg", "paillier", "plain"]] = []  # plain: readable by the aggregator, for measuring
    epoch: Label = ""  # statistics of histories leave once in it; a new label lets them out again
    min_raters: Annotated[int, Field(ge=1)] = 10  # own people behind an item of such statistics
    min_pairs: Annotated[int, Field(ge=1)] = 3  # own people behind a pair of items


def admit_sum(terms: SumTerms, spec: PipelineSpec, step: str, at: Locate) -> None:
    """Raise `ConsentError` unless step `step` keeps to the terms; a parameter that it does not have is no matter."""
    params = spec.step_params(step)
    if how := params.get("protection"):
        need("protection of sums", {how}, set(terms.protections), at(("steps", step, "params", "protection")))
    keep_within(params, _limits(terms), step, at)


def _limits(terms: SumTerms) -> Limits:
    return [
        ("min_raters", lambda n: n >= terms.min_raters, f"at least {terms.min_raters}"),
        ("min_pairs", lambda n: n >= terms.min_pairs, f"at least {terms.min_pairs}"),
        ("epoch", lambda label: label == terms.epoch, json.dumps(terms.epoch)),
    ]
