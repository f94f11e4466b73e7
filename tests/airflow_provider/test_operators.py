from __future__ import annotations

import time
from datetime import timedelta

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred

from airflow_provider import operators
from airflow_provider.operators import StepOperator, TrackingLink
from base.errors import ApprovalMissing, DeadlinePassed, ExpectationFailed


@pytest.fixture
def step(monkeypatch, pipeline_text):
    monkeypatch.setattr(operators, "INLINE_SECONDS", 0.05)
    monkeypatch.setattr(operators, "INLINE_POLL_SECONDS", 0.01)
    return StepOperator(
        task_id="load", pipeline=pipeline_text, file="small.yaml", step="load", deadline=timedelta(minutes=5)
    )


def deferred(step, context):
    with pytest.raises(TaskDeferred) as raised:
        step.execute(context)
    return raised.value


def test_a_short_step_ends_without_a_deferral_and_its_xcom_holds_references(node, step, context):
    node.states = ["running", "running", "succeeded"]
    assert step.execute(context) == {
        "run": "run-1", "job": "job-1", "attempt": 1, "outputs": {"tables": "5f" * 32},
    }  # fmt: skip
    (body,) = node.bodies("submit")
    assert body["key"] == "small/manual__2026/load/1"
    assert body["run_key"] == "small/manual__2026"
    assert (body["seed"], body["deadline_seconds"], body["file"]) == (7, 300, "small.yaml")
    assert TrackingLink().get_link(step, ti_key=None) == "http://node/run-1"


def test_a_tracking_store_in_a_file_is_no_link(step):
    step.reference = {"links": {"mlflow": "sqlite:////node/mlflow.db"}}
    assert TrackingLink().get_link(step, ti_key=None) == ""


def test_a_long_step_waits_in_the_triggerer(node, step, context):
    node.states = ["running"]
    started = time.time()
    task = deferred(step, context)
    arguments = task.trigger.serialize()[1]
    assert set(arguments) == {"conn_id", "job", "key", "deadline", "not_before"}
    assert arguments["job"] == "job-1"
    assert arguments["not_before"] >= started + 1
    assert started + 299 < arguments["deadline"] < time.time() + 301
    assert timedelta(seconds=355) < task.timeout <= timedelta(seconds=361)
    assert task.method_name == "resume"


def test_resume_asks_the_node_how_the_step_ended(node, step, context):
    node.states = ["running"]
    deferred(step, context)
    node.states = ["succeeded"]
    # A process of its own resumes: nothing of the first one is left but the XCom.
    step.reference = {}
    assert step.resume(context, {"state": "failed"})["job"] == "job-1"
    assert TrackingLink().get_link(step, ti_key=None) == "http://node/run-1"


def test_a_node_that_was_lost_and_is_back_is_waited_for_again_until_the_same_deadline(node, step, context):
    node.states = ["running"]
    first = deferred(step, context).trigger.deadline
    with pytest.raises(TaskDeferred) as raised:
        step.resume(context, {"state": "lost"})
    assert raised.value.trigger.deadline == first


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ExpectationFailed("a rule does not hold", expected="at most 5 % dropped", party="south_bank"), "stop"),
        (ApprovalMissing("the template is not approved", remedy="accord approve small.yaml", party="bureau"), "stop"),
        (DeadlinePassed("south_bank was awaited for `part`", party="west_bank"), "retry"),
    ],
)
def test_a_failed_step_shows_the_failing_partys_error_and_retries_only_what_can_heal(node, step, context, error, kind):
    node.states, node.error = ["running", "failed"], error
    with pytest.raises(AirflowException) as raised:
        step.execute(context)
    assert isinstance(raised.value, AirflowFailException) == (kind == "stop")
    assert str(raised.value) == str(error)


def test_a_step_that_fails_without_a_reason_says_so(node, step, context):
    node.states = ["failed"]
    with pytest.raises(AirflowFailException, match="gives no reason"):
        step.execute(context)


def test_a_node_that_is_down_is_tried_again(node, step, context):
    node.down = 1
    with pytest.raises(AirflowException) as raised:
        step.execute(context)
    assert not isinstance(raised.value, AirflowFailException)
    assert step.execute(context)["attempt"] == 1


def test_an_overdue_step_is_stopped_and_not_tried_again(node, step, context):
    node.states = ["running"]
    deferred(step, context)
    with pytest.raises(AirflowFailException, match="has not ended in time"):
        step.resume(context, {"state": "overdue"})
    assert node.bodies("cancel") == [{"job": "job-1", "key": "small/manual__2026/load/1"}]


def test_airflows_own_timeout_stops_the_job_too(node, step, context):
    node.states = ["running"]
    deferred(step, context)
    with pytest.raises(AirflowException):
        step.resume_execution("__fail__", {"error": "Trigger timeout"}, context)
    assert node.bodies("cancel") == [{"job": "job-1", "key": "small/manual__2026/load/1"}]


def test_on_kill_cancels_with_the_key_of_its_own_try(node, step, context):
    step.on_kill()  # before a submit there is nothing to stop
    assert node.bodies("cancel") == []
    context["ti"].try_number = 2
    step.execute(context)
    step.on_kill()
    assert node.bodies("cancel") == [{"job": "job-1", "key": "small/manual__2026/load/2"}]
