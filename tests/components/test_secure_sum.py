"""The one way to add across parties: every protection gives the same total and admits its own messages alone."""

import numpy as np
import pytest

from base.errors import ConsentError, CryptoError, MessageRefused, SpecMismatch, StateError
from components import words
from components.contract import Component
from components.secure_sum import SumParams, open_total, relay, sum_messages
from crypto.packing import Lanes

BANKS = ("east", "north", "south")
ROLES = {"data_holder": BANKS, "aggregator": ("bureau",)}
LANES = Lanes(16, 4, 3)
HOWS = ("secagg", "paillier", "plain")


class Rounds(SumParams):
    rounds: tuple[int, ...] = (0, 1)


def holder(ctx, params):
    total, values = open_total(ctx, params), ctx.inputs["values"]
    bound = ctx.inputs.get("bound", bytes(32))
    return {"sums": [total(values * (r + 1), LANES, r, bound) for r in params.rounds]}


def aggregator(ctx, params):
    relay(ctx, params, params.rounds)
    return {}


PART = Component("sums", {"data_holder": holder, "aggregator": aggregator}, Rounds, sum_messages("the sum"))


def inputs(size=150, **bounds):
    rng = np.random.default_rng(1)
    return {bank: {"values": rng.normal(size=size), "bound": bounds.get(bank, bytes(32))} for bank in BANKS}


def run(threads, how, name, given=None, **more):
    params = {"protection": how, "key_bits": 2048, **more.pop("params", {})}
    return threads(PART, more.pop("roles", ROLES), given or inputs(), params, run=f"{name}-{how}", **more)


def test_all_protections_give_the_same_total_at_every_party(threads):
    expected = [sum(np.rint(x["values"] * (r + 1) * 16) / 16 for x in inputs().values()) for r in (0, 1)]
    for how in HOWS:
        outcome = run(threads, how, "same")
        assert outcome.errors == {}
        for bank in BANKS:
            np.testing.assert_array_equal(outcome.outputs[bank]["sums"], expected)


@pytest.mark.parametrize("how", HOWS)
def test_only_the_messages_of_the_protection_travel_and_only_plain_is_readable(threads, how):
    given = {bank: {"values": np.full(40, n + 1.0)} for n, bank in enumerate(BANKS)}
    outcome = run(threads, how, "travel", given)
    assert outcome.errors == {}
    admitted = {message.name for message in PART.table({"protection": how})}
    sent = {bank: outcome.parcels[bank] for bank in (*BANKS, "bureau")}
    assert {p.header.name for parcels in sent.values() for p in parcels} == admitted
    readable = np.full(10, 0x2010_2010_2010_2010, np.uint64).tobytes()  # 1.0 in 16-bit lanes of 14 bits, offset
    found = any(readable in bytes(p.body) for p in sent["east"])
    assert found == (how == "plain")


def test_a_message_of_another_protection_is_refused(threads):
    def eager(ctx, params):
        words.send_words(ctx, "clear", np.zeros(11, np.uint64), LANES, 40, 0)

    functions = {"east": eager}
    outcome = run(threads, "secagg", "eager", functions=functions)
    assert isinstance(outcome.errors["east"], MessageRefused)


@pytest.mark.parametrize("how", HOWS)
def test_fewer_than_three_are_refused(threads, how):
    roles = {"data_holder": ("east", "north"), "aggregator": ("bureau",)}
    outcome = run(threads, how, "two", roles=roles)
    assert isinstance(outcome.errors.get("east") or outcome.errors.get("north"), ConsentError)
    assert not any(outcome.outputs.get(bank) for bank in BANKS)


@pytest.mark.parametrize("how", ["secagg", "paillier"])
def test_a_second_sum_of_a_round_is_refused(threads, how):
    outcome = run(threads, how, "twice", params={"rounds": [0, 0]})
    assert any(isinstance(error, StateError) for error in outcome.errors.values())
    assert not any(outcome.outputs.get(bank) for bank in BANKS)


@pytest.mark.parametrize("how", ["secagg", "paillier"])
def test_another_attempt_repeats_a_round_only_over_the_same_model_and_values(threads, how):
    assert run(threads, how, "again").errors == {}
    assert run(threads, how, "again", attempt=2).errors == {}
    for other in (inputs(**dict.fromkeys(BANKS, b"m" * 32)), inputs() | {"east": {"values": np.zeros(150)}}):
        outcome = run(threads, how, "again", other, attempt=3)
        assert any(isinstance(error, StateError) for error in outcome.errors.values())
        assert outcome.outputs.get("east") is None


@pytest.mark.parametrize("how", ["secagg", "paillier"])
def test_parties_that_hold_different_models_get_no_total(threads, how):
    outcome = run(threads, how, "models", inputs(south=b"m" * 32))
    assert any(isinstance(error, SpecMismatch | CryptoError) for error in outcome.errors.values())
    assert not any(outcome.outputs.get(bank) for bank in BANKS)


@pytest.mark.parametrize("how", ["secagg", "plain"])
def test_a_vector_may_be_larger_than_a_message(threads, how, monkeypatch):
    monkeypatch.setattr(words, "PIECE", 16)
    outcome = run(threads, how, "pieces")
    assert outcome.errors == {}
    assert sum(p.header.name in ("masked", "clear") for p in outcome.parcels["east"]) == 2 * 3  # 38 and a check word


def test_an_aggregator_that_changes_a_vector_after_the_list_gets_no_sum(threads):
    def forging(ctx, params):
        recv = ctx.recv

        def changed(name, from_=None):
            table = recv(name, from_)
            if name == "masked" and from_ == "east":
                w = table["w"].to_numpy().copy()
                w[0] += np.uint64(1)
                table = table.set_column(0, "w", [w])
            return table

        object.__setattr__(ctx, "recv", changed)
        return aggregator(ctx, params)

    outcome = run(threads, "secagg", "forging", functions={"bureau": forging})
    assert isinstance(outcome.errors["east"], ConsentError)
    assert not any(outcome.outputs.get(bank) for bank in BANKS)
