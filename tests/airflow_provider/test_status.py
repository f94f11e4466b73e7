from __future__ import annotations

from airflow_provider.status import Progress, failures
from base.errors import DataError, DeadlinePassed

PART = {"state": "running", "progress": {"done": 5, "total": 20, "unit": "rounds"}, "seconds": 10.0, "rows": 943,
        "bytes_out": 3_200_000, "bytes_in": 900, "error": None}  # fmt: skip


def test_a_line_says_rounds_rows_bytes_and_the_time_that_is_left():
    line = "south_bank: running, 5/20 rounds, 943 rows, out 3.2 MB, in 0.9 kB, 10.0 s, about 30 s left"
    assert list(Progress().lines({"parties": {"south_bank": PART}})) == [line]


def test_nothing_new_no_line():
    progress = Progress()
    status = {"parties": {"south_bank": PART, "bureau": {**PART, "progress": None}}}
    assert len(list(progress.lines(status))) == 2
    assert list(progress.lines(status)) == []
    changed = {"parties": {**status["parties"], "bureau": {**PART, "state": "succeeded", "progress": None}}}
    assert [line.split(",")[0] for line in progress.lines(changed)] == ["bureau: succeeded"]


def test_a_thousand_rounds_are_twenty_lines():
    progress = Progress()
    rounds = [{**PART, "progress": {"done": done, "total": 1000, "unit": "rounds"}} for done in range(1000)]
    assert sum(len(list(progress.lines({"parties": {"bureau": part}}))) for part in rounds) == 20


def test_the_cause_comes_first_and_each_error_once():
    cause, other = DataError("a column is missing", party="bureau"), DeadlinePassed("awaited", party="north_bank")
    nameless = {name: value for name, value in cause.to_wire().items() if name != "party"}
    parties = {"bureau": {"error": cause.to_wire()}, "north_bank": {"error": other.to_wire()}}
    found = failures({"job": "j", "state": "failed", "error": nameless, "parties": parties})
    assert [str(error) for error in found] == [str(cause), str(other)]
