"""Federated NCF against the same algorithm in one process, what stays at a bank, and what it must refuse."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from base.errors import DataError, SpecMismatch
from components import horizontal_ncf
from components.split_tables import private_streams
from models import ncf, ncf_training, negatives
from models.histories import Histories
from models.scoring import KINDS
from runtime.checkpoint import FileCheckpoint
from runtime.randomness import Randomness

BANKS = ("east", "north", "south")
ROLES = {"data_holder": BANKS, "aggregator": ("bureau",)}
ITEMS, USERS, LEAST = 16, 30, 10
SIZES = {"factors": 2, "embedding_size": 3, "layers": [4, 2]}
PARAMS = {**SIZES, "rounds": 3, "local_epochs": 2, "learning_rate": 0.02, "batch_size": 40, "negatives": 2}
FORM = ncf.Form(2, 3, (4, 2))
CATALOGUE = [f"{i:03}" for i in range(ITEMS)]


def split(bank, catalogue=CATALOGUE):
    """A bank's rows; an item is had by a share of the people that falls with its number, the last by hardly any."""
    rng = np.random.default_rng(BANKS.index(bank))
    user, item = np.nonzero(
        rng.random((USERS, ITEMS)) < np.linspace(0.8, 0.05, ITEMS) * (0.7 if bank == "south" else 1)
    )
    rows = pa.table({"user": user.astype(np.int32), "item": item.astype(np.int32), "rating": np.ones(len(user), "f4")})
    last = np.append(user[1:] != user[:-1], True)
    return {
        "train": rows.filter(pa.array(~last)), "validation": rows.filter(pa.array(last)),
        "users": pa.table({"user_id": [f"{bank}{u}" for u in range(USERS)]}), "items": pa.table({"item_id": catalogue}),
    }  # fmt: skip


INPUTS = {bank: {"ratings": split(bank)} for bank in BANKS}


def histories(bank):
    train = split(bank)["train"]
    return Histories(train["user"].to_numpy(), train["item"].to_numpy(), USERS, ITEMS)


def lanes_of_16(x, largest):
    """Values of 14 bits that hold four times the largest step of the round before."""
    exponent = np.floor(np.log2((2**13 - 1) / (4 * largest)))
    return np.rint(x * 2**exponent) / 2**exponent


def local_epochs(own, t, h, m):
    order, drawn = own(f"order of round {t}"), own(f"negatives of round {t}")
    adam = ncf_training.Adam((m.θ, m.V, m.P), 0.02)
    for _ in range(2):
        some = order.permutation(len(h))
        ncf_training.epoch(m, h, some, negatives.draw(drawn, h, h.user[some], 2), adam, "bce", 40)


def in_one_process(exchange=True):
    """Averaging of rows by raters and of layers by rows, in a loop over the banks: no message, no lane, no key."""
    streams = {bank: Randomness(1, "test/step", bank.encode() * 8) for bank in BANKS}
    own = {bank: private_streams(streams[bank].private, INPUTS[bank]["ratings"]) for bank in BANKS}
    every = {bank: histories(bank) for bank in BANKS}
    θ = ncf.start_layers(streams["east"].shared("layers"), FORM)
    V = ncf.start_rows(streams["east"].shared("V"), ITEMS, FORM, 0.05)
    models = {
        bank: ncf.Model(FORM, θ.copy(), V.copy(), ncf.start_rows(own[bank]("P"), USERS, FORM, 0.05)) for bank in BANKS
    }
    w = {bank: np.where(h.raters >= LEAST, h.raters, 0) for bank, h in every.items()}
    W, N = sum(w.values()), sum(map(len, every.values()))
    step_V = step_θ = 0.5
    for t in (1, 2, 3):
        ΔV, Δθ = np.zeros_like(V), np.zeros_like(θ)
        for bank, m in models.items():
            if exchange:
                m.V[W > 0], m.θ[:] = V[W > 0], θ
            local_epochs(own[bank], t, every[bank], m)
            ΔV += lanes_of_16((w[bank] / np.maximum(W, 1))[:, None] * (m.V - V), step_V)
            Δθ += lanes_of_16(len(every[bank]) / N * (m.θ - θ), step_θ)
        if exchange:
            before = V.copy(), θ.copy()
            V[W > 0] += ΔV[W > 0]
            θ += Δθ
            step_V, step_θ = np.abs(V - before[0])[W > 0].max(), np.abs(θ - before[1]).max()
    return V, θ, models, W


@pytest.fixture(scope="module")
def federated(threads):
    outcome = threads("horizontal_ncf", ROLES, INPUTS, PARAMS, run="equal")
    assert outcome.errors == {}
    return outcome


def test_it_equals_one_process_with_the_same_quantum_to_the_last_bit(federated):
    V, θ, models, W = in_one_process()
    assert 0 < np.count_nonzero(W == 0) < ITEMS
    for bank in BANKS:
        model = federated.outputs[bank]["model"]
        np.testing.assert_array_equal(model["V"], V * (W > 0)[:, None])
        np.testing.assert_array_equal(model["layers"], θ)
        np.testing.assert_array_equal(model["V_own"], models[bank].V * (W == 0)[:, None])
        np.testing.assert_array_equal(model["P"], models[bank].P)
        assert federated.metrics[bank]["saturated"] == 0


def test_the_control_is_the_same_algorithm_with_nothing_exchanged(federated):
    _, _, models, _ = in_one_process(exchange=False)
    for bank in BANKS:
        alone = federated.outputs[bank]["alone"]
        assert not alone["V"].any()
        np.testing.assert_array_equal(alone["V_own"], models[bank].V)
        np.testing.assert_array_equal(alone["layers"], models[bank].θ)
        np.testing.assert_array_equal(alone["P"], models[bank].P)


def test_all_banks_share_rows_and_layers_and_nothing_else(federated):
    models = [federated.outputs[bank]["model"] for bank in BANKS]
    for name in KINDS["ncf"].shared:
        assert all(models[0][name].tobytes() == model[name].tobytes() for model in models[1:])
    shared = models[0]["V"].any(axis=1)
    for model in models:
        assert model["V_own"].any(axis=1).tolist() == (~shared).tolist()
    assert not np.array_equal(models[0]["P"], models[1]["P"])
    assert not np.array_equal(models[0]["V_own"], models[1]["V_own"])
    assert federated.outputs["bureau"] == {}


def test_what_a_bank_does_to_a_row_that_it_withholds_is_in_no_sum(threads, federated, monkeypatch):
    few = (histories("south").raters < LEAST) & federated.outputs["south"]["model"]["V"].any(axis=1)
    assert few.any()
    learn = horizontal_ncf.Learner.learn

    def and_more(self, t, epochs):
        told = learn(self, t, epochs)
        if self._ctx.party == "south":
            self.model.V[few] += 1.0
        return told

    monkeypatch.setattr(horizontal_ncf.Learner, "learn", and_more)
    outcome = threads("horizontal_ncf", ROLES, INPUTS, PARAMS, run="withheld")
    assert outcome.errors == {}
    for bank in BANKS:
        for name in ("V", "layers"):
            np.testing.assert_array_equal(outcome.outputs[bank]["model"][name], federated.outputs[bank]["model"][name])


def test_a_second_attempt_goes_on_at_the_checkpoint_and_ends_with_the_same_model(threads, tmp_path):
    def at(party, agreed):
        def role(ctx, params):
            function = horizontal_ncf.aggregator if party == "bureau" else horizontal_ncf.data_holder
            return function(replace(ctx, checkpoint=FileCheckpoint(tmp_path / party, agreed)), params)

        return role

    parties = (*BANKS, "bureau")
    whole, again = (
        threads("horizontal_ncf", ROLES, INPUTS, PARAMS, run="resume", attempt=attempt,
                functions={party: at(party, agreed) for party in parties})
        for attempt, agreed in ((1, None), (2, 2))
    )  # fmt: skip
    assert again.errors == {}
    for bank in BANKS:
        for name in ("model", "alone"):
            for key, array in whole.outputs[bank][name].items():
                np.testing.assert_array_equal(again.outputs[bank][name][key], array)


@pytest.mark.parametrize(("kind", "loss", "shapes"), [("gmf", "bpr", (2, 2)), ("mlp", "bce", (3, 40))])
def test_other_kinds_and_losses_train_until_the_held_out_loss_rises(threads, kind, loss, shapes):
    more = {"kind": kind, "loss": loss, "early_stopping": True, "patience": 1, "rounds": 12, "learning_rate": 0.2}
    outcome = threads("horizontal_ncf", ROLES, INPUTS, PARAMS | more, run=kind)
    assert outcome.errors == {}
    model = outcome.outputs["east"]["model"]
    assert (model["V"].shape[1], len(model["layers"])) == shapes
    assert 0 < outcome.metrics["east"]["held_out_loss"] < 5
    scores = KINDS["ncf"].scores(model, histories("east"), np.arange(3))
    assert scores.shape == (3, ITEMS)
    assert np.isfinite(scores).all()


def test_training_goes_on_where_an_earlier_model_ended_and_the_control_does_not(threads, federated):
    given = {bank: {"ratings": split(bank), "start": federated.outputs[bank]["model"]} for bank in BANKS}
    still = PARAMS | {"warm_start": True, "rounds": 1, "learning_rate": 1e-9}
    outcome = threads("horizontal_ncf", ROLES, given, still, run="warm")
    assert outcome.errors == {}
    for bank in BANKS:
        model, before = outcome.outputs[bank]["model"], federated.outputs[bank]["model"]
        for name in ("V", "layers", "P"):
            np.testing.assert_allclose(model[name], before[name], atol=1e-4)
        assert np.abs(outcome.outputs[bank]["alone"]["P"]).max() < 0.05 * 6  # its people start anew
    wider = threads("horizontal_ncf", ROLES, given, still | {"layers": [5, 2]}, run="wider")
    assert any(isinstance(error, DataError) for error in wider.errors.values())


def test_another_catalogue_at_one_party_gives_no_sum_to_anyone(threads):
    given = INPUTS | {"south": {"ratings": split("south", [f"x{i}" for i in CATALOGUE])}}
    outcome = threads("horizontal_ncf", ROLES, given, PARAMS, run="catalogue")
    assert not any(outcome.outputs.get(bank) for bank in BANKS)
    assert any(isinstance(error, SpecMismatch) for error in outcome.errors.values())
