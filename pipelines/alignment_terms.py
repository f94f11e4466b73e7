"""What an accord says about alignments, and whether a step keeps to it: membership is itself a secret.

Every id that a peer may test, and every party that may learn who is common, is a person's matter: so nothing is allowed
that the terms do not name, and a pipeline's defaults count as if they were written.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import Field

from base.errors import ConsentError
from base.near import did_you_mean
from base.yaml_lines import KeyPath
from components.declared import Label
from pipelines.spec import Name, PipelineSpec, Strict

REMEDY = "change the pipeline, or agree on a new version of the accord"
Locate = Callable[[KeyPath], str]  # a key of the pipeline's file -> where it stands
_WITH = {"allow_low_entropy": " with low_entropy_keyed_hash: true"}  # a parameter whose term has another name
Limits = list[tuple[str, Callable[[Any], bool], str]]  # (parameter, is its value allowed, what is expected)


class AlignmentTerms(Strict):
    """What the parties agree on about who is common to them."""

    learns_alignment: list[Name] = []  # who may learn which people two parties share
    min_overlap: Annotated[int, Field(ge=0)] = 0
    max_signatures: Annotated[int, Field(ge=0)] = 0  # blind signatures over a key's life, padding included
    max_tests: Annotated[int, Field(ge=0)] = 0  # ids of a peer that may be tested, over the accord's life, with padding
    key_period: Label = ""  # a new label makes new keys: what was signed or tagged before tests no one any more
    cardinality_pass: bool = False  # the number in common is found, and judged, before anyone learns who
    low_entropy_keyed_hash: bool = False  # keyed hashes also of ids that can be tried one by one: telephone numbers


def admit_alignment(terms: AlignmentTerms, spec: PipelineSpec, step: str, at: Locate) -> None:
    """Raise `ConsentError` unless step `step` keeps to the terms; a parameter that it does not have is no matter."""
    params = spec.step_params(step)
    path = ("steps", step, "params", "reveal_to") if params.get("reveal_to") else ("roles",)
    remedy = _fewer_learners(terms, spec, step)
    need("learner of the alignment", _learners(spec, step, params), set(terms.learns_alignment), at(path), remedy)
    keep_within(params, _limits(terms, params), step, at)


def _learners(spec: PipelineSpec, step: str, params: dict[str, Any]) -> set[str]:
    """The receiver sees the matches before it tells anyone, whoever `reveal_to` names.

    Also where only the number is asked for: a receiver that masks each id with another scalar sees who.
    """
    receivers = set(spec.step_roles(step).get("receiver", ()))
    if params.get("cardinality_only"):
        return receivers
    return set(params.get("reveal_to") or spec.step_parties(step)) | receivers


def _fewer_learners(terms: AlignmentTerms, spec: PipelineSpec, step: str) -> str:
    """Return what to write where more would learn than may: tell those that may, with a receiver that may."""
    may = [party for party in spec.step_parties(step) if party in terms.learns_alignment]
    if set(spec.step_roles(step).get("receiver", ())) <= set(may):
        return f"reveal_to: [{', '.join(may)}] under params of step {step}; to tell more, a new version of the accord"
    renew = "a new version of the accord"
    return f"the receiver sees who is common: {' or '.join(may)} as receiver, or {renew}" if may else renew


def _limits(terms: AlignmentTerms, params: dict[str, Any]) -> Limits:
    """Return what the terms say of the parameters of an alignment."""
    counted = bool(params.get("cardinality_pass") or params.get("cardinality_only"))
    signed = "max_signatures" in params  # signatures are what tests ids there, and points only where they are counted
    return [
        ("min_overlap", lambda n: n >= terms.min_overlap, f"at least {terms.min_overlap}"),
        ("max_signatures", lambda n: n <= terms.max_signatures, f"at most {terms.max_signatures}"),
        ("max_tests", lambda n: (signed and not counted) or n <= terms.max_tests, f"at most {terms.max_tests}"),
        ("key_period", lambda label: label == terms.key_period, json.dumps(terms.key_period)),
        ("cardinality_pass", lambda _: counted or not terms.cardinality_pass, "true, as the accord asks for it"),
        ("allow_low_entropy", lambda on: terms.low_entropy_keyed_hash or not on, "false"),
    ]


def need(what: str, asked: set[str], allowed: set[str], where: str, remedy: str = "") -> None:
    """Raise `ConsentError`, with `remedy` or the nearest name, for what is asked and not allowed."""
    if extra := asked - allowed:
        near = did_you_mean(min(extra), allowed)
        raise ConsentError(
            f"the accord does not name this {what}",
            expected=", ".join(sorted(allowed)) or "none",
            found=", ".join(sorted(extra)),
            where=where,
            remedy=remedy or (f"{near} Otherwise {REMEDY}" if near else REMEDY),
        )


def keep_within(params: dict[str, Any], limits: Limits, step: str, at: Locate) -> None:
    """Raise `ConsentError` for the first parameter beyond its limit; one that the step does not have is no matter."""
    for name, allowed, expected in limits:
        if name in params and not allowed(params[name]):
            raise ConsentError(
                f"parameter {name} is beyond the accord", expected=expected, found=json.dumps(params[name]),
                where=at(("steps", step, "params", name)), remedy=REMEDY + _WITH.get(name, ""),
            )  # fmt: skip
