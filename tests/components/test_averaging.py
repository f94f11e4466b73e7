"""What rounds do beyond averaging: share rows in turn, end early, wait for nobody, count once in an epoch."""

import threading

import numpy as np
import pytest

from base.errors import ConsentError, DataError
from components import masked_survivors
from components.adaptation import Adaptation
from components.pace import Pace
from components.round_average import RoundAverage, Shared
from models.row_average import exponent_for
from tests.components.test_horizontal_mf import BANKS, PARAMS, ROLES, inputs, split


def trained(threads, params, run, given=None):
    outcome = threads("horizontal_mf", ROLES, given or inputs(1), PARAMS | params, run=run)
    assert outcome.errors == {}
    return outcome


def words_sent(outcome, party="east"):
    return [p.header.rows for p in outcome.parcels[party] if p.header.name == "masked"]


def test_a_round_of_a_share_of_the_rows_sends_that_share_and_all_end_with_one_model(threads):
    whole = trained(threads, {"epoch": "share"}, "whole")
    some = trained(threads, {"row_share": 0.3, "lane": 10, "rounds": 8, "epoch": "share"}, "some")
    models = [some.outputs[bank]["model"] for bank in BANKS]
    for name in ("Q", "b_item"):
        assert all(np.array_equal(models[0][name], model[name]) for model in models[1:])
    shared = np.count_nonzero(np.any(models[0]["Q"] != 0, axis=1))
    values = int(np.ceil(0.3 * shared)) * (PARAMS["embedding_size"] + 1)
    assert set(words_sent(some)[1:]) == {-(-values // 6) + 1}  # six lanes of 10 bits in a word, and a check word
    assert words_sent(whole)[1] == 4 * words_sent(some)[1]


def test_training_ends_when_the_loss_of_all_held_out_rows_no_longer_falls_and_gives_the_best(threads):
    given = inputs(2)
    params = {
        "rounds": 30,
        "learning_rate": 0.1,
        "reg": 0.0,
        "early_stopping": True,
        "patience": 2,
        "min_count": 5,
        "epoch": "early",
    }
    stopped = trained(threads, params, "early", given)
    rounds = len(words_sent(stopped)) - 1
    assert 3 < rounds < 30  # a round judges the model of the one before, and two more have passed
    again = trained(threads, params | {"rounds": rounds - 3, "early_stopping": False}, "best", given)
    for bank in BANKS:
        for name in ("Q", "b_item", "P", "b_user"):
            np.testing.assert_array_equal(stopped.outputs[bank]["model"][name], again.outputs[bank]["model"][name])


def test_a_loss_of_few_held_out_rows_does_not_leave(threads):
    outcome = threads(
        "horizontal_mf", ROLES, inputs(1), PARAMS | {"early_stopping": True, "min_count": 10**6}, run="few"
    )
    assert any(isinstance(error, DataError) for error in outcome.errors.values())
    assert not any(p.header.name == "masked" for bank in BANKS for p in outcome.parcels[bank])


def test_counts_are_those_of_the_first_training_of_an_epoch(threads, open_vectors):
    given, changed = inputs(1), inputs(1)
    table = changed["north"]["ratings"]["train"]
    changed["north"]["ratings"]["train"] = table.slice(0, len(table) - 40)  # some people have left
    first, second = (open_vectors(x, PARAMS | {"epoch": "counts"}, run) for x, run in ((given, "a"), (changed, "b")))
    np.testing.assert_array_equal(first["north"][0], second["north"][0])
    assert not np.array_equal(first["north"][1], second["north"][1])
    fresh = open_vectors(changed, PARAMS | {"epoch": "next"}, "c")
    assert not np.array_equal(first["north"][0], fresh["north"][0])


def test_counts_of_another_threshold_wait_for_the_next_epoch(threads):
    trained(threads, {"epoch": "least"}, "least-10")
    outcome = threads(
        "horizontal_mf", ROLES, inputs(1), PARAMS | {"epoch": "least", "min_raters_per_item": 9}, run="least-9"
    )
    assert any(isinstance(error, ConsentError) for error in outcome.errors.values())
    assert not any(p.header.name == "masked" for bank in BANKS for p in outcome.parcels[bank])


@pytest.fixture
def open_vectors(threads):
    """`open_vectors(inputs, params, run)`: what each bank adds to each sum, with `protection: plain`."""

    def run_it(given, params, run):
        outcome = threads("horizontal_mf", ROLES, given, params | {"protection": "plain"}, run=run)
        assert outcome.errors == {}
        found = {bank: [] for bank in BANKS}
        for bank in BANKS:
            found[bank] = [p.body for p in outcome.parcels[bank] if p.header.name == "clear"]
        return found

    return run_it


class _Clock:
    """Keys that keep nothing, for a `Pace` alone."""

    run, step = "run", "step"

    @property
    def keys(self):
        return self

    def get(self, name):
        return None

    def put(self, name, data):
        pass


def test_a_slow_party_takes_fewer_steps_and_weighs_by_rows_times_steps(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("components.pace.time.monotonic", lambda: now[0])
    paces = [Pace(True, 8) for _ in range(3)]
    for _ in range(3):
        for pace, seconds in zip(paces, (1.0, 1.0, 5.0), strict=True):
            with pace.timed(_Clock(), 1) as epochs:
                now[0] += seconds * epochs
        total = sum(pace.own() for pace in paces)
        for pace in paces:
            pace.take(total)
    epochs = [pace.epochs() for pace in paces]
    assert epochs[:2] == [8, 8]
    assert 5 * epochs[2] < 1.1 * 8  # a round lasts at most a tenth longer
    np.testing.assert_allclose([pace.weight() for pace in paces], epochs / np.mean(epochs))


def test_speed_trains_and_all_end_with_one_model(threads):
    outcome = trained(threads, {"speed": True, "epoch": "speed"}, "speed")
    models = [outcome.outputs[bank]["model"] for bank in BANKS]
    assert all(np.array_equal(models[0]["Q"], model["Q"]) for model in models[1:])
    assert len(split(1, "east")["validation"]) > 20


def test_what_came_too_late_is_in_the_next_contribution_and_counts_less():
    every = np.arange(2)
    state = RoundAverage(Shared(np.zeros((2, 1)), np.zeros(1)), np.array([40, 40]), np.array([10, 20]), n=1, N=4)

    def round_of(change, t, contributed):
        now = Shared(state.shared.V + change, state.shared.θ + change)
        own = state.own(now, every, 1.0, 8191, np.random.default_rng(1))
        unit = 2.0 ** -exponent_for(state.largest[0], 8191)
        state.take(np.zeros(3, np.int64), t)
        state.settle(contributed)
        return own * unit

    np.testing.assert_allclose(round_of(0.4, 1, contributed=False), [0.1, 0.2, 0.1], atol=1e-3)
    np.testing.assert_allclose(
        round_of(0.2, 2, contributed=False),
        np.array([0.05, 0.1, 0.05]) + np.array([0.1, 0.2, 0.1]) / 2**0.5,
        atol=1e-3,
    )
    late = np.array([0.15, 0.3, 0.15]) / 3**0.5
    np.testing.assert_allclose(round_of(0.0, 3, contributed=True), late, atol=1e-3)
    np.testing.assert_allclose(round_of(0.0, 4, contributed=True), 0, atol=1e-3)


def test_less_travels_while_exchanging_takes_longer_than_training(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("components.adaptation.time.monotonic", lambda: now[0])
    links = [Adaptation(True, (1.0, 16)) for _ in range(3)]

    def a_round(t, training, exchange):
        for link, seconds, waits in zip(links, training, (0.0, 3.0, 9.0), strict=True):
            with link.training():
                now[0] += seconds
            with link.exchange(_Clock(), t):
                now[0] += exchange + waits
        total = sum(link.own() for link in links)
        for link in links:
            link.take(total)
        return {link.next() for link in links}

    assert a_round(1, (1, 1, 1), 5.0) == {(1.0, 16)}  # nobody has measured yet
    found = [a_round(t, (1, 1, 1), 5.0) for t in range(2, 6)]
    assert found == [{(1.0, 10)}, {(0.3, 10)}, {(0.3, 8)}, {(0.3, 8)}]
    found = [a_round(t, (10, 10, 10), 0.1) for t in range(6, 10)]
    assert found[-1] == {(1.0, 16)}
    np.testing.assert_array_equal(links[0].schedule()["schedule"], links[2].schedule()["schedule"])


def test_adapted_rounds_end_with_one_model_that_holds_their_schedule(threads):
    outcome = trained(threads, {"adapt": True, "epoch": "adapt"}, "adapt")
    models = [outcome.outputs[bank]["model"] for bank in BANKS]
    for name in ("Q", "b_item", "schedule"):
        assert all(np.array_equal(models[0][name], model[name]) for model in models[1:])
    assert len(models[0]["schedule"]) == PARAMS["rounds"]


def test_who_is_late_for_a_round_adds_what_it_learned_to_the_next(threads, monkeypatch):
    banks, late = (*BANKS, "west"), []
    given = inputs(1) | {"west": {**inputs(1)["south"]}}
    real = masked_survivors.send_words

    def send_words(ctx, name, *rest):
        if ctx.party == "west" and rest[-1] == 2 and not late:
            late.append(gone.wait(timeout=60))  # until the others have a total without this party
        real(ctx, name, *rest)

    gone, relayed = threading.Event(), masked_survivors._Round.run

    def run(one):
        number = relayed(one)
        if number == 2:
            gone.set()
        return number

    monkeypatch.setattr(masked_survivors, "send_words", send_words)
    monkeypatch.setattr(masked_survivors._Round, "run", run)
    roles = {"data_holder": banks, "aggregator": ("bureau",)}
    params = PARAMS | {"on_dropout": "continue", "wait_seconds": 0.5, "epoch": "late"}
    outcome = threads("horizontal_mf", roles, given, params, run="late")
    assert outcome.errors == {}
    assert late == [True]
    models = [outcome.outputs[bank]["model"] for bank in banks]
    assert all(np.array_equal(models[0]["Q"], model["Q"]) for model in models[1:])
