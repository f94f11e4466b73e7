"""One party executes one step: load the inputs, call the role function, keep the outputs.

The same lines run in a thread of a simulation and in a worker process of a node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from base.errors import SpecError, StateError
from components.contract import Component
from components.registry import component
from runtime.artifacts import Ref, Store
from runtime.checkpoint import FileCheckpoint
from runtime.context import Observer, Services, StepContext
from runtime.randomness import Randomness
from runtime.spill import Spill
from transport.channel import Channel


@dataclass(frozen=True)
class StepTask:
    """One step of one run at one party, as plain data: it crosses to a worker process as JSON."""

    run: str
    pipeline: str
    step: str
    attempt: int
    seed: int
    component: str
    params: Mapping[str, Any]
    inputs: Mapping[str, str]  # input -> step.output
    roles: Mapping[str, tuple[str, ...]]
    party: str
    resume: int | None = None  # the checkpoint that all parties hold

    @property
    def role(self) -> str:
        """The one role that the party has in this step."""
        return next(role for role, parties in self.roles.items() if self.party in parties)


def parse_params(part: Component, params: Mapping[str, Any], where: str) -> Any:
    """Return the component's typed parameters; `SpecError` names the one that is wrong."""
    try:
        return part.params.model_validate(dict(params))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(map(str, first["loc"])) or "params"
        raise SpecError(f"parameter {key} is wrong", expected=first["msg"], where=where) from None


def execute(task: StepTask, store: Store, services: Services, channel: Channel, observer: Observer) -> dict[str, Ref]:
    """Run the step and return the names of its outputs, listed in the store last of all."""
    part = component(task.component)
    checkpoint = FileCheckpoint(store.root / "checkpoints" / task.run / task.step, task.resume)
    params = parse_params(part, task.params, f"step {task.step}")
    with Spill(store.root / "spill" / task.run / task.step) as spills:
        ctx = StepContext(
            run=task.run,
            step=task.step,
            attempt=task.attempt,
            party=task.party,
            role=task.role,
            roles=task.roles,
            inputs=_inputs(task, part, store),
            services=services,
            randomness=Randomness(task.seed, f"{task.pipeline}/{task.step}", services.party_secret),
            channel=channel,
            checkpoint=checkpoint,
            observer=observer,
            spills=spills,
            registered=lambda model: store.read_model(task.pipeline, model),
        )
        outputs = part.roles[task.role](ctx, params)
    undeclared = set(outputs) - set(part.outputs)
    if undeclared:
        raise StateError("a component returned outputs that it does not declare", found=", ".join(sorted(undeclared)))
    refs = {name: store.save(artefact) for name, artefact in outputs.items()}
    store.write_outputs(task.run, task.step, task.attempt, refs)
    if part.registers:
        manifest: Any = outputs["manifest"]
        store.list_model(task.pipeline, manifest["model"], _source(task, "model", store))
    return refs


def _source(task: StepTask, name: str, store: Store) -> Ref:
    """Return the name of what an input was."""
    step, output = task.inputs[name].split(".")
    return (store.read_outputs(task.run, step) or {})[output]


def _inputs(task: StepTask, part: Component, store: Store) -> dict[str, Any]:
    """Load what this party has of the inputs; another party's artefacts are not here and never were."""
    found: dict[str, Any] = {}
    for name, source in task.inputs.items():
        step, output = source.split(".")
        ref = (store.read_outputs(task.run, step) or {}).get(output)
        if ref is not None:
            found[name] = store.load(ref)
        elif name not in part.optional_inputs:
            raise StateError(
                f"input {name} is not there", expected=source, found="nothing", where=f"{task.party}, step {task.step}",
                remedy=f"run step {step} first; if it ran, look at its reveal_to and cardinality_only",
            )  # fmt: skip
    return found
