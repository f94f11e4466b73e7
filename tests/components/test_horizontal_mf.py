"""Horizontal training: the encrypted federation against the same algorithm in one process, and what it must refuse."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from base.canonical import digest
from base.errors import ConsentError, DataError, SpecMismatch
from components import horizontal_mf
from components.split_tables import private_streams
from models import mf
from models.metrics import rmse
from runtime.checkpoint import FileCheckpoint
from runtime.randomness import Randomness

BANKS = ("east", "north", "south")
ROLES = {"data_holder": BANKS, "aggregator": ("bureau",)}
ITEMS, USERS, K = 25, 40, 3
PARAMS = {
    "embedding_size": K,
    "rounds": 4,
    "local_epochs": 2,
    "learning_rate": 0.02,
    "batch_size": 50,
    "key_bits": 2048,
}
CATALOGUE = [f"{i:03}" for i in range(ITEMS)]


def split(seed, bank):
    """A bank's ratings of rank 2; item i is rated by a share of the users that falls with i, the last by hardly any."""
    rng = np.random.default_rng([seed, BANKS.index(bank)])
    taste = np.random.default_rng(seed).normal(0, 0.8, (ITEMS, 2))
    user, item = np.nonzero(rng.random((USERS, ITEMS)) < np.linspace(0.9, 0.02, ITEMS))
    quality = np.random.default_rng(seed + 100).normal(0, 0.7, ITEMS)
    value = 3.5 + quality[item] + (rng.normal(0, 0.8, (USERS, 2)) @ taste.T)[user, item] + rng.normal(0, 0.3, len(user))
    train = {"user": user.astype(np.int32), "item": item.astype(np.int32), "rating": value.astype(np.float32)}
    held_out = rng.random(len(user)) < 0.1
    rows = pa.table(train)
    return {
        "train": rows.filter(pa.array(~held_out)),
        "validation": rows.filter(pa.array(held_out)),
        "users": pa.table({"user_id": [f"{bank}{u}" for u in range(USERS)]}),
        "items": pa.table({"item_id": CATALOGUE}),
    }


def inputs(seed):
    statistics = {"n": 1, "mean": 3.5, "deviation": 1.0, "catalogue": digest(CATALOGUE)}
    return {bank: {"ratings": split(seed, bank), "statistics": statistics} for bank in BANKS}


def in_one_process(seed, quantise, rounds=4, min_raters=10):
    """Algorithm 1 of McMahan et al. with rows, in a loop over the banks: no message, no lane, no key."""
    streams = {bank: Randomness(seed, "test/step", bank.encode() * 8) for bank in BANKS}
    own = {bank: private_streams(streams[bank].private, split(seed, bank)) for bank in BANKS}
    Q, b = streams["east"].shared("Q").normal(0, 0.03, (ITEMS, K)), np.zeros(ITEMS)
    data, models, weights = {}, {}, {}
    for bank in BANKS:
        columns = [split(seed, bank)["train"][name].to_numpy() for name in ("user", "item", "rating")]
        data[bank] = mf.Ratings(*columns[:2], columns[2].astype(float))
        P = own[bank]("P").normal(0, 0.03, (USERS, K))
        models[bank] = mf.Factors(3.5, Q.copy(), b.copy(), P, np.zeros(USERS))
        raters = np.bincount(data[bank].item, minlength=ITEMS)
        weights[bank] = np.where(raters >= min_raters, raters, 0)
    W, largest = sum(weights.values()), 0.5
    shared = W > 0
    V = np.column_stack([b, Q])
    for t in range(1, rounds + 1):
        Σ = np.zeros_like(V)
        for bank in BANKS:
            m, d, w = models[bank], data[bank], weights[bank]
            m.Q[shared], m.b_item[shared] = V[shared, 1:], V[shared, 0]
            raters = np.bincount(d.item, minlength=ITEMS)
            λ = np.where(shared, 0.12, 0.12 * (1 + 20 / np.maximum(raters, 1)))
            order = own[bank](f"order of round {t}")
            for _ in range(2):
                mf.epoch(m, d, order.permutation(len(d)), 0.02, 0.12, λ, 50)
            Σ += quantise((w / np.maximum(W, 1))[:, None] * (np.column_stack([m.b_item, m.Q]) - V), largest)
        before = V.copy()
        V[shared] = V[shared] + Σ[shared]
        largest = np.abs(V - before)[shared].max()
    return V, models, W


def lanes_of_16(x, largest):
    """Values of 14 bits that hold four times the largest step of the round before."""
    exponent = np.floor(np.log2((2**13 - 1) / (4 * largest)))
    return np.rint(x * 2**exponent) / 2**exponent


@pytest.fixture(scope="module", params=[1, 2, 3])
def seed(request):
    return request.param


@pytest.fixture(scope="module")
def federated(threads, seed):
    outcome = threads(
        "horizontal_mf", ROLES, inputs(seed), PARAMS | {"epoch": f"e{seed}"}, run=f"equal-{seed}", seed=seed
    )
    assert outcome.errors == {}
    return outcome


def test_it_equals_one_process_with_the_same_quantum_to_the_last_bit(federated, seed):
    V, models, W = in_one_process(seed, lanes_of_16)
    assert 0 < np.count_nonzero(W == 0) < ITEMS  # both kinds of rows are there
    for bank in BANKS:
        model = federated.outputs[bank]["model"]
        np.testing.assert_array_equal(model["Q"], V[:, 1:] * (W > 0)[:, None])
        np.testing.assert_array_equal(model["b_item"], V[:, 0] * (W > 0))
        np.testing.assert_array_equal(model["P"], models[bank].P)
        np.testing.assert_array_equal(model["b_user"], models[bank].b_user)
        assert federated.metrics[bank]["saturated"] == 0


def test_it_is_within_the_fixed_point_bound_of_floating_point(federated, seed):
    # A round rounds each party's part by half a quantum of at most 4·largest/8191·2, and the largest step falls.
    # With rates this small an epoch does not stretch a difference, so rounds add: 4 rounds of 3 parties.
    V, _, W = in_one_process(seed, lambda x, largest: x)
    model = federated.outputs["north"]["model"]
    bound = 4 * 3 * (4 * 0.5 * 2 / 8191) / 2
    assert 0 < np.abs(model["Q"] - V[:, 1:])[W > 0].max() < bound
    assert np.abs(model["b_item"] - V[:, 0])[W > 0].max() < bound


def test_all_banks_share_the_item_side_and_nothing_else(federated):
    models = [federated.outputs[bank]["model"] for bank in BANKS]
    for name in ("mu", "Q", "b_item", "catalogue"):
        assert all(np.array_equal(models[0][name], model[name]) for model in models[1:])
    for name in ("P", "b_user", "b_own"):  # Q_own comes from the shared rows and the catalogue
        assert not np.array_equal(models[0][name], models[1][name])
    assert federated.outputs["bureau"] == {}


def test_items_that_nobody_shares_have_rows_of_their_own_and_no_other(federated):
    for bank in BANKS:
        model = federated.outputs[bank]["model"]
        shared = np.any(model["Q"] != 0, axis=1)
        assert np.all(model["b_own"][shared] == 0)
        assert np.all(model["Q_own"][shared] == 0)
        assert np.all(model["b_own"][~shared] != 0)
        assert np.all(model["Q_own"][~shared] != 0)
        assert np.all(model["b_item"][~shared] == 0)


def test_rows_of_such_items_follow_their_attributes(threads):
    given = inputs(1)
    for bank in BANKS:
        flag = np.arange(ITEMS) % 2  # says what the last, rarely rated items are like
        given[bank]["ratings"]["items"] = pa.table({"item_id": CATALOGUE, "flag": flag.astype(np.int8)})
    outcome = threads("horizontal_mf", ROLES, given, PARAMS, run="attributes", seed=1)
    assert outcome.errors == {}
    rows = [outcome.outputs[bank]["model"]["Q_own"] for bank in BANKS]
    rare = np.any(rows[0] != 0, axis=1)
    np.testing.assert_allclose(rows[0], rows[1], atol=1e-12)
    for parity in (0, 1):
        same = rows[0][rare & (np.arange(ITEMS) % 2 == parity)]
        assert len(same) > 0
        np.testing.assert_allclose(same, same[0] * np.ones_like(same))
    assert not np.allclose(rows[0][rare][0], rows[0][rare][1])


def test_it_learns(federated, seed):
    for bank in BANKS:
        model = federated.outputs[bank]["model"]
        user, item, rating = (split(seed, bank)["train"][name].to_numpy() for name in ("user", "item", "rating"))
        factors = mf.Factors(
            3.5, model["Q"] + model["Q_own"], model["b_item"] + model["b_own"], model["P"], model["b_user"]
        )
        assert rmse(rating, mf.predict(factors, user, item)) < 0.9 * rmse(rating, np.full(len(rating), 3.5))


def test_a_second_attempt_goes_on_at_the_checkpoint_and_ends_with_the_same_model(threads, tmp_path):
    def at(party, agreed):
        def role(ctx, params):
            function = horizontal_mf.aggregator if party == "bureau" else horizontal_mf.data_holder
            return function(replace(ctx, checkpoint=FileCheckpoint(tmp_path / party, agreed)), params)

        return role

    parties = (*BANKS, "bureau")
    whole = threads(
        "horizontal_mf", ROLES, inputs(1), PARAMS, run="resume", functions={p: at(p, None) for p in parties}
    )
    assert {tuple(FileCheckpoint(tmp_path / party).rounds()) for party in parties} == {(3, 4)}
    again = threads(
        "horizontal_mf", ROLES, inputs(1), PARAMS, run="resume", attempt=2, functions={p: at(p, 3) for p in parties}
    )
    assert again.errors == {}
    for bank in BANKS:
        for name, array in whole.outputs[bank]["model"].items():
            np.testing.assert_array_equal(again.outputs[bank]["model"][name], array)


def test_a_party_with_another_catalogue_stops_before_it_sends(threads):
    given = inputs(1)
    given["south"]["statistics"] = {**given["south"]["statistics"], "catalogue": "0" * 64}
    outcome = threads("horizontal_mf", ROLES, given, PARAMS, run="catalogue")
    assert isinstance(outcome.errors["south"], DataError)
    assert [p for p in outcome.parcels["south"] if p.header.name == "part"] == []


def test_another_mean_at_one_party_gives_no_sum_to_anyone(threads):
    given = inputs(1)
    given["south"]["statistics"] = {**given["south"]["statistics"], "mean": 3.4}
    outcome = threads("horizontal_mf", ROLES, given, PARAMS, run="mean")
    assert not any(outcome.outputs.get(bank) for bank in BANKS)
    assert any(isinstance(error, SpecMismatch) for error in outcome.errors.values())


def test_one_changed_rating_draws_all_of_the_bank_s_private_choices_anew():
    before, after = split(1, "east"), split(1, "east")
    rating = after["train"]["rating"].to_numpy().copy()
    rating[7] += 1
    after["train"] = after["train"].set_column(2, "rating", pa.array(rating))
    stream = Randomness(1, "test/step", b"e" * 8).private
    first, again, changed = (private_streams(stream, tables)("P").random(4) for tables in (before, before, after))
    np.testing.assert_array_equal(first, again)
    assert not np.any(first == changed)


def test_two_parties_are_refused(threads):
    given = inputs(1)
    outcome = threads("horizontal_mf", {**ROLES, "data_holder": BANKS[:2]}, given, PARAMS, run="two")
    assert any(isinstance(error, ConsentError) for error in outcome.errors.values())
    assert outcome.outputs.get("east") is None
