"""Read a pipeline's YAML and check it to the last parameter before anything runs.

The check needs the catalogue of components only, so an Airflow worker without numpy, torch or Spark makes the same
check as a node. Every error names file, line, key, what was expected and what was found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from jsonschema import Draft202012Validator
from pydantic import ValidationError

from base.errors import SpecError
from base.near import did_you_mean
from base.yaml_lines import KeyPath, line_of, parse
from components.registry import catalogue
from pipelines.at_parties import check_at_parties
from pipelines.in_words import asked, how_to_write, value_in_words
from pipelines.spec import PipelineSpec
from pipelines.wrong_document import refuse


@dataclass(frozen=True)
class Pipeline:
    """A checked pipeline with its text."""

    spec: PipelineSpec
    text: str
    name: str
    lines: Mapping[KeyPath, int]

    def fail(self, path: KeyPath, what: str, **more: Any) -> NoReturn:
        """Raise `SpecError` at a key of the file."""
        raise SpecError(what, where=self.at(path), **more)

    def at(self, path: KeyPath) -> str:
        """Return file, line and key."""
        return f"{self.name}:{line_of(self.lines, path)}, key {'.'.join(str(part) for part in path)}"


def load(path: Path | str) -> Pipeline:
    """Read and check `path`; `SpecError` with file, line and key."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError("the pipeline file cannot be read", found=type(error).__name__, where=str(path)) from None
    return loads(text, str(path))


def loads(text: str, name: str) -> Pipeline:
    """Check the text of a pipeline; `name` stands for the file in errors."""
    document, line_map = parse(text, name)
    draft = Pipeline(spec=PipelineSpec.model_construct(), text=text, name=name, lines=line_map)
    try:
        spec = PipelineSpec.model_validate(document)
    except ValidationError as error:
        refuse(PipelineSpec, error, draft.at)
    pipeline = Pipeline(spec=spec, text=text, name=name, lines=line_map)
    for step in spec.steps:
        _check_step(pipeline, step)
    for step in spec.steps:
        check_at_parties(pipeline, step)
    if spec.initiator not in spec.parties:
        pipeline.fail(
            ("initiator",), "the initiator has no role", expected=", ".join(spec.parties), found=spec.initiator
        )
    return pipeline


def _check_step(pipeline: Pipeline, step: str) -> None:
    spec = pipeline.spec.steps[step]
    known = catalogue()
    if spec.component not in known:
        pipeline.fail(
            ("steps", step, "component"), "unknown component",
            expected=", ".join(known), found=spec.component, remedy=did_you_mean(spec.component, known),
        )  # fmt: skip
    entry = known[spec.component]
    _check_roles(pipeline, step, entry)
    _check_inputs(pipeline, step, entry)
    _check_params(pipeline, step, entry)


def _check_roles(pipeline: Pipeline, step: str, entry: Mapping[str, Any]) -> None:
    own = pipeline.spec.steps[step].roles
    for role in own:
        if role not in entry["roles"]:
            pipeline.fail(
                ("steps", step, "roles", role),
                "the component has no such role",
                expected=", ".join(entry["roles"]),
                found=role,
            )
        if own[role] and role not in pipeline.spec.step_roles(step):
            pipeline.fail(
                ("steps", step, "roles", role), f"role {role} takes no part in step {step} with these parameters",
                expected="no party", found=", ".join(own[role]), remedy="leave the role out",
            )  # fmt: skip
    seen: dict[str, str] = {}
    # The step's own roles last: of two that do not fit together, the error names the one that differs.
    for role, parties in sorted(pipeline.spec.step_roles(step).items(), key=lambda entry: entry[0] in own):
        for party in parties:
            if party in seen:
                twice = f"is named twice in role {role}" if seen[party] == role else f"is {seen[party]} and {role}"
                pipeline.fail(
                    ("steps", step, "roles", role) if role in own else ("roles", role),
                    f"{party} {twice} of step {step}", expected="each party once, in one role", found=party,
                )  # fmt: skip
            seen[party] = role
        least = entry["min_parties"].get(role, 1)
        if len(parties) < least:
            pipeline.fail(
                ("steps", step, "roles", role) if role in own else ("roles", role),
                f"role {role} of step {step} has too few parties",
                expected=f"at least {least}", found=len(parties), remedy=f"name its parties: roles: {role}: [...]",
            )  # fmt: skip


def _check_inputs(pipeline: Pipeline, step: str, entry: Mapping[str, Any]) -> None:
    spec = pipeline.spec
    given = spec.steps[step].inputs
    for name in given:
        if name not in entry["inputs"]:
            pipeline.fail(
                ("steps", step, "inputs", name),
                "the component has no such input",
                expected=", ".join(entry["inputs"]) or "no input",
                found=name,
            )
    for name in entry["inputs"]:
        if name not in given and name not in entry["optional_inputs"]:
            pipeline.fail(
                ("steps", step),
                f"input {name} is missing",
                expected=entry["inputs"][name],
                found="nothing",
                remedy=f"add inputs: {{{name}: STEP.OUTPUT}}",
            )
    before = list(spec.steps)[: list(spec.steps).index(step)]
    for name, source in given.items():
        at, output = source.split(".")
        if at not in before:
            pipeline.fail(
                ("steps", step, "inputs", name),
                "an input comes from a step that does not stand before",
                expected=", ".join(before) or "no step stands before",
                found=at,
            )
        outputs = catalogue()[spec.steps[at].component]["outputs"]
        if output not in outputs:
            pipeline.fail(
                ("steps", step, "inputs", name),
                f"step {at} has no such output",
                expected=", ".join(outputs),
                found=output,
            )
        if output != name:
            pipeline.fail(
                ("steps", step, "inputs", name), f"input {name} takes what a step gives as {name}", expected=name,
                found=output, remedy="sums are over what their component is for, not over any column of any step",
            )  # fmt: skip


def _check_params(pipeline: Pipeline, step: str, entry: Mapping[str, Any]) -> None:
    params = pipeline.spec.steps[step].params
    problems = sorted(
        Draft202012Validator(entry["params"]).iter_errors(params), key=lambda e: list(map(str, e.absolute_path))
    )
    for problem in problems:
        path = ("steps", step, "params", *problem.absolute_path)
        known, given = problem.schema.get("properties", {}), problem.instance
        if problem.validator == "additionalProperties":
            extra = next(iter(set(given) - set(known)))
            pipeline.fail(
                (*path, extra),
                "unknown parameter",
                expected=", ".join(known),
                found=extra,
                remedy=did_you_mean(extra, known),
            )
        if problem.validator == "required":
            missing = next(name for name in problem.schema["required"] if name not in given)
            at = ".".join(map(str, ("params", *problem.absolute_path)))
            pipeline.fail(
                path, "a parameter is missing", expected=f"{missing}: {asked(known[missing])}",
                found=", ".join(given) or "nothing", remedy=f"add {missing}: ... under {at} of step {step}",
            )  # fmt: skip
        pipeline.fail(
            path, "a parameter is out of range or of the wrong type", expected=asked(problem.schema),
            found=value_in_words(given), remedy=how_to_write(path, problem.schema, given),
        )  # fmt: skip
