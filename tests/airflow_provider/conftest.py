"""A node in this process that keeps jobs by the rules of a real one, and an Airflow connection that leads to it."""

from __future__ import annotations

import json
import os
import tempfile
from typing import Any

import pytest

# Airflow writes a configuration file to its home at the first import.
os.environ.setdefault("AIRFLOW_HOME", tempfile.mkdtemp(prefix="airflow-"))

from base.errors import AccordError, PeerDown, StateError

PIPELINE = """\
pipeline: small
description: two steps
accord: demo
seed: 7
initiator: north_bank
roles: {data_holder: [north_bank, south_bank]}
steps:
  load: {component: load_tables, params: {data_sets: {north_bank: [ratings], south_bank: [ratings]}}}
  validate: {component: validate_tables, inputs: {tables: load.tables}, deadline_minutes: 5}
"""


class FakeNode:
    """Jobs by key; a test says which states the next answers show."""

    def __init__(self) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.keys: dict[str, str] = {}
        self.states: list[str] = ["succeeded"]
        self.error: AccordError | None = None
        self.down = 0  # so many calls find nobody
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def call(self, method: str, body: dict[str, Any]) -> dict[str, Any]:
        self.calls.append((method, json.loads(json.dumps(body))))
        if self.down:
            self.down -= 1
            raise PeerDown("the node cannot be reached")
        return getattr(self, method)(**body)

    def submit(self, **body: Any) -> dict[str, Any]:
        if body["key"] not in self.keys:
            job = f"job-{len(self.jobs) + 1}"
            self.keys[body["key"]] = job
            self.jobs[job] = {"key": body["key"], "run": "run-1", "attempt": len(self.jobs) + 1, "step": body["step"]}
        job = self.keys[body["key"]]
        return {"job": job, "state": "running", "links": {"mlflow": "http://node/run-1"}, **self.jobs[job]}

    def status(self, job: str) -> dict[str, Any]:
        if job not in self.jobs:
            raise StateError("no such job", found=job)
        state = self.states[0] if len(self.states) == 1 else self.states.pop(0)
        error = self.error.to_wire() if self.error and state == "failed" else None
        part = {"state": state, "progress": {"done": 5, "total": 20, "unit": "rounds"}, "seconds": 2.0, "rows": None,
                "bytes_out": 3_200_000, "bytes_in": 900, "error": error}  # fmt: skip
        return {"job": job, "state": state, "parties": {"south_bank": part}, "error": error,
                "outputs": {"tables": "5f" * 32}, **self.jobs[job]}  # fmt: skip

    def cancel(self, job: str, key: str) -> dict[str, Any]:
        if self.jobs[job]["key"] == key:
            self.states = ["cancelled"]
        return {}

    def bodies(self, method: str) -> list[dict[str, Any]]:
        return [body for name, body in self.calls if name == method]


class FakeTask:
    """The part of a running task instance that the operator uses."""

    def __init__(self, try_number: int = 1) -> None:
        self.dag_id, self.run_id, self.try_number = "small", "manual__2026", try_number
        self.xcom: dict[str, Any] = {}

    def xcom_push(self, key: str, value: Any) -> None:
        self.xcom[key] = json.loads(json.dumps(value))

    def xcom_pull(self, key: str, task_ids: str) -> Any:
        return self.xcom[key]


@pytest.fixture
def node(monkeypatch, tmp_path):
    """A fake node behind the connection `accord_node`."""
    fake = FakeNode()

    class Client:
        def __init__(self, *address: Any) -> None:
            self.call = fake.call

        def __enter__(self) -> Client:
            return self

        def __exit__(self, *_: object) -> None: ...

        def close(self) -> None: ...

    monkeypatch.setattr("party_node.client.NodeClient", Client)
    paths = {name: str(tmp_path / f"{name}.pem") for name in ("ca", "cert", "key")}
    for path in paths.values():
        open(path, "w").close()
    uri = {"conn_type": "accord_node", "host": "127.0.0.1", "port": 7401, "extra": {**paths, "party": "north_bank"}}
    monkeypatch.setenv("AIRFLOW_CONN_ACCORD_NODE", json.dumps(uri))
    return fake


@pytest.fixture
def pipeline_text():
    return PIPELINE


@pytest.fixture
def context():
    """Context of a first try; `context["ti"]` is a `FakeTask`."""
    return {"ti": FakeTask(), "params": {"seed": 7}}
