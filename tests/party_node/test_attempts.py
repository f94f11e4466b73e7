"""Reserving, starting and stopping at one party, with a worker that a test steers by hand."""

import time

import pytest
from run_parties import SMALL, attempts_of
from sqlalchemy import update

from base.errors import Cancelled, ConsentError, DataError, DeadlinePassed, PeerError, StateError
from party_node import live_attempts
from party_node.attempt_rows import CANCELLED, FAILED, RUNNING, SUCCEEDED
from party_node.database import Database, Run
from party_node.runs import Runs
from transport.message import MessageKey

DONE = {"event": "done", "outputs": {"alignment": "d"}, "metrics": {"ids": 3.0}, "rows": 3, "tracking": "m"}


class HandWorker:
    """Takes a task and waits for the test to end it."""

    def __init__(self):
        self.job = self.listener = self.cancelled = None
        self.tasks = []

    def run(self, job, command, listener):
        if self.job is not None:
            raise StateError("the worker is busy")
        self.job, self.listener = job, listener
        self.tasks.append(command["task"])

    def cancel(self, job, error):
        self.cancelled = error

    def end(self, **event):
        job, self.job = self.job, None
        self.listener({"job": job, **event})


class OpenRuns(Runs):
    """Runs whose accord stands (its checks have tests of their own)."""

    def require_open(self, run, peer):
        return self.mine(run, peer, ("open",))

    def require_unchanged(self, run, step):
        if (run, step) in self.changed:
            raise ConsentError("something has changed since the run was opened")

    changed = ()


@pytest.fixture
def node(organisations):
    home = organisations.home("bureau")
    database = Database(home.url(home.conf.database))
    with database.write() as session:
        for run in ("r1", "r2"):
            session.add(
                Run(
                    run=run,
                    pipeline="small",
                    accord="demo",
                    accord_digest="a",
                    template="t",
                    text=SMALL,
                    file="small.yaml",
                    seed=7,
                    initiator="north_bank",
                    salt="00",
                    state="open",
                    created=1.0,
                )
            )
    worker = HandWorker()
    runs = OpenRuns(home, database, None, None)

    found = attempts_of(home, database, runs, worker)
    found.remake = lambda: attempts_of(home, database, runs, worker)
    found.runs, found.database = runs, database
    return found


def body(run="r1", step="align", attempt=1, **more):
    return {"run": run, "step": step, "attempt": attempt, **more}


def begin(node, **which):
    assert node.attempts.reserve("north_bank", body(**which)) == {"busy": False, "rounds": []}
    node.attempts.start("north_bank", body(**which, resume=None, deadline_seconds=100))


def test_an_attempt_from_reservation_to_success(node):
    begin(node)
    assert node.attempts.watch("north_bank", body())["state"] == RUNNING
    node.worker.listener({"event": "progress", "job": "r1/align/1", "done": 3, "total": 9, "unit": "round"})
    assert node.attempts.watch("north_bank", body())["progress"] == {"done": 3, "total": 9, "unit": "round"}
    node.worker.end(**DONE)
    seen = node.attempts.watch("north_bank", body())
    assert (seen["state"], seen["rows"], seen["error"]) == (SUCCEEDED, 3, None)
    assert "outputs" not in seen  # digests of a party's data are its own
    assert node.worker.tasks[0]["party"] == "bureau"


def test_nothing_starts_when_what_was_agreed_has_changed(node):
    node.runs.changed = [("r1", "align")]
    with pytest.raises(ConsentError, match="has changed"):
        begin(node)
    assert node.worker.tasks == []


def test_one_reservation_at_a_time_and_asking_again_renews(node):
    assert not node.attempts.reserve("north_bank", body())["busy"]
    assert not node.attempts.reserve("north_bank", body())["busy"]
    assert node.attempts.reserve("north_bank", body(run="r2"))["busy"]


def test_a_reservation_that_is_not_renewed_lapses(node, monkeypatch):
    node.attempts.reserve("north_bank", body())
    monkeypatch.setattr(live_attempts, "RESERVE_SECONDS", -1.0)
    node.live.sweep()
    assert not node.attempts.reserve("north_bank", body(run="r2"))["busy"]
    assert node.rows.get("r1", "align", 1).state == FAILED


def test_nothing_starts_without_a_reservation(node):
    with pytest.raises(StateError, match="not reserved"):
        node.attempts.start("north_bank", body(resume=None, deadline_seconds=1))


def test_only_the_initiator_of_the_run_may_ask(node):
    for method in (node.attempts.reserve, node.attempts.watch):
        with pytest.raises(ConsentError, match="only the initiator"):
            method("south_bank", body())
    begin(node)
    node.attempts.stop("south_bank", body(error=Cancelled("no").to_wire()))
    assert node.worker.cancelled is None


def test_starting_twice_runs_once(node):
    begin(node)
    node.attempts.start("north_bank", body(resume=None, deadline_seconds=100))
    assert len(node.worker.tasks) == 1


def test_a_number_that_was_here_before_is_refused(node):
    begin(node, attempt=2)
    node.worker.end(**DONE)
    for attempt in (1, 2):
        with pytest.raises(StateError, match="here before"):
            node.attempts.reserve("north_bank", body(attempt=attempt))


def test_a_later_attempt_ends_an_earlier_one_and_waits_for_its_worker(node):
    begin(node)
    assert node.attempts.reserve("north_bank", body(attempt=2))["busy"]
    assert isinstance(node.worker.cancelled, Cancelled)
    node.worker.end(event="failed", error=node.worker.cancelled.to_wire())
    assert node.rows.get("r1", "align", 1).state == CANCELLED
    assert not node.attempts.reserve("north_bank", body(attempt=2))["busy"]


def test_the_error_of_another_party_is_the_one_that_is_kept(node):
    begin(node)
    node.attempts.stop("north_bank", body(error=DataError("too few", party="south_bank").to_wire()))
    node.worker.end(event="failed", error=PeerError("whatever the worker says now").to_wire())
    row = node.rows.get("r1", "align", 1)
    assert (row.state, row.error["code"], row.error["party"]) == (FAILED, 40, "south_bank")


def test_messages_are_for_live_attempts_alone(node):
    with pytest.raises(StateError):
        node.live.task("r1", "align", 1)
    node.attempts.reserve("north_bank", body())
    assert node.live.task("r1", "align", 1).component == "align_rsa"
    node.attempts.start("north_bank", body(resume=None, deadline_seconds=100))
    node.attempts.stop("north_bank", body(error=Cancelled("stopped").to_wire()))
    with pytest.raises(Cancelled):
        node.live.task("r1", "align", 1)


def test_what_a_failed_attempt_has_counted_is_kept(node):
    begin(node)
    told = {"error": DataError("ids stand in more than one row").to_wire(), "metrics": {"duplicate": 3.0}}
    node.worker.end(event="failed", **told)
    row = node.rows.get("r1", "align", 1)
    assert (row.state, row.metrics) == (FAILED, {"duplicate": 3.0})


def test_an_attempt_that_its_initiator_forgot_is_stopped(node, monkeypatch):
    begin(node)
    node.live.sweep()
    assert node.worker.cancelled is None
    monkeypatch.setattr(live_attempts, "LEASE_SECONDS", -1.0)
    node.live.sweep()
    assert isinstance(node.worker.cancelled, DeadlinePassed)
    assert "north_bank has not asked" in node.worker.cancelled.what


def test_an_attempt_ends_at_its_deadline(node):
    node.attempts.reserve("north_bank", body())
    node.attempts.start("north_bank", body(resume=None, deadline_seconds=0.001))
    time.sleep(0.01)
    node.live.sweep()
    assert isinstance(node.worker.cancelled, DeadlinePassed)


@pytest.mark.parametrize("deadline", [float("inf"), float("nan"), 1e9, -1, None, "100"])
def test_a_deadline_that_would_hold_the_worker_for_more_than_a_day_is_refused(node, deadline):
    node.attempts.reserve("north_bank", body())
    with pytest.raises(ConsentError, match="deadline"):
        node.attempts.start("north_bank", body(resume=None, deadline_seconds=deadline))
    assert node.rows.get("r1", "align", 1).state == "reserved"


def _without_bureau():
    return SMALL.replace("sender: [bureau]", "sender: [south_bank]").replace("bureau: people}", "south_bank: ratings}")


def test_a_step_without_a_role_for_this_party_is_refused(node):
    with node.database.write() as session:
        session.execute(update(Run).values(text=_without_bureau()))
    with pytest.raises(ConsentError, match="no role"):
        node.attempts.reserve("north_bank", body())
    with pytest.raises(ConsentError, match="no such step"):
        node.attempts.reserve("north_bank", body(step="train"))


def test_an_agreed_checkpoint_must_be_here(node):
    node.attempts.reserve("north_bank", body())
    with pytest.raises(StateError, match="checkpoint"):
        node.attempts.start("north_bank", body(resume=4, deadline_seconds=1))


def test_a_restart_marks_what_was_going_on_as_failed_and_retryable(node):
    begin(node)
    again = node.remake()
    row = again.rows.get("r1", "align", 1)
    assert (row.state, row.error["code"]) == (FAILED, 30)
    assert not again.attempts.reserve("north_bank", body(attempt=2))["busy"]


def test_what_came_for_an_attempt_is_forgotten_when_it_ends(node):
    begin(node)
    key = MessageKey("r1", "align", 1, "tags", "north_bank", "bureau", 0)
    node.inbox.put(key, b"sealed")
    node.worker.end(**DONE)
    assert node.inbox.get(key, 0) is None


def test_a_message_that_comes_late_hears_why_the_attempt_is_over(node):
    with pytest.raises(StateError, match="no such attempt"):
        node.live.task("r1", "align", 1)
    begin(node)
    assert node.live.task("r1", "align", 1).step == "align"
    node.worker.end(event="failed", error=DataError("ids stand in more than one row").to_wire())
    with pytest.raises(DataError, match="more than one row"):
        node.live.task("r1", "align", 1)
