"""The idempotency rules that Airflow relies on, with a coordinator that a test steers by hand."""

import threading
import time

import pytest

from base.errors import ConsentError, DataError, StateError
from party_node.database import Database, Run
from party_node.jobs import Jobs
from party_node.policy import Caller

CLI = Caller("north_bank.cli", "submitter", peer=False)
OPERATOR = Caller("north_bank.operator", "operator", peer=False)


class HandCoordinator:
    """Opens runs at once; an attempt ends when the test says so, or when it is stopped."""

    def __init__(self, database):
        self._database = database
        self.opened, self.driven, self.result = [], [], None
        self.go = threading.Event()

    def open_run(self, run_key, text, file, seed):
        name = f"run{len(self.opened)}"
        self.opened.append(run_key)
        row = Run(
            run=name, run_key=run_key, pipeline="small", accord="demo", accord_digest="a", template="t", text=text,
            file=file, seed=seed or 7, initiator="north_bank", salt="00", state="open", created=1.0,
        )  # fmt: skip
        with self._database.write() as session:
            session.add(row)
        return row

    def drive(self, job, stopped, tell):
        self.driven.append(job.name)
        tell(state="running", parties={"bureau": {"state": "running"}})
        while not self.go.wait(0.01):
            if error := stopped():
                return error
        return self.result


class NoAttempts:
    def last(self, run, step):
        return 0


@pytest.fixture
def small(repository):
    return (repository / "tests" / "party_node" / "small.yaml").read_text(encoding="utf-8")


@pytest.fixture
def jobs(organisations, small):
    from party_node.runs import Runs

    home = organisations.home("north_bank")
    database = Database(home.url(home.conf.database))
    coordinator = HandCoordinator(database)
    runs = Runs(home, database, None, None)

    def make():
        found = Jobs(home, database, runs, NoAttempts(), coordinator)
        found.coordinator, found.make, found.text = coordinator, make, small
        return found

    found = make()
    yield found
    coordinator.go.set()


def submit(jobs, key="d/r/load/1", step="load", run_key="d/r", **more):
    body = {"pipeline": jobs.text, "file": "small.yaml", "step": step, "key": key, "run_key": run_key, **more}
    return jobs.submit(CLI, body)


def wait(jobs, job, *states):
    for _ in range(500):
        answer = jobs.status(CLI, {"job": job["job"]})
        if answer["state"] in states:
            return answer
        time.sleep(0.01)
    raise AssertionError(answer["state"])


def end(jobs, job, error=None):
    jobs.coordinator.result = error
    jobs.coordinator.go.set()
    answer = wait(jobs, job, "succeeded", "failed", "cancelled")
    jobs.coordinator.go.clear()
    return answer


def test_the_same_key_is_the_same_job(jobs):
    first = submit(jobs)
    assert submit(jobs)["job"] == first["job"]
    assert end(jobs, first)["state"] == "succeeded"
    assert submit(jobs)["job"] == first["job"]
    assert jobs.coordinator.driven == [first["job"]]
    assert jobs.coordinator.opened == ["d/r"]


def test_two_submits_at_once_are_one_job(jobs):
    found = []
    threads = [threading.Thread(target=lambda: found.append(submit(jobs)["job"])) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert len(jobs.coordinator.opened) == 1


def test_another_key_attaches_to_what_goes_on_and_takes_it_over(jobs):
    first = submit(jobs)
    assert submit(jobs, "d/r/load/2")["job"] == first["job"]
    assert not jobs.cancel(CLI, {"job": first["job"], "key": "d/r/load/1"})["cancelled"]
    assert submit(jobs, "d/r/load/1")["job"] == first["job"]  # asking with the old key changes no holder
    assert jobs.cancel(CLI, {"job": first["job"], "key": "d/r/load/2"})["cancelled"]
    answer = wait(jobs, first, "cancelled")
    assert "north_bank.cli cancelled" in answer["error"]["what"]


def test_a_failed_step_gets_a_new_attempt_and_a_late_cancel_of_the_old_one_does_nothing(jobs):
    first = submit(jobs)
    failed = end(jobs, first, DataError("too few", party="bureau"))
    assert (failed["state"], failed["error"]["party"]) == ("failed", "bureau")
    second = submit(jobs, "d/r/load/2")
    assert second["attempt"] == 2
    assert not jobs.cancel(CLI, {"job": first["job"], "key": "d/r/load/1"})["cancelled"]
    assert not jobs.cancel(CLI, {"job": second["job"], "key": "d/r/load/1"})["cancelled"]
    assert end(jobs, second)["state"] == "succeeded"
    assert submit(jobs, "d/r/load/1")["job"] == first["job"]


def test_a_step_that_has_succeeded_is_not_run_again(jobs):
    first = submit(jobs)
    end(jobs, first)
    assert submit(jobs, "d/r/load/2") | {} == jobs.status(CLI, {"job": first["job"]})
    assert len(jobs.coordinator.driven) == 1


def test_another_run_key_is_another_run(jobs):
    assert submit(jobs)["run"] != submit(jobs, "d/s/load/1", run_key="d/s")["run"]


def test_retries_run_the_pipeline_that_was_submitted_first(jobs):
    first = submit(jobs)
    jobs.text = jobs.text.replace("  load:", "  other:").replace("load.tables", "other.tables")
    assert submit(jobs, "d/r/load/2")["job"] == first["job"]
    with pytest.raises(StateError, match="no such step"):
        submit(jobs, "d/r/other/1", step="other")


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("pipeline: small", "pipeline: other", "pipeline other of small.yaml, seed 7"),
        ("min_overlap: 100", "min_overlap: 101", "pipeline small of small.yaml, edited since then, seed 7"),
    ],
)
def test_who_names_a_run_and_another_pipeline_is_refused(jobs, old, new, found):
    first = submit(jobs)
    end(jobs, first, DataError("too few"))
    assert jobs.text.count(old) == 1
    jobs.text = jobs.text.replace(old, new)
    with pytest.raises(StateError, match="another pipeline or seed than this run began with") as caught:
        submit(jobs, "d/r/load/2", same_pipeline=True)
    error = caught.value
    assert (error.expected, error.found) == ("pipeline small of small.yaml, seed 7", found)
    assert error.where == f"run {first['run']}"
    assert "without --run-key" in error.remedy
    assert jobs.coordinator.driven == [first["job"]]


def test_who_names_a_run_and_another_seed_is_refused_and_a_remark_is_no_change(jobs):
    first = submit(jobs)
    end(jobs, first, DataError("too few"))
    with pytest.raises(StateError, match="another pipeline or seed") as caught:
        submit(jobs, "d/r/load/2", same_pipeline=True, seed=8)
    assert caught.value.found.endswith("seed 8")
    jobs.text = "# a remark\n" + jobs.text
    assert submit(jobs, "d/r/load/2", same_pipeline=True, seed=7)["attempt"] == 2


def test_an_operator_cancels_without_a_key_and_a_submitter_does_not(jobs):
    job = submit(jobs)
    assert not jobs.cancel(CLI, {"job": job["job"]})["cancelled"]
    assert jobs.cancel(OPERATOR, {"job": job["job"]})["cancelled"]
    wait(jobs, job, "cancelled")


def test_a_job_that_nobody_watches_is_stopped(jobs, monkeypatch):
    monkeypatch.setitem(jobs._home.conf.__dict__, "unwatched_minutes", 0)
    job = submit(jobs)
    time.sleep(0.1)
    answer = wait(jobs, job, "cancelled")
    assert "nobody has watched" in answer["error"]["what"]


def test_a_restart_fails_what_was_going_on_and_a_retry_begins_anew(jobs):
    first = submit(jobs)
    wait(jobs, first, "running")  # or its thread, which a real restart ends, would say so after the restart
    again = jobs.make()
    answer = again.status(CLI, {"job": first["job"]})
    assert (answer["state"], answer["error"]["code"]) == ("failed", 30)
    assert submit(again, "d/r/load/2")["attempt"] == 2


@pytest.mark.parametrize("key", ["", "a\nb", "x" * 500])
def test_keys_are_plain_lines(jobs, key):
    with pytest.raises(ConsentError):
        submit(jobs, key)


@pytest.mark.parametrize("job", ["", "a", "a/b", "a/b/x", "a/b/99", "../../x"])
def test_an_unknown_job_is_an_error(jobs, job):
    with pytest.raises(StateError, match="no such job"):
        jobs.status(CLI, {"job": job})


@pytest.mark.parametrize("deadline", [float("nan"), float("inf"), 24 * 3600 + 1, 0, -5, "60", True])
def test_a_deadline_beyond_a_day_or_that_never_comes_is_refused_before_a_run_is_opened(jobs, deadline):
    with pytest.raises(ConsentError, match="deadline"):
        submit(jobs, deadline_seconds=deadline)
    assert jobs.coordinator.opened == []


def test_a_deadline_of_a_day_is_taken(jobs):
    first = submit(jobs, deadline_seconds=24 * 3600)
    assert jobs._get(first["job"]).deadline == 24 * 3600
