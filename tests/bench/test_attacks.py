"""The report of attacks: each succeeds where something was weakened, so a figure of the default means something."""

import json

import pytest
from typer.testing import CliRunner

import bench.attacks
from bench import attacks_ciphertexts as ciphertexts
from bench import attacks_masks as masks
from bench.attacks_crossing import adversary
from bench.attacks_data import BANKS, Found, generated, world
from bench.attacks_results import Results
from bench.attacks_table import ATTACKS
from bench.cli import app


@pytest.fixture
def no_data(monkeypatch):
    monkeypatch.delenv("ACCORD_DATA", raising=False)


@pytest.mark.parametrize(
    "attack",
    [
        masks.two_models, masks.two_rosters, masks.repeated_round, masks.fewer_parties, masks.restored_pads,
        ciphertexts.lone_contributor,
    ],
)  # fmt: skip
def test_an_aggregator_reads_everything_where_something_was_weakened_and_else_nothing(attack):
    assert attack(3) == Found(weakened=1.0, default=0.0, chance=0.0)


def test_generated_people_stand_in_where_there_are_no_data(no_data):
    found = world(1)
    assert found.origin.startswith("generated")
    assert sum(map(len, found.banks.values())) == len(generated(1))
    assert {bank: h.users for bank, h in found.banks.items()} == dict.fromkeys(BANKS, 200)
    assert world(2).banks["bank_a"].users == 200
    assert len(world(2).banks["bank_a"]) != len(found.banks["bank_a"])


def test_a_smaller_world_has_the_same_people_with_fewer_items(no_data):
    found = world(1).smaller(20, 50)
    assert [h.users for h in found.banks.values()] == [20] * 3
    assert found.items == 50
    assert all(len(h) == len(found.ratings[bank]) for bank, h in found.banks.items())


def test_the_command_writes_a_row_an_attack_and_a_page_that_says_which_data_they_ran_on(no_data, tmp_path, monkeypatch):
    few = {name: ATTACKS[name] for name in ("peel histories off G", "a round of n and one of n − 1 parties")}
    monkeypatch.setattr(bench.attacks, "ATTACKS", few)
    file = tmp_path / "attacks.json"
    done = CliRunner().invoke(app, ["attacks", "--fast", "--json", str(file)])
    assert done.exit_code == 0, done.output
    document = json.loads(file.read_text())
    assert [row["case"] for row in document["rows"]] == list(few)
    assert all(row["met"] for row in document["rows"])
    found = document["attacks"]["found"]["peel histories off G"]
    assert found["by seed"]["1"]["weakened"] == found["weakened"]["mean"] > 0
    assert found["default"]["mean"] == 0
    page = file.with_suffix(".md").read_text()
    assert "generated: ACCORD_DATA names no folder" in page
    assert f"({450 * found['weakened']['mean']:.0f} of 450)" in page
    assert "| a round of n and one of n − 1 parties | share of the missing party's values |" in page


def test_an_attack_that_gets_nowhere_on_the_weakened_setting_is_not_judged(no_data, tmp_path, monkeypatch):
    toothless = {"blunt": ATTACKS["peel histories off G"].__class__(
        "sums", "share", "nothing weakened", "the default", 0, lambda a: Found(0.0, 0.0, 0.0)
    )}  # fmt: skip
    for module in ("bench.attacks", "bench.attacks_results", "bench.attacks_page"):
        monkeypatch.setattr(f"{module}.ATTACKS", toothless)
    file = tmp_path / "attacks.json"
    assert CliRunner().invoke(app, ["attacks", "--fast", "--json", str(file)]).exit_code == 0
    (row,) = json.loads(file.read_text())["rows"]
    assert row["met"] is None
    assert "no teeth" in row["note"]
    assert "no teeth" in file.with_suffix(".md").read_text()


def test_means_are_over_seeds(no_data):
    with adversary(world(1).smaller(20, 50)) as first, adversary(world(2).smaller(20, 50)) as second:
        results = Results([first, second])
        name = "a round of n and one of n − 1 parties"
        assert results.spread(name, "weakened") == (1.0, 0.0)
        assert set(results.document["found"][name]["by seed"]) == {"1", "2"}
