"""What an accord lets a data set spend of its privacy, and whether a step that adds noise keeps to it.

Nothing is allowed that the terms do not name. The limit is over everything that the data set has ever spent, under any
accord: ε at the accord's δ; the node refuses what would exceed it when it happens (`runtime.spending`).
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from base.errors import ConsentError
from pipelines.alignment_terms import REMEDY, Locate, need
from pipelines.spec import Name, PipelineSpec, Strict


class PrivacyLimit(Strict):
    """What a data set may spend in its life; the unit is one person at one party."""

    epsilon: Annotated[float, Field(gt=0)]
    delta: Annotated[float, Field(gt=0, lt=1)]  # well below 1/people
    every_sum: bool = False  # true: no sum over the data set without noise, for ε says nothing about such a one


class PrivacyTerms(Strict):
    """What the parties agree on about noise."""

    privacy: dict[Name, PrivacyLimit] = {}  # by data set, of whatever party


def admit_privacy(terms: PrivacyTerms, spec: PipelineSpec, step: str, at: Locate) -> None:
    """Raise `ConsentError` unless the noise of step `step` keeps to the terms; one that does not sum is no matter."""
    params = spec.step_params(step)
    dp: dict[str, Any] | None = params.get("dp")
    if dp is None:
        if "protection" in params:
            _need_noise(terms, spec, step, at)
        return
    path = ("steps", step, "params", "dp")
    data_set = dp["data_set"]
    need("data set that spends privacy", {data_set}, set(terms.privacy), at((*path, "data_set")))
    for party in spec.step_roles(step)["data_holder"]:
        if data_set not in (read := read_by(spec, step, party)):
            raise ConsentError(
                "the data set that pays is not one that the sum is over", expected=", ".join(sorted(read)) or "none",
                found=f"{data_set}, which {party} does not load for it", where=at((*path, "data_set")),
                remedy="name the data set that has the people",
            )  # fmt: skip
    for name in ("epsilon", "delta"):
        most = getattr(terms.privacy[data_set], name)
        if dp[name] > most:
            raise ConsentError(
                f"{name} of a step is beyond what the accord lets {data_set} spend", expected=f"at most {most:g}",
                found=f"{dp[name]:g}", where=at((*path, name)), remedy=REMEDY,
            )  # fmt: skip


def _need_noise(terms: PrivacyTerms, spec: PipelineSpec, step: str, at: Locate) -> None:
    read = {name for party in spec.step_roles(step)["data_holder"] for name in read_by(spec, step, party)}
    if bound := sorted(name for name in read if name in terms.privacy and terms.privacy[name].every_sum):
        raise ConsentError(
            "the accord lets nothing out of a data set without noise", expected=f"dp in every sum over {bound[0]}",
            found=f"none, in step {step}", where=at(("steps", step, "params")), remedy="dp: {...} there; " + REMEDY,
        )  # fmt: skip


def read_by(spec: PipelineSpec, step: str, party: str) -> set[str]:
    """Return the data sets of a party that a step depends on, through all steps before it."""
    found, waiting = set[str](), [step]
    while waiting:
        name = waiting.pop()
        found |= set(spec.steps[name].params.get("data_sets", {}).get(party, ()))
        waiting += spec.upstream(name)
    return found
