import gzip
import json

import numpy as np
import pytest
from small_histories import as_lists, histories
from typer.testing import CliRunner

import bench.quality_results
from base.errors import EnvironmentMissing, SpecError
from bench import quality_ncf
from bench.cli import app
from bench.quality import cases
from bench.quality_pooled import fit
from bench.quality_ratings import judge_ratings
from bench.quality_results import SETTINGS
from bench.quality_run import COMPONENTS, Trial, _same_lists
from bench.sets import BANKS, SETS, banks
from components.horizontal_ncf import HorizontalNcfParams
from models.histories import Histories

USERS, ITEMS = 330, 150
IALS = {"second_moments": True, "min_raters": 16, "embedding_size": 4, "sweeps": 3, "lane": 64, "fraction": 32}
SMALL = {
    "ease": {"reg": 30.0}, "slist": {"reg": 30.0}, "ials": IALS, "ncf": {"rounds": 1, "negatives": 1},
    "mf": {"rounds": 2, "local_epochs": 1},
}  # fmt: skip
ARMS = {"popularity", "bank alone", "federated", "pooled", "pooled, thresholded"}


@pytest.fixture
def public(tmp_path, monkeypatch):
    """A folder with an ml-100k of 330 people with tastes, in the form of the real one."""
    rng = np.random.default_rng(5)
    taste = rng.random((USERS, 3)) @ rng.random((3, ITEMS)) ** 4 / np.arange(1, ITEMS + 1) ** 0.5
    rows = []
    for u in range(USERS):
        for i in rng.choice(ITEMS, 14, replace=False, p=taste[u] / taste[u].sum()):
            rows.append(f"{u + 1}\t{i + 1}\t{rng.integers(1, 6)}\t{rng.integers(1, 500)}")
    flags = [[str(int(x)) for x in rng.random(19) < 0.2] for _ in range(ITEMS)]
    items = [f"{i + 1}|A film ({i})|01-Jan-1995||url|{'|'.join(f)}" for i, f in enumerate(flags)]
    (tmp_path / "ml-100k").mkdir()
    for name, lines in (("u.data.gz", rows), ("u.item.gz", items)):
        (tmp_path / "ml-100k" / name).write_bytes(gzip.compress("\n".join(lines).encode("latin-1")))
    monkeypatch.setenv("ACCORD_DATA", str(tmp_path))
    monkeypatch.setattr(bench.quality_results, "SETTINGS", {"ml-100k": SMALL})
    return tmp_path


def test_a_seed_shares_out_all_people_and_another_seed_does_it_otherwise(public):
    found, again, other = banks("ml-100k", 1), banks("ml-100k", 1), banks("ml-100k", 2)
    people = [set(found[bank]["ratings"]["user_id"].to_pylist()) for bank in BANKS]
    assert [len(p) for p in people] == [110] * 3
    assert len(set.union(*people)) == USERS
    assert sum(len(found[bank]["ratings"]) for bank in BANKS) == USERS * 14
    assert all(found[bank]["ratings"] == again[bank]["ratings"] for bank in BANKS)
    assert found["bank_a"]["ratings"] != other["bank_a"]["ratings"]
    assert found["bank_a"]["catalogue"].num_columns == 20


def test_data_that_are_not_here_are_named_with_a_remedy(public, monkeypatch):
    with pytest.raises(EnvironmentMissing, match="ml-1m"):
        banks("ml-1m", 1)
    monkeypatch.delenv("ACCORD_DATA")
    with pytest.raises(EnvironmentMissing, match="ml-100k"):
        banks("ml-100k", 1)


@pytest.mark.parametrize("kind", ["ease", "slist", "ials"])
def test_every_arm_is_judged_and_lists_are_those_of_the_pooled_model(public, kind):
    dp = {"epsilon": 2.0, "delta": 1e-5, "clip": 10.0, "data_set": "ratings"}
    private = {"2": dp} if kind == "ease" else {}
    found = Trial("ml-100k", 1).judge(kind, SMALL[kind], {}, {"reg": 60.0} if kind == "slist" else {}, private)
    own = {"ease": {"unprotected", "federated, ε = 2"}, "slist": {"unprotected", "bank alone, tuned"}, "ials": set()}[
        kind
    ]
    assert set(found.arms) - {"one for all"} == ARMS | own
    assert found.arms.get("bank alone, tuned") != found.arms["bank alone"]
    for figures in found.arms.values():
        assert set(figures) == {f"{part}.{full}{name}10" for part in ("validation", "test") for full in ("", "full.")
                                for name in ("hr", "ndcg")}  # fmt: skip
        assert all(0 <= value <= 1 for value in figures.values())
    assert found.arms.get("federated, ε = 2") != found.arms["federated"]
    assert found.lists == 1.0
    # No thresholds: the sum of everything is the pooled model, whatever a bank holds.
    assert found.arms.get("unprotected", found.arms["pooled"]) == pytest.approx(found.arms["pooled"], abs=0.005)
    same = found.arms.get("one for all", found.arms["federated"])
    assert same == pytest.approx(found.arms["pooled, thresholded"], abs=0.005)
    assert found.arms["pooled"] != pytest.approx(found.arms["bank alone"], abs=1e-6)


def test_ncf_has_its_arms(public):
    found = Trial("ml-100k", 1).judge("ncf", SMALL["ncf"], {"rounds": 3}, {"rounds": 2})
    assert set(found.arms) == ARMS - {"pooled, thresholded"} | {"bank alone, tuned"}
    gains = [figures["test.full.ndcg10"] for figures in found.arms.values()]
    assert len(set(gains)) == len(gains)
    assert 0 < found.split["test items that survive"] < 1


def test_pooled_ncf_has_a_row_for_everybody_at_their_own_bank():
    lists = [[[0, 2], [1]], [[2, 3, 1]], [[0], [3, 0], [1, 2]]]
    params = HorizontalNcfParams(rounds=1, batch_size=2)
    own = [histories(bank, 4) for bank in lists]
    parts = quality_ncf.fit(own, params, 1, "00" * 32)
    (whole,) = quality_ncf.fit([quality_ncf.together(own)], params, 1, "00" * 32)
    assert as_lists(quality_ncf.together(own)) == [*lists[0], *lists[1], *lists[2]]
    np.testing.assert_array_equal(np.concatenate([part["P"] for part in parts]), whole["P"])
    assert [len(part["P"]) for part in parts] == [2, 1, 3]
    assert all(np.array_equal(part["V"], whole["V"]) for part in parts)


def test_another_model_has_other_lists(public):
    trial = Trial("ml-100k", 1)
    own = list(trial._histories.values())
    params = [COMPONENTS["ease"].params.model_validate({"reg": reg, "min_raters": 1}) for reg in (1.0, 300.0)]
    one, other = (fit("ease", own, p, 1, "00" * 32)[0] for p in params)
    assert _same_lists("ease", own[0], one, one).all()
    assert not _same_lists("ease", own[0], one, other).all(axis=1).any()


def test_equal_scores_may_change_places():
    h = Histories(np.zeros(1, np.int32), np.zeros(1, np.int32), 1, 14)
    B = np.zeros((14, 14))
    B[0] = np.r_[0, np.full(3, 2.0), np.arange(10, 0, -1) / 10]
    moved = B + 1e-9 * np.arange(14)  # breaks the tie of three the other way
    apart, strict = _same_lists("ease", h, {"B": moved}, {"B": B})
    assert (apart.tolist(), strict.tolist()) == ([True], [False])
    worse = B.copy()
    worse[0, 5] = 3.0
    assert not _same_lists("ease", h, {"B": worse}, {"B": B}).any()


def test_ratings_have_their_arms(public):
    found = judge_ratings("ml-100k", 1, SMALL["mf"])
    assert set(found) == {"federated", "bank alone", "pooled", "biases", "mean"}
    assert all(0.3 < value < 3 for figures in found.values() for value in figures.values())


def test_the_command_writes_figures_a_page_and_a_picture(public, tmp_path, monkeypatch):
    monkeypatch.setattr("bench.quality.SETTINGS", {"ml-100k": {name: SMALL[name] for name in ("ease", "ials")}})
    file = tmp_path / "out" / "quality.json"
    command = ["quality", "--data", "ml-100k", "--seed", "3", "--seed", "4", "--json", str(file)]
    result = CliRunner().invoke(app, command, catch_exceptions=False)
    assert "to go" in result.output
    document = json.loads(file.read_text())
    quality = document["quality"]
    ease = quality["data"]["ml-100k"]["ease"]
    assert quality["seeds"] == [3, 4]
    assert ease["parameters"]["reg"] == 30.0
    assert set(ease["by seed"]) == {"3", "4"}
    hr = [ease["by seed"][seed]["arms"]["federated"]["test.hr10"] for seed in ("3", "4")]
    spread = ease["over seeds"]["federated"]["test.hr10"]
    assert spread == pytest.approx({"mean": np.mean(hr), "deviation": np.std(hr, ddof=1)})
    rows = {row["case"]: row for row in document["rows"]}
    bar = rows["ml-100k ease: federated HR@10"]
    assert bar["ours"] == pytest.approx(np.mean(hr))
    assert bar["met"] is bool(np.mean(hr) >= 0.64)
    assert rows["ml-100k ease: people with the pooled model's list"]["met"] is True
    page = file.with_suffix(".md").read_text()
    assert f"| ease | federated | {np.mean(hr):.4f} ±" in page
    assert file.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    assert ease["by seed"]["3"]["split"]["people"] == USERS

    # What a file holds is not computed again, unless a parameter has changed since; one that is new changes nothing.
    del ease["parameters"]["min_pairs"]
    file.write_text(json.dumps(document))
    again = file.with_name("again.json")
    command = ["quality", "--data", "ml-100k", "--seed", "4", "--resume", str(file), "--json", str(again)]
    monkeypatch.delenv("ACCORD_DATA")
    CliRunner().invoke(app, command, catch_exceptions=False)
    resumed = json.loads(again.read_text())["quality"]
    assert resumed["resumed from"] == [document["date"]]
    assert resumed["data"]["ml-100k"]["ease"]["by seed"] == {"4": ease["by seed"]["4"]}
    monkeypatch.setitem(bench.quality_results.SETTINGS["ml-100k"], "ease", {"reg": 31.0})
    assert isinstance(CliRunner().invoke(app, command).exception, EnvironmentMissing)


def test_cases_are_those_that_were_asked_for():
    with (
        cases() as every,
        cases(fast=True) as few,
        cases(data=("ml-1m",), seed=(7,), mf=True) as one,
        cases(data=("ml-100k",), seed=(7,), fast=True, ncf=True) as neural,
    ):
        names = [case.name for case in every.cases]
        assert sum("seed" in name for name in names) == 3 * (4 + 2 + 3)
        assert [c.name for c in few.cases if "seed" in c.name] == [
            f"ml-100k {m}, seed 1" for m in ("ease", "slist", "ials")
        ]
        assert [c.name for c in one.cases if "seed" in c.name] == [f"ml-1m {m}, seed 7" for m in SETTINGS["ml-1m"]]
        assert [c.name for c in neural.cases if "ncf, seed" in c.name] == ["ml-100k ncf, seed 7"]
        assert not any("ncf" in name for name in names)
    with pytest.raises(SpecError, match="no such data set"), cases(data=("netflix",)):
        pass


def test_options_are_for_their_own_benchmark():
    result = CliRunner().invoke(app, ["crypto", "--data", "ml-1m"])
    assert isinstance(result.exception, SpecError)


@pytest.mark.parametrize(("name", "people", "items", "rows"), [
    ("ml-100k", 943, 1682, 100_000), ("lastfm-2k", 1859, 2823, 71_355), ("ml-1m", 6040, 3706, 1_000_209),
])  # fmt: skip
def test_public_sets_are_read_whole(accord_data, name, people, items, rows):
    found = banks(name, 1)
    assert sum(len(set(found[bank]["ratings"]["user_id"].to_pylist())) for bank in BANKS) == people
    assert len(found["bank_a"]["catalogue"]) == items
    assert sum(len(found[bank]["ratings"]) for bank in BANKS) == rows
    assert set(SETS) == set(SETTINGS)
