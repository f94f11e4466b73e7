import numpy as np
import pytest

from base.errors import CryptoError, SpecMismatch, StateError
from components.contract import Component, Params
from components.secure_sum import Summer, relay, sum_messages
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
    {"data_holder": holder, "aggregator": lambda ctx, params: relay(ctx, len(params.rounds)) or {}},
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
    outcome = threads(PART, ROLES, given, run="sums-6")
    assert isinstance(outcome.errors["south"], CryptoError)
    assert outcome.parcels["south"] == []
