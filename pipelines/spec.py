"""A pipeline as a data engineer writes it: which steps, in which order, with which roles and parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from components.registry import catalogue

Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,63}$")]


class Strict(BaseModel):
    """Unknown keys are refused; values do not change."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class StepSpec(Strict):
    """One step: a component by name, where its inputs come from, its parameters."""

    component: str
    inputs: dict[str, Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*$")]] = {}
    params: dict[str, Any] = {}
    roles: dict[str, list[Name]] = {}  # only where they differ from the pipeline's
    deadline_minutes: Annotated[int, Field(ge=1, le=24 * 60)] = 30


class PipelineSpec(Strict):
    """A whole pipeline; `conf/pipelines/*.yaml`."""

    pipeline: Name
    description: str = ""
    accord: Name  # the signed accord that allows it
    seed: Annotated[int, Field(ge=0, lt=2**63)]
    initiator: Name  # the party that starts the run
    schedule: str | None = None  # cron; None runs on demand
    roles: dict[Name, list[Name]]
    steps: Annotated[dict[Name, StepSpec], Field(min_length=1)]

    @property
    def parties(self) -> tuple[str, ...]:
        """Every party of any role, sorted."""
        named = [self.roles, *(step.roles for step in self.steps.values())]
        return tuple(sorted({party for roles in named for parties in roles.values() for party in parties}))

    def step_roles(self, step: str) -> Mapping[str, tuple[str, ...]]:
        """Return the parties of each role of the step's component, sorted by name.

        A role that takes no part with the step's parameters (`declared.without`) is not among them.
        """
        entry, own, params = catalogue()[self.steps[step].component], self.steps[step].roles, self.step_params(step)
        properties = entry["params"].get("properties", {})
        absent = {schema.get("without", {}).get(str(params.get(name))) for name, schema in properties.items()}
        found = {role: own.get(role, self.roles.get(role, [])) for role in entry["roles"] if role not in absent}
        return {role: tuple(sorted(parties)) for role, parties in found.items()}

    def step_params(self, step: str) -> dict[str, Any]:
        """Return the parameters of a step, with the defaults of those that are not written."""
        properties = catalogue()[self.steps[step].component]["params"].get("properties", {})
        written = self.steps[step].params
        return {name: entry["default"] for name, entry in properties.items() if "default" in entry} | written

    def step_parties(self, step: str) -> tuple[str, ...]:
        """Return every party with a role in the step, sorted."""
        return tuple(sorted({party for parties in self.step_roles(step).values() for party in parties}))

    def upstream(self, step: str) -> tuple[str, ...]:
        """Return the steps whose outputs the step reads, in the order of the file."""
        wanted = {source.split(".")[0] for source in self.steps[step].inputs.values()}
        return tuple(name for name in self.steps if name in wanted)
