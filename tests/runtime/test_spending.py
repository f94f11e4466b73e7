"""One budget of a data set over all accords: what another accord, thread or process has spent counts."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from base.errors import ConsentError
from crypto.budget import Release, epsilon
from party_node.budgets import SqlBudgets
from party_node.database import Database
from runtime.spending import MemoryBudgets, Spending, releases

NIGHT = Release("gaussian", 1000, 100.0, "l2", 10)
LIMIT = {"epsilon": 1.2, "delta": 1e-6}
AFFORDABLE = max(n for n in range(1, 50) if epsilon([replace(NIGHT, times=n)], 1e-6) <= 1.2)


@pytest.fixture(params=["memory", "sql"])
def store(request, tmp_path):
    if request.param == "memory":
        yield MemoryBudgets()
        return
    database = Database(f"sqlite:///{tmp_path}/node.db")
    yield SqlBudgets(database)
    database.close()


def test_two_accords_spend_one_budget(store):
    live, pilot = (Spending(name, {"ratings": LIMIT}, store) for name in ("live", "pilot"))
    assert 2 < AFFORDABLE < 10
    for n in range(AFFORDABLE - 1):
        live.charge("ratings", NIGHT, f"night-{n}/train/1: G")
    pilot.charge("ratings", NIGHT, "pilot/train/1: G")
    for accord in (live, pilot):
        with pytest.raises(ConsentError, match="does not allow a release"):
            accord.charge("ratings", NIGHT, "one more")
    assert len(store.read("ratings")[1]) == AFFORDABLE
    assert {entry["accord"] for entry in store.read("ratings")[1]} == {"live", "pilot"}
    live_people = Spending("live", {"people": LIMIT}, store)
    live_people.charge("people", NIGHT, "another data set has a budget of its own")


def test_the_smaller_of_two_limits_holds_where_it_is_agreed(store):
    narrow = Spending("narrow", {"ratings": {"epsilon": 0.6, "delta": 1e-6}}, store)
    wide = Spending("wide", {"ratings": LIMIT}, store)
    wide.charge("ratings", NIGHT, "a")
    wide.charge("ratings", NIGHT, "b")
    with pytest.raises(ConsentError, match="does not allow a release"):
        narrow.charge("ratings", NIGHT, "c")


def test_what_the_accord_does_not_name_spends_nothing(store):
    with pytest.raises(ConsentError, match="spend no privacy"):
        Spending("live", {"ratings": LIMIT}, store).charge("people", NIGHT, "a")
    assert store.read("people") == (0, [])


def test_the_rounds_of_a_step_are_one_entry_and_count_each(store):
    spending = Spending("live", {"ratings": LIMIT}, store)
    for _ in range(3):
        spending.charge("ratings", NIGHT, "run/train/1: change")
    spending.charge("ratings", NIGHT, "run/train/2: change")
    version, entries = store.read("ratings")
    assert (version, [entry["release"]["times"] for entry in entries]) == (4, [3, 1])
    assert epsilon(releases(entries), 1e-6) == pytest.approx(epsilon([NIGHT] * 4, 1e-6))


def test_charges_at_one_time_never_exceed_the_limit_and_none_is_lost(store):
    spending = [Spending(f"accord-{n % 3}", {"ratings": LIMIT}, store) for n in range(3 * AFFORDABLE)]

    def charge(n):
        try:
            spending[n].charge("ratings", NIGHT, f"run-{n}/train/1: G")
        except ConsentError:
            return 0
        return 1

    with ThreadPoolExecutor(8) as pool:
        allowed = sum(pool.map(charge, range(len(spending))))
    assert allowed == AFFORDABLE == len(store.read("ratings")[1])


def test_of_two_that_read_one_version_the_second_does_not_store(store):
    version, entries = store.read("ratings")
    assert store.swap("ratings", version, [*entries, {"first": 1}])
    assert not store.swap("ratings", version, [*entries, {"second": 1}])
    version, entries = store.read("ratings")
    assert entries == [{"first": 1}]
    assert store.swap("ratings", version, [*entries, {"third": 1}])
    assert not store.swap("ratings", version, [*entries, {"fourth": 1}])
    assert store.read("ratings") == (2, [{"first": 1}, {"third": 1}])


def test_a_process_that_is_killed_after_the_charge_has_spent(tmp_path):
    url = f"sqlite:///{tmp_path}/node.db"
    child = os.fork()
    if child == 0:
        try:
            Spending("live", {"ratings": LIMIT}, SqlBudgets(Database(url))).charge("ratings", NIGHT, "run/train/1: G")
        finally:
            os.kill(os.getpid(), signal.SIGKILL)  # nothing sent, nothing closed
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    database = Database(url)
    assert releases(SqlBudgets(database).read("ratings")[1]) == (NIGHT,)
    database.close()


def test_a_durable_write_waits_for_the_disk_and_others_do_not(tmp_path):
    database = Database(f"sqlite:///{tmp_path}/node.db")
    levels = []
    for durable in (False, True, False):
        with database.write(durable=durable) as session:
            levels.append(session.connection().exec_driver_sql("PRAGMA synchronous").scalar())
    assert levels == [1, 2, 1]  # NORMAL, FULL, NORMAL
    database.close()
