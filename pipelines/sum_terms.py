"""What an accord says about sums over parties, and whether a step keeps to it.

A statistic of all people still speaks about people: so the parties agree how sums are protected, how many own people
stand behind what a bank lets out, and how often it leaves. A new `epoch` is a new version of the accord.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import Field

from base.errors import ConsentError
from components.declared import Label
from pipelines.alignment_terms import REMEDY, Limits, Locate, keep_within, need
from pipelines.spec import Name, PipelineSpec, Strict

MIN_TO_CONTINUE = 4  # that of crypto.secagg_public, whose numpy a thin worker lacks


class SumTerms(Strict):
    """What the parties agree on about sums."""

    protections: list[Literal["secagg", "paillier", "plain"]] = []  # plain: readable by the aggregator, for measuring
    topologies: list[Literal["aggregator", "gossip"]] = ["aggregator"]  # gossip: sums over three to five are known too
    on_dropout: list[Literal["stop", "continue"]] = ["stop"]  # continue: rounds of training go on without who is late
    sum_rosters: list[list[Name]] = []  # over whom sums may be: two that differ by a party show what that party sent
    epoch: Label = ""  # statistics of histories leave once in it; a new label lets them out again
    min_raters: Annotated[int, Field(ge=1)] = 10  # own people behind an item of such statistics
    min_pairs: Annotated[int, Field(ge=1)] = 3  # own people behind a pair of items
    min_count: Annotated[int, Field(ge=1)] = 20  # own rows or people behind a statistic or an evaluation
    second_moments: bool = False  # iALS: Σ p pᵀ of an item's people, which say more than counts of pairs


def admit_sum(terms: SumTerms, spec: PipelineSpec, step: str, at: Locate) -> None:
    """Raise `ConsentError` unless step `step` keeps to the terms; a parameter that it does not have is no matter."""
    params = spec.step_params(step)
    if how := params.get("protection"):
        need("protection of sums", {how}, set(terms.protections), at(("steps", step, "params", "protection")))
        _need_one_sum(terms, spec, step, at)
        _need_topology(terms, params, at(("steps", step, "params", "topology")))
        _need_all(terms, params, spec.step_roles(step)["data_holder"], at(("steps", step, "params", "on_dropout")))
    keep_within(params, _limits(terms), step, at)


def _need_one_sum(terms: SumTerms, spec: PipelineSpec, step: str, at: Locate) -> None:
    """Two totals that differ by a party, or by a parameter that moves one row, show that party or that row."""
    roster, component = spec.step_roles(step)["data_holder"], spec.steps[step].component
    if list(roster) not in [sorted(named) for named in terms.sum_rosters]:
        allowed = "; ".join(", ".join(named) for named in terms.sum_rosters) or "none"
        raise ConsentError("the accord names no sum over these parties", expected=allowed, found=", ".join(roster),
                           where=at(("roles",)), remedy=REMEDY)  # fmt: skip
    if before := [name for name, other in spec.steps.items() if other.component == component and name != step]:
        raise ConsentError("two steps of one pipeline sum the same", expected=f"one step {component}",
                           found=f"{before[0]} and {step}", where=at(("steps", step, "component")),
                           remedy="a pipeline of its own, which people approve beside the first")  # fmt: skip


def _need_topology(terms: SumTerms, params: dict[str, Any], where: str) -> None:
    """Sums over neighbourhoods are a release of their own: the accord names them."""
    topology = params["topology"]
    need("topology of sums", {topology}, set(terms.topologies), where)
    if topology == "gossip" and params["protection"] != "secagg":
        raise ConsentError("sums without an aggregator have one protection", expected="secagg",
                           found=params["protection"], where=where, remedy="protection: secagg")  # fmt: skip
    if topology == "gossip" and len(terms.sum_rosters) > 1:
        # Rosters that differ by several parties can have neighbourhoods that differ by one.
        raise ConsentError("sums over neighbourhoods of several rosters", expected="one of sum_rosters in the accord",
                           found=len(terms.sum_rosters), where=where, remedy=REMEDY)  # fmt: skip


def _need_all(terms: SumTerms, params: dict[str, Any], roster: tuple[str, ...], where: str) -> None:
    """A total without a party and one with it show what that party sent: statistics are of all or not at all."""
    need("on_dropout of sums", {params["on_dropout"]}, set(terms.on_dropout), where)
    if "rounds" in params and params["on_dropout"] == "stop" and "continue" in terms.on_dropout:
        raise ConsentError("a training over all beside one without a party would show what that party sent",
                           expected="continue, in every training of this accord", found="stop", where=where,
                           remedy="on_dropout: continue, or an accord without it")  # fmt: skip
    if params["on_dropout"] == "continue":
        if (params["protection"], params["topology"]) != ("secagg", "aggregator"):
            raise ConsentError("only sums under masks go on without a party", expected="secagg, with an aggregator",
                               found=f"{params['protection']}, {params['topology']}", where=where,
                               remedy="protection: secagg, topology: aggregator")  # fmt: skip
        if "rounds" not in params:
            raise ConsentError("statistics would be of all parties once, and of all but one another time",
                               expected="a step that trains in rounds", found="a sum of statistics", where=where,
                               remedy="on_dropout: stop")  # fmt: skip
        if len(roster) < MIN_TO_CONTINUE:
            raise ConsentError("so few parties cannot go on without one", expected=f"{MIN_TO_CONTINUE} data_holders",
                               found=len(roster), where=where, remedy="on_dropout: stop")  # fmt: skip


def _limits(terms: SumTerms) -> Limits:
    return [
        ("min_raters", lambda n: n >= terms.min_raters, f"at least {terms.min_raters}"),
        ("min_pairs", lambda n: n >= terms.min_pairs, f"at least {terms.min_pairs}"),
        ("min_raters_per_item", lambda n: n >= terms.min_raters, f"at least {terms.min_raters}"),
        ("min_count", lambda n: n >= terms.min_count, f"at least {terms.min_count}"),
        ("second_moments", lambda on: terms.second_moments or not on, "false"),
        ("epoch", lambda label: label == terms.epoch, json.dumps(terms.epoch)),
    ]
