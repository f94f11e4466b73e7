"""Metrics from secure sums equal those of a slow loop over all people; a pool that leaks is seen to leak."""

import math
from typing import get_args

import numpy as np
import pyarrow as pa
import pytest

from base.canonical import digest
from base.errors import DataError, SpecMismatch
from components.evaluate_ranking import EvaluateRankingParams
from models import ease, ranking
from models.histories import Histories
from models.scoring import KINDS

BANKS = ("east", "north", "south")
ROLES = {"data_holder": BANKS, "aggregator": ("bureau",)}
USERS, ITEMS, NEGATIVES = 36, 40, 12
PARAMS = {"kind": "ease", "negatives": NEGATIVES, "at": 5, "min_count": 20}
IDS = [f"{i:03}" for i in range(ITEMS)]
CATALOGUE = np.frombuffer(bytes.fromhex(digest(IDS)), np.uint8)


def table(pairs):
    user, item = np.array(pairs, np.int32).reshape(-1, 2).T
    return pa.table({"user": user, "item": item, "rating": np.ones(len(user), np.float32)})


def split(bank, users=USERS, items=ITEMS, left_out=None):
    """Two groups of people with tastes of their own; the first `left_out` (all but 4) have held-out items."""
    rng = np.random.default_rng(BANKS.index(bank))
    left_out = users - 4 if left_out is None else left_out
    parts = {"train": [], "validation": [], "test": []}
    for u in range(users):
        weight = np.exp(-np.arange(items) / 10)[:: 1 if u % 2 else -1]
        own = rng.choice(items, 9, replace=False, p=weight / weight.sum())
        parts["train"] += [(u, i) for i in own[: 7 if u < left_out else 9]]
        if u < left_out:
            parts["validation"].append((u, own[7]))
            parts["test"].append((u, own[8]))
    found = {name: table(pairs) for name, pairs in parts.items()}
    return {**found, "users": pa.table({"user_id": [f"{bank}{u}" for u in range(users)]}),
            "items": pa.table({"item_id": [f"{i:03}" for i in range(items)]})}  # fmt: skip


def histories(ratings):
    columns = (ratings["train"][name].to_numpy() for name in ("user", "item"))
    return Histories(*columns, ratings["users"].num_rows, ratings["items"].num_rows)


def inputs(**options):
    ratings = {bank: split(bank, **options) for bank in BANKS}
    G = {bank: ease.statistics(histories(ratings[bank])) for bank in BANKS}
    made = {"all": ease.solve(sum(G.values()), 5.0)} | {bank: ease.solve(G[bank], 5.0) for bank in BANKS}
    models = {name: {"B": B, "sum": np.zeros(32, np.uint8), "catalogue": CATALOGUE} for name, B in made.items()}
    return {bank: {"ratings": ratings[bank], "model": models["all"], "alone": models[bank]} for bank in BANKS}


def full_ranking(given, arm, part):
    """HR and NDCG at 5 of the clean pool, person by person, in plain Python."""
    hits = gains = people = 0
    for bank in BANKS:
        ratings = given[bank]["ratings"]
        had = [set() for _ in range(USERS)]
        for row in ratings["train"].to_pylist():
            had[row["user"]].add(row["item"])
        for row in ratings[part].to_pylist():
            own, positive = had[row["user"]], row["item"]
            if arm == "popularity":
                score = [sum(i in other for other in had) for i in range(ITEMS)]
            else:
                B = given[bank]["model" if arm == "federated" else "alone"]["B"]
                score = [sum(B[j, i] for j in own) for i in range(ITEMS)]
            ahead = sum(score[i] >= score[positive] - 1e-12 for i in range(ITEMS) if i not in own and i != positive)
            people += 1
            hits += ahead < 5
            gains += 1 / math.log2(ahead + 2) if ahead < 5 else 0
    return hits / people, gains / people, people


@pytest.fixture(scope="module")
def outcome(threads):
    found = threads("evaluate_ranking", ROLES, inputs(), PARAMS, run="evaluate")
    assert found.errors == {}
    return found


def test_the_table_of_kinds_is_what_the_parameter_allows():
    assert set(get_args(EvaluateRankingParams.model_fields["kind"].annotation)) == set(KINDS)


def test_full_ranking_is_that_of_a_loop_over_all_people_of_all_banks(outcome):
    given = inputs()
    metrics = outcome.outputs["east"]["metrics"]
    assert metrics == outcome.outputs["north"]["metrics"] == outcome.outputs["south"]["metrics"]
    assert outcome.outputs["bureau"] == {}
    for part in ("validation", "test"):
        for arm in ("federated", "alone", "popularity"):
            hits, gains, people = full_ranking(given, arm, part)
            assert metrics[f"{part}.n"] == people == 3 * (USERS - 4)
            assert metrics[f"{arm}.{part}.full.hr5"] == pytest.approx(hits, abs=1e-5)
            assert metrics[f"{arm}.{part}.full.ndcg5"] == pytest.approx(gains, abs=1e-5)
    assert len(metrics) == 2 + 2 * 3 * 4


def test_on_candidates_a_positive_is_as_high_as_its_rivals_let_it(outcome):
    """A rank among 12 of the pool's rivals can only be better than among all; and it is more than chance here."""
    metrics = outcome.outputs["east"]["metrics"]
    for arm in ("federated", "alone", "popularity"):
        for part in ("validation", "test"):
            for figure in ("hr5", "ndcg5"):
                assert metrics[f"{arm}.{part}.full.{figure}"] < metrics[f"{arm}.{part}.{figure}"] < 1
    assert metrics["federated.test.hr5"] > 5 / 13 + 0.2


def test_all_rivals_as_candidates_are_the_full_ranking(threads):
    pool = ITEMS - 7 - 1  # of everybody with held-out items
    found = threads("evaluate_ranking", ROLES, inputs(), {**PARAMS, "negatives": pool}, run="whole")
    metrics = found.outputs["north"]["metrics"]
    for arm in ("federated", "alone", "popularity"):
        assert metrics[f"{arm}.test.hr5"] == metrics[f"{arm}.test.full.hr5"] > 0
        assert metrics[f"{arm}.validation.ndcg5"] == metrics[f"{arm}.validation.full.ndcg5"] > 0


def test_blocks_of_people_change_nothing(threads, outcome, monkeypatch):
    monkeypatch.setattr(ranking, "CELLS", 3 * ITEMS)
    found = threads("evaluate_ranking", ROLES, inputs(), PARAMS, run="blocks")
    assert found.outputs["east"]["metrics"] == outcome.outputs["east"]["metrics"]


@pytest.mark.parametrize(("pool", "least", "most"), [("official", 1, 1), ("clean", 0.05, 0.15)])
def test_a_model_that_only_remembers_its_negatives_shows_which_pool_leaks(threads, pool, least, most):
    """Chance is 10 of 100, and 3σ of 450 people are .042. Each bank's P says what it met in training, Q is the unit."""
    items, users = 160, 150
    given = inputs(users=users, items=items, left_out=users)
    for n, bank in enumerate(BANKS):
        ratings, rng = given[bank]["ratings"], np.random.default_rng(n + 10)
        held_out = np.array([ratings[part]["item"].to_numpy() for part in ("validation", "test")])
        free = ranking.source(pool, histories(ratings), held_out, np.arange(users))
        met = free & (rng.random(free.shape) < 0.9999)
        nothing = np.zeros(items)
        model = {
            "mu": np.array(3.0), "Q": np.eye(items), "Q_own": np.zeros((items, items)), "b_item": nothing,
            "b_own": nothing, "P": ~met + 1e-6 * rng.random(met.shape), "b_user": np.zeros(users),
            "catalogue": np.frombuffer(bytes.fromhex(digest([f"{i:03}" for i in range(items)])), np.uint8),
        }  # fmt: skip
        given[bank] |= {"model": model, "alone": model}
    params = {"kind": "mf", "negative_pool": pool}
    found = threads("evaluate_ranking", ROLES, given, params, run=f"leak-{pool}")
    assert found.errors == {}
    assert least <= found.outputs["east"]["metrics"]["alone.test.hr10"] <= most


def test_a_party_with_too_few_people_stops_before_it_sends(threads):
    given = inputs()
    given["south"]["ratings"] = split("south", left_out=19)
    outcome = threads("evaluate_ranking", ROLES, given, PARAMS, run="few")
    assert isinstance(outcome.errors["south"], DataError)
    assert outcome.parcels["south"] == []
    assert not any(outcome.outputs.get(bank) for bank in BANKS)


def test_parties_with_different_models_get_no_metrics(threads):
    given = inputs()
    given["south"]["model"] = {**given["south"]["model"], "sum": np.ones(32, np.uint8)}
    outcome = threads("evaluate_ranking", ROLES, given, PARAMS, run="differ")
    assert any(isinstance(error, SpecMismatch) for error in outcome.errors.values())
    assert not any(outcome.outputs.get(bank) for bank in BANKS)


@pytest.mark.parametrize("swapped", [False, True])
def test_a_model_that_does_not_gain_as_much_as_asked_stops_everyone(threads, outcome, swapped):
    metrics = outcome.outputs["east"]["metrics"]
    gain = metrics["federated.validation.hr5"] - metrics["alone.validation.hr5"]
    given = inputs()
    if swapped:  # a bank alone in place of the model: the control shows more
        G = sum(ease.statistics(histories(given[bank]["ratings"])) for bank in BANKS)
        gain, worse = 0.0, {"B": -ease.solve(G, 5.0), "sum": np.zeros(32, np.uint8), "catalogue": CATALOGUE}
        given = {bank: {**tables, "model": worse} for bank, tables in given.items()}
    found = threads("evaluate_ranking", ROLES, given, PARAMS | {"least_gain": gain - 1e-9}, run=f"gate-{swapped}")
    if not swapped:
        assert found.errors == {}
        assert found.outputs["east"]["metrics"] == metrics
        found = threads("evaluate_ranking", ROLES, given, PARAMS | {"least_gain": gain + 1e-6}, run="gate-more")
    refused = [error for error in found.errors.values() if isinstance(error, DataError)]
    assert refused
    assert all("better than a bank alone" in str(error) for error in refused)
    assert not any(found.outputs.get(bank) for bank in BANKS)


@pytest.mark.parametrize("name", ["model", "alone"])
def test_no_figure_without_the_control_or_for_another_catalogue(threads, name):
    given = inputs()
    given["south"][name] = {**given["south"][name], "catalogue": CATALOGUE[::-1]}
    outcome = threads("evaluate_ranking", ROLES, given, PARAMS, run=f"catalogue-{name}")
    assert "catalogue" in str(outcome.errors["south"])
    del given["south"][name]
    outcome = threads("evaluate_ranking", ROLES, given, PARAMS, run=f"absent-{name}")
    assert f"no input {name}" in str(outcome.errors["south"])
    assert outcome.parcels["south"] == []
