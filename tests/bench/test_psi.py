import json
import struct
from pathlib import Path

import pytest
from typer.testing import CliRunner

import bench.psi_run
from base.errors import SpecError, StateError
from bench.cli import app
from bench.frame import Case, measure
from bench.peer import HERE, Place
from bench.psi import cases
from bench.psi_party import people
from bench.psi_run import PARTIES, Pair, curve_params, rsa_params

BESIDE = {"curve": 60, "spu": 10, "rsa": 8}
NO_PEERS = Place(Path("none"), HERE / "peers", Path("none"))


@pytest.fixture
def pair(tmp_path):
    return Pair(tmp_path)


def test_ids_are_seeded_and_half_of_them_are_in_common():
    one, again, other = (people(first, 100, seed)["id"].to_pylist() for first, seed in ((0, 1), (0, 1), (50, 2)))
    assert one == again
    assert one != sorted(one)
    assert len(set(one)) == 100
    assert len(set(one) & set(other)) == 50


def test_two_processes_align_over_mutual_tls_and_what_they_take_is_counted(pair):
    run = pair.align("align_ecdh", 301, curve_params(301))
    assert set(run.cpu) == set(run.peak) == set(PARTIES)
    assert all(0 < seconds < 60 for seconds in run.cpu.values())
    assert all(20e6 < peak < 2e9 for peak in run.peak.values())  # an interpreter with Arrow, and not two of them
    assert run.bytes > 2 * 32 * 301
    assert run.wall > 0


def test_a_second_night_signs_the_new_ids_alone(pair):
    params = rsa_params(200) | {"pad_to": 10}
    first = pair.align("align_rsa", 200, params)
    second = pair.align("align_rsa", 200, params, first=10, night=2)
    assert second.bytes < first.bytes / 2
    assert (first.night, second.night) == (1, 2)


def test_a_party_that_fails_ends_the_measurement(pair):
    with pytest.raises(StateError, match="failed in its process"):
        pair.align("align_ecdh", 50, curve_params(50) | {"buckets": 0})


def test_a_wrong_result_has_no_figure(tmp_path, monkeypatch):
    command = "import bench.psi_party as p; p._aligned = lambda *_: {'aligned': 25, 'digest': id(p)}; p.main()"
    monkeypatch.setattr(bench.psi_run, "COMMAND", command)
    with pytest.raises(StateError, match="wrong"):
        Pair(tmp_path).align("align_ecdh", 50, curve_params(50))


def test_the_command_writes_rows_runs_and_a_picture(tmp_path, monkeypatch):
    def tiny(curve, rsa):
        return cases(curve, rsa, BESIDE, NO_PEERS)

    monkeypatch.setattr(bench.psi, "cases", tiny)
    monkeypatch.setenv("COLUMNS", "200")
    file = tmp_path / "psi.json"
    command = ["psi", "--curve", "100", "--curve", "200", "--rsa", "30", "--repetitions", "1", "--json", str(file)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    document = json.loads(file.read_text())
    rows = {(row["case"], row["peer"]): row for row in document["rows"]}
    assert "peers" in rows["align_ecdh", "openmined-psi"]["note"]
    assert rows["align_rsa", "pycryptodome"]["met"] in (True, False)
    assert rows["align_ecdh, 100 ids a side: memory", "limit of 2 GB"]["met"]
    assert rows["align_ecdh, 200 ids a side: CPU", "100 ids"]["theirs"] > 0
    night = rows["align_rsa, 30 ids a side: second night, 1 % new", "first night"]
    assert night["spread"][0] == night["spread"][1] == night["ratio"]
    runs = [(run["component"], run["ids"], run["night"]) for run in document["psi"]["runs"]]
    large = [("align_ecdh", 100, 1), ("align_ecdh", 200, 1), ("align_rsa", 30, 1), ("align_rsa", 30, 2)]
    assert [run for run in runs if run in large] == large
    assert runs.count(("align_ecdh", 60, 1)) == runs.count(("align_rsa", 8, 1)) == 2
    assert document["repetitions"] == 1
    assert "align_rsa" in result.output
    picture = file.with_suffix(".png").read_bytes()
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    assert min(struct.unpack(">II", picture[16:24])) > 500


def test_targets_are_those_that_are_published():
    with cases(beside=BESIDE, place=NO_PEERS) as suite:
        targets = {(case.name, case.peer): case.target for case in suite.cases if case.target}
    assert targets == {
        ("align_ecdh", "openmined-psi"): ">= 1.6",
        ("align_ecdh", "spu ECDH, sound"): ">= 4",
        ("align_rsa", "pycryptodome"): ">= 1.2",
        ("align_ecdh, 100,000 ids a side: memory", "limit of 2 GB"): "<= 1",
        ("align_ecdh, 1,000,000 ids a side: memory", "limit of 2 GB"): "<= 1",
        ("align_ecdh, 1,000,000 ids a side: CPU", "100,000 ids"): "<= 1.2",
        ("align_rsa, 100,000 ids a side: memory", "limit of 2 GB"): "<= 1",
        ("align_rsa, 100,000 ids a side: second night, 1 % new", "first night"): "<= 0.03",
    }


def test_sizes_are_for_psi_alone():
    result = CliRunner().invoke(app, ["training", "--curve", "100"])
    assert isinstance(result.exception, SpecError)


def test_a_case_that_takes_minutes_is_measured_once_and_the_rest_of_the_time_is_told():
    calls, told = [], []
    listed = [
        Case("long", "", "s", lambda: calls.append("long") or 1.0, None, once=True),
        Case("short", "", "s", lambda: calls.append("short") or 2.0, None),
    ]
    rows = measure(listed, 2, lambda *line: told.append(line))
    assert calls == ["long", "short", "short", "short"]
    assert [(row.ours, row.ours_spread) for row in rows] == [(1.0, (1.0, 1.0)), (2.0, (2.0, 2.0))]
    assert [line[0] for line in told] == calls
    assert told[-1][3] == 0
