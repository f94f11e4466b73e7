"""What a step leaves in the party's own MLflow: parameters, metrics by round, digests, the model's part.

A step that has failed leaves what it has counted: its error, which peers read, names the metric and not the number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from base.errors import AccordError
from components.contract import Component
from monitoring.tracking import Tracker
from runtime.artifacts import Ref, Store
from runtime.execute import StepTask
from runtime.party import Home


@dataclass(frozen=True)
class StepRecord:
    """A step that has ended; one that has failed has no outputs."""

    task: StepTask
    accord: str  # digest of the terms
    points: Sequence[tuple[str, float, int | None]]
    outputs: Mapping[str, Ref]
    seconds: float


def tracker(home: Home) -> Tracker:
    """Return the party's MLflow store."""
    return Tracker(home.url(home.conf.tracking_uri), home.path("mlflow"))


def track(home: Home, store: Store, part: Component, record: StepRecord) -> str:
    """Write a step into MLflow and return its MLflow run; a registering component registers this party's part."""
    task, mlflow = record.task, tracker(home)
    parent, run = _step_run(home, mlflow, record)
    if part.registers:
        manifest: dict[str, Any] = store.load(record.outputs["manifest"])
        name = f"{task.pipeline}.{home.party}"
        mlflow.register(
            parent, name, _model(store, task), manifest, {"accord.run": task.run, "model": manifest["model"]}
        )
    return run


def track_failed(home: Home, record: StepRecord, error: AccordError) -> None:
    """Write a step that has failed into MLflow, with its status and its error."""
    mlflow = tracker(home)
    _, run = _step_run(home, mlflow, record)
    mlflow.finish(run, {"error.json": error.to_wire()}, status="FAILED")


def _step_run(home: Home, mlflow: Tracker, record: StepRecord) -> tuple[str, str]:
    """Return the MLflow runs of the pipeline run and of the step, which is written."""
    task = record.task
    tags = {"accord.run": task.run, "accord.party": home.party, "accord.digest": record.accord}
    parent = mlflow.pipeline_run(task.pipeline, task.run, {**tags, "accord.seed": str(task.seed)})
    step_tags = {
        **tags,
        "accord.attempt": str(task.attempt),
        "accord.role": task.role,
        **{f"accord.output.{name}": ref.digest for name, ref in record.outputs.items()},
    }
    points = [("seconds", record.seconds, 0), *((name, value, round_ or 0) for name, value, round_ in record.points)]
    return parent, mlflow.step_run(parent, task.pipeline, task.step, task.params, points, step_tags)


def finish(home: Home, pipeline: str, run: str, documents: Mapping[str, Any]) -> None:
    """End the MLflow run of a closed pipeline run with what the ledger holds."""
    mlflow = tracker(home)
    parent = mlflow.pipeline_run(pipeline, run, {"accord.run": run, "accord.party": home.party})
    mlflow.finish(parent, {f"{name}.json": document for name, document in documents.items()})


def _model(store: Store, task: StepTask) -> Any:
    step, output = task.inputs["model"].split(".")
    refs = store.read_outputs(task.run, step) or {}
    return store.load(refs[output])
