"""The arms of both pipelines side by side, in a store of the harness's own: only it saw all raw files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from demo import pooled
from demo.consortium import MLFLOW_TEMPLATE, Consortium
from monitoring.tracking import Tracker, prepare_store
from pipelines.spec import PipelineSpec
from runtime.keys import party_secret

Arms = dict[str, dict[str, float]]  # part or group -> arm -> RMSE


def compare(consortium: Consortium, spec: PipelineSpec, metrics: Mapping[str, Any], seed: int | None = None) -> Arms:
    """Return the RMSE of every arm: what the parties' evaluation found, beside the harness's own."""
    parties = consortium.root / "parties"
    if "label_holder" in spec.roles:
        secret = party_secret(consortium.directory(spec.roles["receiver"][0]) / "keys")
        own = pooled.cold(parties, spec, secret, seed)
    else:
        own = pooled.horizontal(parties, spec, seed)
    # The mean is in both: the harness's is of training ratings alone, as its other arms are.
    found = {**metrics, **own}
    arms: Arms = {}
    for name, value in found.items():
        if name.endswith(".rmse") and name.count(".") == 2:
            arm, part, _ = name.split(".")
            arms.setdefault(part, {})[arm] = float(value)
    return arms


def track(root: Path, pipeline: str, run: str, arms: Arms) -> str:
    """Write the arms into the harness's MLflow store, a nested run for each, and return the store's URI."""
    prepare_store(root / "mlflow.db", MLFLOW_TEMPLATE)
    tracker = Tracker(f"sqlite:///{root.resolve() / 'mlflow.db'}", root.resolve() / "mlflow")
    parent = tracker.pipeline_run(f"arms.{pipeline}", run, {"accord.party": "harness"})
    for arm in sorted({arm for values in arms.values() for arm in values}):
        points = [(f"{part}.rmse", values[arm], 0) for part, values in arms.items() if arm in values]
        tracker.step_run(parent, f"arms.{pipeline}", arm, {}, points, {"accord.run": run, "accord.party": "harness"})
    tracker.finish(parent, {"arms.json": arms})
    return tracker.uri
