from __future__ import annotations

import asyncio
import json
import time

import pytest

from airflow_provider import trigger as module
from airflow_provider.trigger import StepTrigger
from base.errors import StateError


@pytest.fixture
def started(node, monkeypatch):
    monkeypatch.setattr(module, "POLL_SECONDS", 0.01)
    node.submit(key="k", step="load")
    node.states = ["running"]
    return node


def waiting(seconds=5.0, not_before=0.0, job="job-1"):
    return StepTrigger("accord_node", job, "k", deadline=time.time() + seconds, not_before=not_before)


def fire(trigger):
    async def first():
        event = await anext(trigger.run())
        await trigger.cleanup()
        return event

    return asyncio.run(first()).payload


@pytest.mark.parametrize("state", ["succeeded", "failed", "cancelled"])
def test_fires_with_the_final_state(started, state):
    started.states = ["queued", "running", "running", state]
    assert fire(waiting()) == {"state": state}
    assert len(started.bodies("status")) == 4


def test_never_fires_before_its_time(started):
    started.states = ["succeeded"]
    begin = time.time()
    fire(waiting(not_before=begin + 0.3))
    assert time.time() - begin >= 0.3


def test_fires_overdue_at_the_deadline_and_stops_nothing_by_itself(started):
    assert fire(waiting(seconds=0.1)) == {"state": "overdue"}
    assert started.bodies("cancel") == []


def test_a_node_that_restarts_is_waited_for(started):
    started.down, started.states = 3, ["succeeded"]
    assert fire(waiting()) == {"state": "succeeded"}


def test_a_node_that_stays_away_is_lost(started, monkeypatch):
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.05)
    started.down = 10**6
    assert fire(waiting()) == {"state": "lost"}


def test_an_error_that_cannot_heal_ends_the_wait_at_once(started):
    assert fire(waiting(seconds=60, job="job-9")) == {"state": "lost"}
    with pytest.raises(StateError):
        started.status("job-9")


def test_on_kill_cancels_with_the_key(started):
    trigger = waiting()
    asyncio.run(trigger.on_kill())
    assert started.bodies("cancel") == [{"job": "job-1", "key": "k"}]


def test_a_late_kill_spares_the_job_of_a_newer_attempt(started):
    started.jobs["job-1"]["key"] = "newer"
    asyncio.run(waiting().on_kill())
    assert started.states == ["running"]


def test_what_airflow_stores_rebuilds_the_trigger_and_holds_no_secret(started):
    path, arguments = waiting().serialize()
    assert path == "airflow_provider.trigger.StepTrigger"
    assert StepTrigger(**json.loads(json.dumps(arguments))).serialize() == (path, arguments)
    assert "pem" not in json.dumps(arguments)
