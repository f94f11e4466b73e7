"""Both DAGs on four real nodes: in one process and under the real scheduler, from the same secrets."""

from __future__ import annotations

import shutil
import time

import pytest

from demo.airflow import Airflow, free_port, ready
from demo.airflow_home import AirflowHome, connection_to
from demo.consortium import PARTIES, Consortium
from demo.dag_run import run_dags

NAMES = ("horizontal_mf", "vertical_mf")
pytestmark = [pytest.mark.airflow, pytest.mark.node, pytest.mark.spark]


def report(consortium, run):
    with consortium.client("north_bank", "cli") as client:
        return client.call("report", {"run": run})


def outcome(consortium, run):
    """What has to be the same however a pipeline was started."""
    found = report(consortium, run)
    assert found["model"]
    return {"model": found["model"], "metrics": found["metrics"], "steps": list(found["steps"])}


@pytest.fixture(scope="module")
def laid_out(tmp_path_factory, repository):
    """Node directories before their first run, and a function that starts nodes on a fresh copy of them."""
    ports = {party: free_port() for party in PARTIES}
    original = Consortium(tmp_path_factory.mktemp("original"), ports=ports)
    ready(original, "synthetic")

    def copy(name):
        root = tmp_path_factory.mktemp(name) / "demo"
        shutil.copytree(original.root, root)
        return Consortium(root, ports=ports)

    return copy


def approve(consortium, repository):
    for name in NAMES:
        consortium.approve(repository / "conf" / "pipelines" / f"{name}.yaml")


@pytest.fixture(scope="module")
def in_process(laid_out, repository, tmp_path_factory):
    """Outcome of each DAG, run in one process."""
    consortium = laid_out("in_process")
    with consortium:
        approve(consortium, repository)
        home = AirflowHome(tmp_path_factory.mktemp("airflow"), connection_to(consortium.home("north_bank")))
        home.prepare()
        results = run_dags(home, NAMES, watch=lambda line: None)
        return {
            name: outcome(consortium, result["tasks"]["register"]["xcom"]["run"]) for name, result in results.items()
        }


@pytest.fixture(scope="module")
def scheduled(in_process, laid_out, repository, tmp_path_factory):
    """Nodes from fresh directories and a real Airflow before them: (consortium, REST client)."""
    consortium = laid_out("scheduled")
    with consortium:
        approve(consortium, repository)
        connection = connection_to(consortium.home("north_bank"))
        home = AirflowHome(tmp_path_factory.mktemp("airflow"), connection, port=free_port())
        with Airflow(home) as airflow:
            yield consortium, airflow.rest


def test_both_dags_under_the_real_scheduler_end_as_they_do_in_one_process(scheduled, in_process):
    consortium, rest = scheduled
    runs = {name: rest.trigger(name) for name in NAMES}
    for name, run in runs.items():
        assert rest.wait(name, run, seconds=400) == "success"
        assert set(rest.states(name, run).values()) == {"success"}
        assert outcome(consortium, rest.xcom(name, run, "register")["run"]) == in_process[name]


def test_a_step_that_a_person_stops_ends_at_the_node_and_a_clear_begins_the_next_attempt(scheduled, in_process):
    consortium, rest = scheduled
    dag, step = "horizontal_mf", "train"
    run = rest.trigger(dag)
    await_state(rest, dag, run, step, "deferred")
    accord_run = rest.xcom(dag, run, "load")["run"]
    task = f"/dags/{dag}/dagRuns/{run}/taskInstances/{step}"
    rest.call("PATCH", task.replace("+", "%2B"), {"new_state": "failed"})
    assert await_job(consortium, f"{accord_run}/{step}/1") == "cancelled"
    body = {"dag_run_id": run, "task_ids": [step], "include_downstream": True, "only_failed": False, "dry_run": False}
    rest.call("POST", f"/dags/{dag}/clearTaskInstances", body)
    assert rest.wait(dag, run, seconds=200) == "success"
    assert rest.xcom(dag, run, step)["attempt"] == 2
    assert outcome(consortium, accord_run) == in_process[dag]


def await_state(rest, dag, run, step, state, seconds=150):
    until = time.monotonic() + seconds
    while (found := rest.states(dag, run).get(step)) != state:
        assert time.monotonic() < until, f"{step} is {found}, not {state}"
        assert found not in ("success", "failed"), f"{step} ended as {found} before it was {state}"
        time.sleep(0.5)


def await_job(consortium, job, seconds=60):
    until = time.monotonic() + seconds
    with consortium.client("north_bank", "cli") as client:
        while (state := client.call("status", {"job": job})["state"]) in ("queued", "running"):
            assert time.monotonic() < until, f"{job} is still {state}"
            time.sleep(0.5)
    return state
