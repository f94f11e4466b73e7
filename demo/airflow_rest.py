"""The few calls of Airflow's REST API that the demo and the tests make."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import quote

from base.errors import DeadlinePassed

ENDED = frozenset({"success", "failed"})


class AirflowRest:
    """Talks to an API server on loopback in which everybody is an administrator."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._token: str | None = None

    def unhealthy(self) -> list[str]:
        """Return the parts of Airflow that are not healthy yet; empty when all are."""
        parts = ("metadatabase", "scheduler", "triggerer", "dag_processor")
        try:
            health = self._open("GET", "/api/v2/monitor/health")
        except OSError:
            return ["api-server"]
        return [part for part in parts if (health.get(part) or {}).get("status") != "healthy"]

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the answer of `/api/v2` + `path`."""
        if self._token is None:
            self._token = str(self._open("GET", "/auth/token")["access_token"])
        return self._open(method, f"/api/v2{path}", body)

    def trigger(self, dag: str, seconds: float = 60.0) -> str:
        """Start a run now and return its id; a DAG that is not read yet is waited for."""
        until = time.monotonic() + seconds
        while True:
            try:
                return str(self.call("POST", f"/dags/{dag}/dagRuns", {"logical_date": None})["dag_run_id"])
            except urllib.error.HTTPError as error:
                if error.code != 404 or time.monotonic() > until:
                    raise
            time.sleep(0.5)

    def wait(self, dag: str, run: str, seconds: float) -> str:
        """Return the final state of a run; `DeadlinePassed` names the tasks that are not through."""
        until = time.monotonic() + seconds
        while (state := self.call("GET", f"/dags/{dag}/dagRuns/{quote(run)}")["state"]) not in ENDED:
            if time.monotonic() > until:
                raise DeadlinePassed("the DAG run has not ended", expected=f"within {seconds:g} s", found=state,
                                     where=f"{dag} {self.states(dag, run)}")  # fmt: skip
            time.sleep(1)
        return str(state)

    def states(self, dag: str, run: str) -> dict[str, str]:
        """Return {task: state} of a run."""
        tasks = self.call("GET", f"/dags/{dag}/dagRuns/{quote(run)}/taskInstances")["task_instances"]
        return {task["task_id"]: str(task["state"]) for task in tasks}

    def xcom(self, dag: str, run: str, task: str) -> Any:
        """Return what a task has returned."""
        path = f"/dags/{dag}/dagRuns/{quote(run)}/taskInstances/{task}/xcomEntries/return_value"
        return self.call("GET", path)["value"]

    def _open(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        headers = {"Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, headers=headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return dict(json.loads(answer.read()))
