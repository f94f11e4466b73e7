"""Both DAGs on four real nodes: in one process and under the real scheduler, from the same secrets."""

from __future__ import annotations

import time
from urllib.parse import quote

import pytest

pytestmark = [pytest.mark.airflow, pytest.mark.node, pytest.mark.spark, pytest.mark.timeout(1800)]


def test_a_dag_under_the_real_scheduler_ends_as_it_does_in_one_process(scheduled, in_process, outcome):
    nodes, rest = scheduled
    run = rest.trigger("vertical_mf")
    assert rest.wait("vertical_mf", run, seconds=600) == "success"
    assert set(rest.states("vertical_mf", run).values()) == {"success"}
    assert outcome(nodes.consortium, rest.xcom("vertical_mf", run, "register")["run"]) == in_process[2]["vertical_mf"]


def test_a_step_that_a_person_stops_ends_at_the_nodes_and_a_clear_makes_the_run_end_as_if_undisturbed(
    scheduled, in_process, outcome
):
    nodes, rest = scheduled
    dag, step = "horizontal_mf", "train"
    nodes.halt("bureau", "send total 2")  # the first round is through, and the second one is not
    run = rest.trigger(dag)
    nodes.await_halt("bureau", seconds=600)
    await_triggerer(rest, dag, run, step)
    accord_run = rest.xcom(dag, run, "load")["run"]
    rest.call("PATCH", f"/dags/{dag}/dagRuns/{quote(run)}/taskInstances/{step}", {"new_state": "failed"})
    assert await_end(nodes.consortium, f"{accord_run}/{step}/1") == "cancelled"

    body = {"dag_run_id": run, "task_ids": [step], "include_downstream": True, "only_failed": False, "dry_run": False}
    rest.call("POST", f"/dags/{dag}/clearTaskInstances", body)
    assert rest.wait(dag, run, seconds=600) == "success"
    assert rest.xcom(dag, run, step)["attempt"] == 2
    assert outcome(nodes.consortium, accord_run) == in_process[2][dag]


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
