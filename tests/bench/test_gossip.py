"""The benchmark of sums without an aggregator."""

import json

from typer.testing import CliRunner

from bench import gossip
from bench.cli import app


def test_it_says_what_a_missing_aggregator_and_loss_cost(tmp_path, monkeypatch):
    monkeypatch.setattr(gossip, "SIZE", 3000)
    file = tmp_path / "gossip.json"
    outcome = CliRunner().invoke(app, ["gossip", "--repetitions", "1", "--json", str(file)])
    assert outcome.exit_code == 0, outcome.output
    *sums, loss = json.loads(file.read_text())["rows"]
    ratios = [row["ratio"] for row in sums]
    assert ratios[0] < 1.2 < ratios[1]  # three parties are one neighbourhood; more push sums too
    assert 1 < loss["ratio"] < 2
