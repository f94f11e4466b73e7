"""What a data-protection officer reads: spent, allowed and for what, per data set over all accords."""

import json

import pytest
from typer.testing import CliRunner

from crypto.budget import Release, epsilon
from party_node.budgets import SqlBudgets
from party_node.cli import app
from party_node.database import Database
from runtime.spending import Spending

NIGHT = Release("gaussian", 1000, 100.0, "l2", 10)
LIMIT = {"epsilon": 2.0, "delta": 1e-6}


@pytest.fixture
def home(organisations):
    """A node directory with two accords, of which one lets `ratings` spend."""
    at = organisations.home("north_bank")
    copy = json.loads(at.path("accords", "demo.json").read_text())
    copy["terms"] |= {"accord": "pilot", "privacy": {"ratings": LIMIT}}
    at.path("accords", "pilot.json").write_text(json.dumps(copy))
    return at


def shown(home, *options):
    done = CliRunner().invoke(app, ["budget", "--home", str(home.root), *options])
    assert done.exit_code == 0, done.output
    return done.output


def test_nothing_spent_is_said_too(home):
    assert "accord pilot           ε = 0 of 2 at δ = 1e-06" in shown(home)
    found = json.loads(shown(home, "--json"))
    assert found["party"] == "north_bank"
    assert found["data_sets"]["ratings"]["accords"]["pilot"] == {**LIMIT, "every_sum": False, "spent": 0.0}


def test_what_any_accord_has_spent_stands_beside_the_limit_of_each(home):
    database = Database(home.url(home.conf.database))
    for accord, data_set in (("pilot", "ratings"), ("older", "ratings"), ("older", "people")):
        spending = Spending(accord, {data_set: LIMIT}, SqlBudgets(database))
        spending.charge(data_set, NIGHT, "run-1/train/1: noisy statistics")
        spending.charge(data_set, NIGHT, "run-1/train/1: noisy statistics")
    database.close()
    found = json.loads(shown(home, "--json"))["data_sets"]
    assert sorted(found) == ["people", "ratings"]
    assert found["ratings"]["accords"]["pilot"]["spent"] == pytest.approx(epsilon([NIGHT] * 4, 1e-6))
    assert found["people"]["accords"] == {}
    assert [entry["accord"] for entry in found["ratings"]["releases"]] == ["pilot", "older"]
    text = shown(home)
    assert "run-1/train/1: noisy statistics: gaussian, 2 x 10 values" in text
    assert "data set people: per one person at one party" in text
