"""What a party writes into its own MLflow: a run per pipeline run, nested runs per step, a registered model part.

Numbers about a step only; the store belongs to the party, and no other party reads it.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")

import mlflow
import numpy as np
from mlflow.entities import Metric, Param
from mlflow.models import ModelSignature
from mlflow.tracking import MlflowClient
from mlflow.types import ColSpec, Schema
from safetensors.numpy import save_file

logging.getLogger("mlflow").setLevel(logging.ERROR)

Point = tuple[str, float, int]  # metric, value, round
CHALLENGER = "challenger"
_SIGNATURE = ModelSignature(
    inputs=Schema([ColSpec("integer", "user"), ColSpec("integer", "item")]),
    outputs=Schema([ColSpec("double", "score")]),
)
_CODE = Path(__file__).with_name("pyfunc_model.py")


class Tracker:
    """One party's MLflow store."""

    def __init__(self, uri: str, artifact_root: Path) -> None:
        """Use the store at `uri`; artefacts of a local store lie below `artifact_root`."""
        self.uri = uri
        self.artifact_root = artifact_root
        self.client = MlflowClient(tracking_uri=uri, registry_uri=uri)

    def pipeline_run(self, pipeline: str, run: str, tags: Mapping[str, str]) -> str:
        """Return the MLflow run of a pipeline run, made on first use."""
        return self._find(pipeline, run, {"accord.run": run, "accord.step": "", **tags}, parent=None)

    def step_run(
        self,
        parent: str,
        pipeline: str,
        name: str,
        params: Mapping[str, Any],
        points: Iterable[Point],
        tags: Mapping[str, str],
    ) -> str:
        """Write one finished step: parameters, metrics by round, tags; return its MLflow run."""
        run = self._create(pipeline, name, {"accord.step": name, **tags}, parent)
        metrics = [Metric(key, value, 0, step) for key, value, step in points]
        entries = [Param(key, json.dumps(value)[:500]) for key, value in params.items()]
        for i in range(0, max(len(metrics), 1), 1000):
            self.client.log_batch(run, metrics=metrics[i : i + 1000], params=entries if i == 0 else [])
        self.client.set_terminated(run)
        return run

    def finish(
        self, run: str, documents: Mapping[str, Mapping[str, Any] | Sequence[Any]], status: str = "FINISHED"
    ) -> None:
        """Attach JSON documents (ledger summary, manifest) to a run and end it."""
        for name, document in documents.items():
            self.client.log_dict(run, document, name)
        self.client.set_terminated(run, status=status)

    def register(
        self, run: str, name: str, part: Mapping[str, np.ndarray], manifest: Mapping[str, Any], tags: Mapping[str, str]
    ) -> str:
        """Register a model part as the challenger of `name` and return its version."""
        mlflow.set_tracking_uri(self.uri)
        mlflow.set_registry_uri(self.uri)
        with tempfile.TemporaryDirectory() as folder, mlflow.start_run(run_id=run):
            file = Path(folder) / "part.safetensors"
            save_file({key: np.asarray(value, order="C") for key, value in part.items()}, file)
            logged = mlflow.pyfunc.log_model(
                name="part",
                python_model=str(_CODE),
                artifacts={"part": str(file)},
                signature=_SIGNATURE,
                pip_requirements=["safetensors", "numpy", "pandas"],
                registered_model_name=name,
                metadata={"manifest": dict(manifest)},
            )
        version = str(logged.registered_model_version)
        for key, value in tags.items():
            self.client.set_model_version_tag(name, version, key, value)
        self.client.set_registered_model_alias(name, CHALLENGER, version)
        return version

    def _find(self, pipeline: str, name: str, tags: Mapping[str, str], parent: str | None) -> str:
        wanted = f"tags.`accord.run` = '{tags['accord.run']}' and tags.`accord.step` = ''"
        found = self.client.search_runs([self._experiment(pipeline)], wanted, max_results=1)
        return str(found[0].info.run_id) if found else self._create(pipeline, name, tags, parent)

    def _create(self, pipeline: str, name: str, tags: Mapping[str, str], parent: str | None) -> str:
        every = {**tags, **({"mlflow.parentRunId": parent} if parent else {})}
        run = self.client.create_run(self._experiment(pipeline), tags=every, run_name=name)
        return str(run.info.run_id)

    def _experiment(self, pipeline: str) -> str:
        found = self.client.get_experiment_by_name(pipeline)
        if found:
            return str(found.experiment_id)
        return str(self.client.create_experiment(pipeline, artifact_location=(self.artifact_root / pipeline).as_uri()))


def prepare_store(database: Path, template: Path) -> None:
    """Put an empty MLflow database in place by copying a template (0.02 s; MLflow itself takes 7 s to make one)."""
    if database.exists():
        return
    if not template.exists():
        template.parent.mkdir(parents=True, exist_ok=True)
        draft = template.with_name(f".{template.name}.{os.getpid()}")
        MlflowClient(tracking_uri=f"sqlite:///{draft}").search_experiments(max_results=1)
        draft.replace(template)
    database.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(template, database)
