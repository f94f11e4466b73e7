"""Who ends with an output of a step: what `components.declared.held_by` says, for the parameters of a pipeline.

An alignment that tells only some parties who is common leaves nothing for the others, and a later step would not find
its input there. The catalogue says it as data, so nothing is imported and nothing runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from base.yaml_lines import KeyPath
from components.registry import catalogue
from pipelines.spec import PipelineSpec


def holders(spec: PipelineSpec, step: str, output: str) -> tuple[str, ...]:
    """Return the parties that end with `output` of `step`, sorted."""
    return tuple(party for party in spec.step_parties(step) if hindrance(spec, step, output, party) is None)


def hindrance(spec: PipelineSpec, step: str, output: str, party: str) -> tuple[KeyPath, str] | None:
    """Return the key that keeps `output` of `step` from `party`, and what to change there; None when it gets it."""
    params, at = spec.step_params(step), ("steps", step, "params")
    if party not in spec.step_parties(step):
        return ("steps", step), f"make {party} a {' or '.join(spec.step_roles(step))} of step {step}"
    rule = _rules(spec, step).get(output, {})
    if params.get(rule.get("unless", "")):
        return (*at, rule["unless"]), f"{rule['unless']}: false"
    if (named := params.get(rule.get("named_by", ""))) and party not in named:
        return (*at, rule["named_by"]), f"name {party} in {rule['named_by']}, or nobody: then all get it"
    return None


def named_holders(spec: PipelineSpec, step: str) -> Mapping[str, Sequence[str]]:
    """Return the parameters of a step that name the parties which end with an output, with those parties."""
    names = [rule["named_by"] for rule in _rules(spec, step).values()]
    return {name: spec.step_params(step)[name] for name in names}


def _rules(spec: PipelineSpec, step: str) -> Mapping[str, Mapping[str, str]]:
    rules: Mapping[str, Mapping[str, str]] = catalogue()[spec.steps[step].component]["params"].get("holders", {})
    return rules
