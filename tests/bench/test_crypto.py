import ast
import json
import shutil
import struct
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import bench.crypto
from base.errors import SpecError
from bench.cli import app
from bench.crypto import cases
from bench.crypto_meter import Sizes
from bench.frame import Unmeasured, measure
from bench.peer import HERE, IN_BOTH, NAMES, REMEDY, Peer, Place, open_peers

TINY = Sizes(
    ciphertexts=2, additions=4, packed=126, one_by_one=2, people=30, columns=1, masked=1000, curve_ids=10,
    transfer_ids=10, rsa_ids=4, peer_rows=3, peer_columns=1,
)  # fmt: skip
FAKE = """
from serve import serve
class Any(dict):
    def __missing__(self, op):
        return lambda **n: {"count": max(n.values()), "cpu": 0.5, "bytes": 7.0}
def load():
    print("noise of a library on standard output")
    return {"NAME": "1.0"}, Any()
serve(load)
"""
ABSENT = "from serve import serve\ndef load():\n    import no_such_library_at_all\nserve(load)\n"
BROKEN = FAKE.replace('{"count"', '1 / 0 or {"count"')
KILLED = "import os\nos.kill(os.getpid(), 9)\n"


@pytest.fixture
def place(tmp_path):
    """All peers answer, but one that cannot be imported, one that fails when asked and one that is killed."""
    shutil.copy(HERE / "peers" / "serve.py", tmp_path)
    scripts = {"spu": ABSENT, "tenseal": BROKEN, "openmined": KILLED}
    for name in NAMES:
        (tmp_path / f"peer_{name}.py").write_text(scripts.get(name, FAKE.replace("NAME", name)))
    failures = tmp_path / "failed.txt"
    failures.write_text("spu==0.9.5: ERROR: no wheel\nscipy==1.0: ERROR: other\n")
    return Place(Path(sys.executable), tmp_path, failures)


def test_peers_that_do_not_run_are_listed_with_their_reason(place):
    with open_peers(place) as (peers, found):
        assert set(peers) == {"phe", "pycryptodome", "heu", "tenseal"}
        assert set(found) == set(NAMES)
        assert found["phe"] == {"versions": {"phe": "1.0"}, "reason": None}
        assert "No module named 'no_such_library_at_all'" in found["spu"]["reason"]
        assert "no wheel" in found["spu"]["reason"]
        assert "other" not in found["spu"]["reason"]
        assert "ended with -9" in found["openmined"]["reason"]
        with pytest.raises(Unmeasured, match="ZeroDivisionError"):
            peers["tenseal"].ask("end_to_end", n=3)
        assert peers["heu"].ask("add", n=3) == {"count": 3, "cpu": 0.5, "bytes": 7.0}


def test_without_their_environment_the_remedy_is_named_and_the_rest_is_measured(place, tmp_path):
    with open_peers(Place(tmp_path / "none" / "python", place.scripts, tmp_path / "none.txt")) as (peers, found):
        assert set(peers) == set(IN_BOTH)
        for name in set(NAMES) - set(IN_BOTH):
            assert found[name]["versions"] is None
            assert found[name]["remedy"] == REMEDY


def test_the_command_writes_every_case_and_a_picture(place, tmp_path, monkeypatch):
    monkeypatch.setattr(bench.crypto, "cases", lambda: cases(TINY, place))
    monkeypatch.setenv("COLUMNS", "200")
    file = tmp_path / "out" / "crypto.json"
    result = CliRunner().invoke(app, ["crypto", "--json", str(file), "--repetitions", "2"])
    assert result.exit_code == 0, result.output
    document = json.loads(file.read_text())
    rows = {(row["case"], row["peer"]): row for row in document["rows"]}
    assert rows["end to end", "phe"]["target"] == ">= 300"
    assert rows["end to end", "phe"]["met"] is not None
    assert rows["end to end", "phe"]["theirs"] == pytest.approx(TINY.one_by_one / 0.5)
    assert "ZeroDivisionError" in rows["end to end", "TenSEAL CKKS"]["note"]
    assert "peers" in rows["curve PSI", "spu ECDH, sound"]["note"]
    assert all(row["ours"] > 0 for row in rows.values())
    assert "no_such_library" in document["peers"]["spu"]["reason"]
    assert document["bytes_per_item"]["end to end: accord"] == pytest.approx(8.13, abs=0.01)
    assert document["bytes_per_item"]["end to end: phe"] == 7
    assert document["avx512ifma"] in (True, False, None)
    for text in ("NOT MEASURED", "no_such_library", "X^T[[d]]", "to go", "pairwise masks", "bytes per id"):
        assert text in result.output
    picture = file.with_suffix(".png").read_bytes()
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    assert min(struct.unpack(">II", picture[16:24])) > 800


def test_targets_are_those_that_are_published(place):
    with cases(TINY, place) as suite:
        targets = {(case.name, case.peer): case.target for case in suite.cases if case.target}
    assert targets == {
        ("end to end", "phe"): ">= 300",
        ("end to end", "sf-heu, own encoder"): ">= 25",
        ("end to end", "sf-heu, our packing"): ">= 0.9",
        ("X^T[[d]]", "phe"): ">= 8",
        ("X^T[[d]]", "sf-heu"): ">= 35",
        ("curve PSI", "openmined-psi"): ">= 1.6",
        ("curve PSI", "spu ECDH, default"): ">= 0.18",
        ("curve PSI", "spu ECDH, sound"): ">= 4",
        ("RSA PSI", "pycryptodome"): ">= 1.2",
    }


@pytest.mark.parametrize(
    ("name", "asked"),
    [("pycryptodome", [("psi", {"ids": 4})]),
     ("phe", [("encrypt", {"n": 2}), ("decrypt", {"n": 2}), ("add", {"n": 5}), ("end_to_end", {"n": 2}),
              ("matvec", {"m": 3, "d": 2})])],
)  # fmt: skip
def test_peers_of_the_own_environment_measure_what_they_say(name, asked):
    peer = Peer(Path(sys.executable), HERE / "peers" / f"peer_{name}.py")
    try:
        for op, arguments in asked:
            answer = peer.ask(op, **arguments)
            count = arguments["m"] * arguments["d"] if op == "matvec" else next(iter(arguments.values()))
            assert answer["count"] == count
            assert answer["cpu"] >= 0
    finally:
        peer.close()
    with pytest.raises(Unmeasured, match="has ended"):
        peer.ask("psi", ids=1)


def test_peers_import_nothing_of_ours():
    ours = {path.name for path in HERE.parent.iterdir() if (path / "__init__.py").exists()}
    assert {"crypto", "base"} <= ours
    for script in (HERE / "peers").glob("*.py"):
        tree = ast.parse(script.read_text())
        nodes = [n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)]
        names = {a.name for n in nodes for a in n.names} | {n.module for n in nodes if isinstance(n, ast.ImportFrom)}
        assert not {name.split(".")[0] for name in names} & ours


def test_every_peer_is_pinned_and_has_its_script():
    pinned = {line for line in (HERE / "peers.txt").read_text().splitlines() if line and not line.startswith("#")}
    assert all(line.count("==") == 1 for line in pinned)
    for name in NAMES:
        assert (HERE / "peers" / f"peer_{name}.py").exists()
        assert any(name in line.split("==")[0] for line in pinned)


def test_an_unknown_benchmark_is_refused():
    result = CliRunner().invoke(app, ["nothing"])
    assert isinstance(result.exception, SpecError)


def test_our_results_are_checked_while_they_are_measured(place):
    with cases(TINY, place) as suite:
        rows = measure([case for case in suite.cases if case.name in ("curve PSI", "RSA PSI")], 1, lambda *_: None)
    assert all(row.ours > 0 for row in rows)
