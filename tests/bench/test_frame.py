import json

import pytest
from rich.console import Console

from base.errors import StateError
from bench.frame import Case, Suite, Unmeasured, _Left, measure, show, write


def quiet(case, turn, of, left):
    assert left >= 0


def counter(figures):
    found = iter(figures)
    return lambda: float(next(found))


def test_the_warm_up_does_not_count_and_ratios_are_paired():
    case = Case("a", "b", "s", counter([99, 2, 9, 4]), counter([1, 1, 3, 1]), ">= 3")
    (row,) = measure([case], 3, quiet)
    assert (row.ours, row.theirs, row.ratio, row.spread, row.met) == (4, 1, 3, (2, 4), True)
    assert (row.ours_spread, row.theirs_spread) == ((2, 9), (1, 3))


@pytest.mark.parametrize(("target", "met"), [(">= 2", True), (">= 2.1", False), ("<= 2", True), ("<= 1.9", False)])
def test_targets_have_a_direction(target, met):
    (row,) = measure([Case("a", "b", "s", lambda: 2.0, lambda: 1.0, target)], 1, quiet)
    assert row.met is met


def test_a_shared_figure_is_measured_once_a_turn():
    calls = []

    def ours():
        calls.append(1)
        return 1.0

    measure([Case("a", peer, "s", ours, lambda: 1.0) for peer in "xyz"], 4, quiet)
    assert len(calls) == 5


def test_turns_are_interleaved():
    order = []
    cases = [
        Case(n, "p", "s", lambda n=n: order.append(n) or 1.0, lambda n=n: order.append(n * 2) or 1.0) for n in "ab"
    ]
    measure(cases, 1, quiet)
    assert order == ["aa", "a", "bb", "b"] * 2


def test_a_peer_that_fails_is_listed_with_its_reason_and_asked_once(tmp_path):
    asked = []

    def theirs():
        asked.append(1)
        raise Unmeasured("no such curve", found="[AVX2]")

    rows = measure(
        [Case("a [[d]]", "b", "s", lambda: 1.0, theirs, ">= 2"), Case("c", "", "s", lambda: 1.0, None)], 3, quiet
    )
    assert (rows[0].note, rows[0].theirs, rows[0].met, rows[0].ours) == ("no such curve [AVX2]", None, None, 1)
    assert (rows[1].note, rows[1].ratio) == (None, None)
    assert len(asked) == 1
    console = Console(width=200, record=True, file=(tmp_path / "out").open("w"))
    console.print(show("x", rows))
    text = console.export_text()
    assert "no such curve [AVX2]" in text
    assert "a [[d]]" in text
    write("x", rows, tmp_path / "deep" / "x.json", {"peers": {"b": "gone"}})
    document = json.loads((tmp_path / "deep" / "x.json").read_text())
    assert document["peers"] == {"b": "gone"}
    assert document["rows"][0]["note"] == "no such curve [AVX2]"


def test_our_own_failure_is_not_a_peer_s():
    def broken():
        raise StateError("a measured result is wrong")

    with pytest.raises(StateError):
        measure([Case("a", "b", "s", broken, lambda: 1.0)], 1, quiet)


def test_a_suite_needs_no_more_than_cases():
    assert (Suite([]).notes, Suite([]).tables, Suite([]).picture) == ((), None, None)


def test_the_time_that_remains_goes_by_size_until_a_case_has_run():
    left = _Left([1, 1, 2], [1.0, 10.0, 0.5])
    assert left.after(0, 3.0) == 30.0 + 2 * 1.5
    assert left.after(1, 8.0) == 2 * 0.5 * 1.0  # 11 s for 11 units
    assert left.after(2, 7.0) == 7.0
    assert left.after(2, 5.0) == 0.0
