"""Rounds with noise for whole people: the algorithm without its noise in one process, and what every round costs."""

from dataclasses import replace

import numpy as np
import opacus.accountants.analysis.rdp  # noqa: F401, torch comes along: before the deadline of a step runs
import pyarrow as pa
import pytest

from base.canonical import digest
from base.errors import ConsentError
from components import horizontal_mf, private_sum
from components.split_tables import private_streams
from crypto.budget import epsilon
from models import mf
from models.metrics import rmse
from models.user_updates import layers, user_changes
from runtime.checkpoint import FileCheckpoint
from runtime.randomness import Randomness
from runtime.spending import releases

BANKS = ("east", "north", "south")
ROLES = {"data_holder": BANKS, "aggregator": ("bureau",)}
USERS, ITEMS, K, ROUNDS, EPOCHS, RATE, REG = 30, 12, 2, 3, 4, 0.1, 0.05
DP = {"epsilon": 20.0, "delta": 1e-6, "clip": 1.0, "data_set": "ratings", "max_items": 8, "step": 1.5}
PARAMS = {"embedding_size": K, "rounds": ROUNDS, "local_epochs": EPOCHS, "learning_rate": RATE, "reg": REG}
CATALOGUE = [f"{i:03}" for i in range(ITEMS)]


def ratings(bank):
    rng = np.random.default_rng(BANKS.index(bank))
    user, item = np.nonzero(rng.random((USERS, ITEMS)) < np.append(np.linspace(0.9, 0.4, ITEMS - 1), 0.05))
    value = 3.5 + np.linspace(1, -1, ITEMS)[item] + rng.normal(0, 0.5, len(user))
    return mf.Ratings(user.astype(np.int32), item.astype(np.int32), value.astype(np.float32).astype(np.float64))


def inputs():
    statistics, found = {"n": 1, "mean": 3.5, "deviation": 1.0, "catalogue": digest(CATALOGUE)}, {}
    for bank in BANKS:
        d = ratings(bank)
        rows = pa.table({"user": d.user, "item": d.item, "rating": d.rating.astype(np.float32)})
        people = pa.table({"user_id": [f"{bank}{u}" for u in range(USERS)]})
        split = {
            "train": rows,
            "validation": rows.slice(0, 5),
            "users": people,
            "items": pa.table({"item_id": CATALOGUE}),
        }
        found[bank] = {"ratings": split, "statistics": statistics}
    return found


@pytest.fixture
def train(threads, request):
    threads.privacy, threads.budgets = {"ratings": {"epsilon": 30.0, "delta": 1e-6}}, {}
    name = f"rounds-{digest(request.node.name)[:16]}"

    def run(attempt=1, dp=None, functions=None, **params):
        given = {**PARAMS, "dp": DP | (dp or {}), **params}
        return threads("horizontal_mf", ROLES, inputs(), given, run=name, attempt=attempt, functions=functions)

    return run


@pytest.fixture
def silent(monkeypatch):
    """Noise that is none: what is left is the algorithm."""
    monkeypatch.setitem(private_sum._SAMPLERS, "gaussian", lambda scale, size: np.zeros(size, np.int64))


def clipped(values):
    return values * min(1.0, DP["clip"] / max(np.linalg.norm(values), 1e-12))


def in_one_process(floor):
    """The same people in one place: no bank, no message, no lane, no noise."""
    streams = {bank: Randomness(1, "test/step", bank.encode() * 8) for bank in BANKS}
    V = np.column_stack([np.zeros(ITEMS), streams["east"].shared("Q").normal(0, 0.03, (ITEMS, K))])
    data = {bank: ratings(bank) for bank in BANKS}
    P = {
        bank: private_streams(streams[bank].private, inputs()[bank]["ratings"])("P").normal(0, 0.03, (USERS, K))
        for bank in BANKS
    }
    models = {bank: mf.Factors(3.5, V[:, 1:].copy(), V[:, 0].copy(), P[bank], np.zeros(USERS)) for bank in BANKS}
    W = np.zeros(ITEMS)
    for d in data.values():
        counts = np.bincount(d.user, minlength=USERS)
        W += np.bincount(d.item, np.minimum(1, np.sqrt(8 / np.maximum(counts, 1)))[d.user], minlength=ITEMS)
    shared = np.flatnonzero(max(10, floor) <= W)
    scale = np.zeros(ITEMS)
    scale[shared] = layers(W[shared])
    for _ in range(ROUNDS):
        total = np.zeros_like(V)
        for bank, d in data.items():
            models[bank].b_item[shared], models[bank].Q[shared] = V[shared, 0], V[shared, 1:]
            changes, _ = user_changes(models[bank], d, EPOCHS, RATE, REG)
            for u in range(USERS):
                mine = np.zeros_like(V)
                mine[d.item[d.user == u]] = changes[d.user == u]
                total += clipped(mine * scale[:, None])
        V[shared] += 1.5 * total[shared] / (scale * W)[shared, None]
    return V, shared


def test_without_its_noise_it_is_user_level_averaging_in_one_place(train, threads, silent):
    outcome = train()
    assert outcome.errors == {}
    counts = releases(threads.budgets["east"].read("ratings")[1])[0]
    floor = 3 * counts.scale * np.sqrt(3) / 2**16 * np.sqrt(8)
    V, shared = in_one_process(floor)
    assert 0 < len(shared) < ITEMS
    for bank in BANKS:
        model = outcome.outputs[bank]["model"]
        np.testing.assert_allclose(model["b_item"][shared], V[shared, 0], atol=1e-3)
        np.testing.assert_allclose(model["Q"][shared], V[shared, 1:], atol=1e-3)
        assert not model["b_item"][np.setdiff1d(np.arange(ITEMS), shared)].any()


def test_with_noise_all_hold_one_model_that_says_something_and_every_round_is_paid(train, threads):
    outcome = train()
    assert outcome.errors == {}
    models = [outcome.outputs[bank]["model"] for bank in BANKS]
    for model in models[1:]:
        np.testing.assert_array_equal(model["Q"], models[0]["Q"])
    d, m = ratings("east"), models[0]
    factors = mf.Factors(3.5, m["Q"] + m["Q_own"], m["b_item"] + m["b_own"], m["P"], m["b_user"])
    assert rmse(d.rating, mf.predict(factors, d.user, d.item)) < 0.95 * rmse(d.rating, np.full(len(d), 3.5))
    spent = releases(threads.budgets["east"].read("ratings")[1])
    assert sum(release.times for release in spent) == ROUNDS + 1
    assert 0.8 * DP["epsilon"] < epsilon(spent, DP["delta"]) <= DP["epsilon"]


def test_a_second_attempt_pays_for_the_rounds_that_it_does_and_the_budget_ends_it(train, threads, tmp_path):
    def at(party, agreed):
        def role(ctx, params):
            function = horizontal_mf.aggregator if party == "bureau" else horizontal_mf.data_holder
            return function(replace(ctx, checkpoint=FileCheckpoint(tmp_path / party, agreed)), params)

        return role

    parties = (*BANKS, "bureau")
    assert train(functions={party: at(party, None) for party in parties}).errors == {}
    assert train(2, functions={party: at(party, ROUNDS - 1) for party in parties}).errors == {}
    spent = releases(threads.budgets["east"].read("ratings")[1])
    assert sum(release.times for release in spent) == ROUNDS + 2
    third = train(3, dp={"epsilon": 29.0})
    assert any(isinstance(error, ConsentError) for error in third.errors.values())
    assert epsilon(releases(threads.budgets["east"].read("ratings")[1]), 1e-6) <= 30.0


@pytest.mark.parametrize("more", [{"early_stopping": True}, {"speed": True}, {"row_share": 0.5}])
def test_rounds_that_tell_more_than_noisy_sums_are_refused(train, threads, more):
    outcome = train(**more)
    assert any("rounds with noise are all alike" in str(error) for error in outcome.errors.values())
    assert threads.budgets["east"].read("ratings")[1] == []
