import json

import numpy as np
import pytest
from typer.testing import CliRunner

import bench.training
import bench.training_run
from base.errors import StateError
from bench.cli import app
from bench.sets import BANKS
from bench.training import LARGE, ONE, PEERS, SHORT, Jobs, cases, float32_mib
from bench.training_floor import lone_node, loop, start_cpu, sum_cpu
from bench.training_run import Job, Run, Trainer, generated, shared_out

SHARES = generated(90, 40, 2500)
PARAMS = {"embedding_size": 4, "rounds": 2, "local_epochs": 2, "key_bits": 2048}


def job(name="small", **params):
    return Job(name, "generated", SHARES, {**PARAMS, **params})


def trained(trainer, job, protection):
    wall, sent = {"plain": (2.0, 100), "secagg": (3.0, 104), "paillier": (8.0, 205)}[protection]
    return Run(job.name, protection, wall, {"bank_a": wall / 2, "bank_b": wall}, sent, 40.0, 0.0, "d", {})


def test_generated_ratings_have_a_long_tail_and_every_bank_has_its_own_people():
    counts = sum(np.bincount(share.item, minlength=40) for share in SHARES.values())
    assert counts.sum() == 2500
    assert counts[:10].sum() > 1.2 * counts[-10:].sum()
    for share in SHARES.values():
        pairs = share.user.astype(np.int64) * 40 + share.item
        assert len(np.unique(pairs)) == len(pairs)
        assert share.users <= 30
        assert set(share.rating) <= {1, 2, 3, 4, 5}


def test_without_the_data_set_ratings_are_made_up_and_this_is_said(monkeypatch):
    monkeypatch.delenv("ACCORD_DATA", raising=False)
    monkeypatch.setitem(bench.training_run.SHAPES, "ml-1m", (30, 20, 200))
    origin, shares = shared_out("ml-1m")
    assert "generated" in origin
    assert sum(len(share.rating) for share in shares.values()) == 200


@pytest.mark.data
def test_the_data_set_is_taken_whole(accord_data, monkeypatch):
    monkeypatch.setenv("ACCORD_DATA", str(accord_data))
    origin, shares = shared_out("ml-100k")
    assert "generated" not in origin
    assert sum(len(share.rating) for share in shares.values()) == 100_000
    assert {share.items for share in shares.values()} == {1682}
    assert sum(share.users for share in shares.values()) == 943


def test_four_processes_train_one_model_under_every_protection(tmp_path):
    trainer = Trainer(tmp_path)
    runs = {name: trainer.train(job(), name) for name in ("plain", "secagg", "paillier")}
    assert len({run.digest for run in runs.values()}) == 1
    assert runs["plain"].bytes < min(runs["secagg"].bytes, runs["paillier"].bytes)
    for run in runs.values():
        assert set(run.cpu) == {*BANKS, "bureau"}
        assert 0 < max(run.cpu.values()) < 60
        assert 0 < run.wall < 60
        assert 0 < run.rows <= 40
        assert set(run.memory) == set(BANKS)
        assert all(len(sizes) == 2 and 0 < sizes[0] <= sizes[1] for sizes in run.memory.values())


def test_another_model_has_no_figure(tmp_path):
    trainer = Trainer(tmp_path)
    trainer.train(job(), "plain")
    with pytest.raises(StateError, match="wrong"):
        trainer.train(job(learning_rate=0.02), "plain")


def test_a_party_that_fails_ends_the_measurement(tmp_path):
    with pytest.raises(StateError, match="failed in its process"):
        Trainer(tmp_path).train(job(lane=17), "plain")


def test_the_loop_learns_the_same_ratings():
    assert 0 < loop(job()) < 10


def test_the_aggregator_of_more_parties_takes_about_as_much_for_each():
    assert sum_cpu(6, rounds=2) < 3 * sum_cpu(3, rounds=2)


def test_float32_counts_both_ways_of_every_bank():
    assert float32_mib(job()) == 40 * 5 * 4 * 2 * 3 * 2 / 2**20


@pytest.mark.node
def test_a_node_that_starts_takes_more_than_its_imports(tmp_path):
    home = lone_node(tmp_path)
    assert -1 < start_cpu(home) < 10  # beside other tests the clock of a core is coarse
    assert not home.path("node.pid").exists()


def test_the_command_writes_rows_and_runs(tmp_path, monkeypatch):
    monkeypatch.delenv("ACCORD_DATA", raising=False)
    short = job("short", rounds=4, row_share=0.3, lane=10)
    jobs = Jobs(job("default"), job("one", local_epochs=1), job("peers", rounds=3), short, parties=(3, 4))
    monkeypatch.setattr(bench.training, "published", lambda: jobs)
    monkeypatch.setattr(bench.training, "start_cpu", lambda home: 0.5)
    monkeypatch.setattr(Trainer, "train", trained)
    monkeypatch.setenv("COLUMNS", "200")
    file = tmp_path / "training.json"
    result = CliRunner().invoke(app, ["training", "--repetitions", "1", "--json", str(file)])
    assert result.exit_code == 0, result.output
    document = json.loads(file.read_text())
    rows = {(row["case"], row["peer"]): row for row in document["rows"]}
    assert rows["default: secagg", "plain"]["target"] == "<= 1.15"
    assert rows["default: secagg", "plain"]["ratio"] == 1.5
    assert rows["default: paillier", "plain"]["ratio"] == 4
    assert not rows["default: paillier, bytes", "plain"]["met"]
    assert rows["default: secagg, bytes", "plain"]["met"]
    assert rows["default: secagg, CPU", "plain"]["ours"] == 4.5
    assert rows["one: secagg", "plain"]["target"] is None
    assert rows["short: paillier, bytes", "float32, counted"]["target"] == "<= 0.2"
    assert "NOT MEASURED" in result.output  # the compression
    assert rows["peers: a round, secagg", "limit of 0.3 s"]["theirs"] == 0.3
    assert rows["peers: a round, secagg", "limit of 0.3 s"]["ours"] == 1  # 3 seconds, 3 rounds
    assert rows["peers: a round, secagg", "loop in one process"]["theirs"] > 0
    assert rows["start of a node, beyond imports", "limit of 1 CPU-s"]["met"]
    done = [(run["job"], run["protection"]) for run in document["training"]["runs"]]
    assert done.count(("default", "plain")) == done.count(("one", "secagg")) == 2
    assert done.count(("default", "paillier")) == done.count(("one", "paillier")) == 1
    assert [each["name"] for each in document["training"]["jobs"]] == ["default", "one", "peers", "short"]


def test_targets_and_sizes_are_those_that_are_published(monkeypatch):
    monkeypatch.delenv("ACCORD_DATA", raising=False)
    with cases(Jobs(job("a"), job("b"), job("c"), job("d"))) as suite:
        targets = {(case.name, case.peer): case.target for case in suite.cases if case.target}
    name = "aggregator of {} parties, a party and sum of 55,506 values"
    assert targets == {
        ("a: secagg", "plain"): "<= 1.15",
        ("a: secagg, bytes", "plain"): "<= 1.05",
        ("a: paillier", "plain"): "<= 15",
        ("a: paillier, bytes", "plain"): "<= 1.5",
        ("c: a round, secagg", "limit of 0.3 s"): "<= 1",
        ("d: paillier, bytes", "float32, counted"): "<= 0.2",
        ("start of a node, beyond imports", "limit of 1 CPU-s"): "<= 1",
        **{(name.format(n), "4 parties"): "<= 1.2" for n in (8, 16, 32)},
    }
    assert LARGE["embedding_size"] == ONE["embedding_size"] == 32
    assert LARGE["key_bits"] == 3072
    assert (SHORT["row_share"], SHORT["lane"], LARGE["key_bits"]) == (0.3, 10, SHORT["key_bits"])
    assert (PEERS["embedding_size"] + 1) * 1474 >= 55_506  # items with two raters at one of three banks
