"""Both DAGs on four real nodes: in one process and under the real scheduler, from the same secrets."""

from __future__ import annotations

import shutil
import time
from urllib.parse import quote

import pytest

from demo.airflow import Airflow, free_port
from demo.airflow_home import AirflowHome
from demo.consortium import PARTIES, Consortium
from demo.dag_run import run_dags
from demo.data import prepare
from demo.harness import PIPELINES, SEED, connection

pytestmark = [pytest.mark.airflow, pytest.mark.node, pytest.mark.spark, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def fresh(tmp_path_factory, repository):
    """A function that returns the organisations before their first run, each time with the same secrets."""
    ports = {party: free_port() for party in PARTIES}
    original = Consortium(tmp_path_factory.mktemp("original"), ports=ports)
    prepare("movielens", original.root / "parties", SEED, repository / "var" / "cache" / "download")
    original.lay_out()
    original.sign()

    def copy(name):
        root = tmp_path_factory.mktemp(name) / "demo"
        shutil.copytree(original.root, root)
        return Consortium(root, ports=ports)

    return copy


@pytest.fixture(scope="module")
def in_process(fresh, repository, tmp_path_factory):
    """Outcome of each DAG, run in one process."""
    with fresh("in_process") as consortium:
        approve(consortium, repository)
        home = AirflowHome(tmp_path_factory.mktemp("airflow"), connection(consortium.home("north_bank")))
        home.prepare()
        results = run_dags(home, PIPELINES, watch=lambda line: None)
        runs = {name: result["tasks"]["register"]["xcom"]["run"] for name, result in results.items()}
        return {name: outcome(consortium, run) for name, run in runs.items()}


@pytest.fixture(scope="module")
def scheduled(in_process, fresh, repository, tmp_path_factory):
    """Nodes from fresh directories and a real Airflow before them: (consortium, REST client)."""
    with fresh("scheduled") as consortium:
        approve(consortium, repository)
        address = connection(consortium.home("north_bank"))
        home = AirflowHome(tmp_path_factory.mktemp("airflow"), address, port=free_port())
        with Airflow(home) as airflow:
            yield consortium, airflow.rest


def test_a_dag_under_the_real_scheduler_ends_as_it_does_in_one_process(scheduled, in_process):
    consortium, rest = scheduled
    run = rest.trigger("vertical_mf")
    assert rest.wait("vertical_mf", run, seconds=600) == "success"
    assert set(rest.states("vertical_mf", run).values()) == {"success"}
    assert outcome(consortium, rest.xcom("vertical_mf", run, "register")["run"]) == in_process["vertical_mf"]


def test_a_step_that_a_person_stops_ends_at_the_nodes_and_a_clear_makes_the_run_end_as_if_undisturbed(
    scheduled, in_process
):
    consortium, rest = scheduled
    dag, step = "horizontal_mf", "train"
    run = rest.trigger(dag)
    await_triggerer(rest, dag, run, step)
    accord_run = rest.xcom(dag, run, "load")["run"]
    rest.call("PATCH", f"/dags/{dag}/dagRuns/{quote(run)}/taskInstances/{step}", {"new_state": "failed"})
    assert await_end(consortium, f"{accord_run}/{step}/1") == "cancelled"

    body = {"dag_run_id": run, "task_ids": [step], "include_downstream": True, "only_failed": False, "dry_run": False}
    rest.call("POST", f"/dags/{dag}/clearTaskInstances", body)
    assert rest.wait(dag, run, seconds=600) == "success"
    assert rest.xcom(dag, run, step)["attempt"] == 2
    assert outcome(consortium, accord_run) == in_process[dag]


def approve(consortium, repository):
    for name in PIPELINES:
        consortium.approve(repository / "conf" / "pipelines" / f"{name}.yaml")


def outcome(consortium, run):
    """What has to be the same however a pipeline was started."""
    with consortium.client("north_bank", "cli") as client:
        found = client.call("report", {"run": run})
    assert found["model"]
    return {"model": found["model"], "metrics": found["metrics"], "steps": sorted(found["steps"])}


def await_triggerer(rest, dag, run, step, seconds=600):
    """Wait until the triggerer watches the step: before that Airflow has nobody whom it could tell of a kill."""
    until = time.monotonic() + seconds
    path = f"/dags/{dag}/dagRuns/{quote(run)}/taskInstances/{step}"
    while not (task := rest.call("GET", path)).get("triggerer_job"):
        assert time.monotonic() < until, f"{step} is {task['state']}"
        assert task["state"] not in ("success", "failed", "upstream_failed"), f"{step} ended as {task['state']}"
        time.sleep(0.5)
    time.sleep(2)  # assigned, and now taken up


def await_end(consortium, job, seconds=60):
    until = time.monotonic() + seconds
    with consortium.client("north_bank", "cli") as client:
        while (state := client.call("status", {"job": job})["state"]) in ("queued", "running"):
            assert time.monotonic() < until, f"{job} is still {state}"
            time.sleep(0.5)
    return state
