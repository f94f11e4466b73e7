import numpy as np
import pytest

from base.errors import CryptoError, SpecMismatch, StateError
from components.contract import Component, Params
from components.paillier_sum import Summer, relay, sum_messages
from crypto.packing import Lanes

BANKS = ("east", "north", "south")
ROLES = {"data_holder": BANKS, "aggregator": ("bureau",)}
LANES = Lanes(16, 4, 3)
VALUES = {"east": 1.0, "north": -2.5, "south": 4.0}


class Rounds(Params):
    rounds: tuple[int, ...] = (0, 1)


def holder(ctx, params):
    summer = Summer(ctx, 2048)
    values = ctx.inputs["values"]
    bound = ctx.inputs.get("bound", b"m")
    return {"sums": [summer.total(values * (r + 1), LANES, r, bound).tolist() for r in params.rounds]}


PART = Component(
    "sums",
    {"data_holder": holder, "aggregator": lambda ctx, params: relay(ctx, params.rounds) or {}},
    Rounds,
    sum_messages("the sum"),
)


def inputs(**bounds):
    return {bank: {"values": np.full((3, 50), VALUES[bank]), "bound": bounds.get(bank, b"m")} for bank in BANKS}


def test_every_bank_ends_with_the_same_sums(threads):
    outcome = threads(PART, ROLES, inputs(), run="sums-1")
    assert outcome.errors == {}
    for bank in BANKS:
        assert outcome.outputs[bank]["sums"] == [[2.5] * 150, [5.0] * 150]


def test_the_messages_are_the_table_s(threads):
    outcome = threads(PART, ROLES, inputs(), {"rounds": [0]}, run="sums-2")
    sent = {party: [p.header.name for p in parcels] for party, parcels in outcome.parcels.items()}
    assert sent == {
        "east": ["public_key", "wrapped_key", "wrapped_key", "part", "consent"],
        "north": ["part", "consent"],
        "south": ["part", "consent"],
        "bureau": ["total"] * 3 + ["consents"] * 3,
    }
    text = b"".join(bytes(p.body) for parcels in outcome.parcels.values() for p in parcels)
    assert np.full(8, -2.5).tobytes() not in text


def test_a_second_sum_of_a_round_is_refused(threads):
    outcome = threads(PART, ROLES, inputs(), {"rounds": [0, 0]}, run="sums-3")
    assert any(isinstance(error, StateError) for error in outcome.errors.values())
    assert not any(outcome.outputs.get(bank) for bank in BANKS)


def test_another_attempt_may_repeat_a_round_only_over_the_same_model(threads):
    assert threads(PART, ROLES, inputs(), run="sums-4").errors == {}
    assert threads(PART, ROLES, inputs(), run="sums-4", attempt=2).errors == {}
    other = dict.fromkeys(BANKS, b"another model")
    outcome = threads(PART, ROLES, inputs(**other), run="sums-4", attempt=3)
    assert any(isinstance(error, StateError) for error in outcome.errors.values())
    assert outcome.outputs == {}


def test_parties_that_hold_different_models_decrypt_nothing(threads):
    outcome = threads(PART, ROLES, inputs(south=b"another model"), run="sums-5")
    assert any(isinstance(error, SpecMismatch) for error in outcome.errors.values())
    assert not any(outcome.outputs.get(bank) for bank in BANKS)


@pytest.mark.parametrize("bad", [np.nan, 1e9])
def test_a_value_that_does_not_fit_is_refused_before_it_is_sent(threads, bad):
    given = inputs()
    given["south"]["values"] = np.full(150, bad)
    outcome = threads(PART, ROLES, given, run=f"sums-6-{bad:g}".replace("+", ""))
    assert isinstance(outcome.errors["south"], CryptoError)
    assert outcome.parcels["south"] == []


@pytest.mark.parametrize(
    ("lanes", "values"),
    [
        (Lanes(64, 16, 3), np.array([1e13, -0.25, 1 / 65536])),
        (Lanes(16, 0, 3), np.arange(-150, 150)),
        (Lanes(16, 4, 3), np.arange(500).reshape(5, 100) / 16),
        (Lanes(16, 4, 3), np.zeros(0)),
    ],
)
def test_check_lanes_change_no_bit_of_a_total(threads, lanes, values):
    def one(ctx, params):
        return {"sum": Summer(ctx, 2048).total(values, lanes, 0, b"m")}

    functions = dict.fromkeys(BANKS, one) | {"bureau": lambda ctx, params: relay(ctx, range(1)) or {}}
    outcome = threads(PART, ROLES, {}, run=f"exact-{lanes.lane}-{lanes.fraction}-{values.size}", functions=functions)
    assert outcome.errors == {}
    for bank in BANKS:
        found = outcome.outputs[bank]["sum"]
        assert found.dtype == (np.float64 if lanes.fraction else np.int64)
        assert found.tobytes() == (3 * values.ravel()).astype(found.dtype).tobytes()


def test_lanes_that_the_checks_would_fill_are_refused(threads):
    def one(ctx, params):
        return {"sum": Summer(ctx, 2048).total(np.ones(3), Lanes(64, 0, 2**62), 0, b"m")}

    functions = dict.fromkeys(BANKS, one) | {"bureau": lambda ctx, params: relay(ctx, range(1)) or {}}
    outcome = threads(PART, ROLES, {}, run="full", functions=functions)
    assert "no room" in str(outcome.errors["east"])
