"""Sums that go on without who is late or gone: the total of the others is exact, and all learn who is in it."""

import hashlib
import itertools
import threading

import numpy as np
import pytest

from base.errors import ConsentError, DeadlinePassed, SpecError, SpecMismatch
from components import masked_survivors, words
from components.contract import Component
from components.secure_sum import SumParams, fewest, open_total, relay, sum_messages
from crypto.packing import Lanes
from runtime.execute import parse_params

BANKS = ("east", "north", "south", "west")
ROLES = {"data_holder": BANKS, "aggregator": ("bureau",)}
LANES, SIZE, SECONDS = Lanes(16, 4, 4), 40, 20
VALUES = {bank: np.random.default_rng(n).integers(-99, 99, SIZE) / 16 for n, bank in enumerate(BANKS)}
RUNS = itertools.count()


class Rounds(SumParams):
    rounds: tuple[int, ...] = (1, 2)


def model(ctx):
    """Return another model in each run: the same values over the same one are in sums of the same parties alone."""
    return hashlib.sha256(ctx.run.encode()).digest()


class Gate:
    """Keeps `bank` at a message of round 1 until the others have that round's total; all begin round 2 together."""

    def __init__(self, bank="", message=""):
        self.bank, self.message = bank, message
        self.told, self.next = threading.Semaphore(0), threading.Barrier(len(BANKS))

    def passes(self, ctx, name):
        if (ctx.party, name) == (self.bank, self.message):
            self.message = ""
            for _ in range(len(BANKS) - 1):
                assert self.told.acquire(timeout=SECONDS)

    def holder(self, ctx, params):
        send, sums, took_part = ctx.send, [], []
        object.__setattr__(ctx, "send", lambda name, *more: (self.passes(ctx, name), send(name, *more)))
        total = open_total(ctx, params)
        for t in params.rounds:
            sums.append(total(VALUES[ctx.party] * (t + 1), LANES, t, ctx.inputs.get("bound", model(ctx))))
            took_part.append(total.contributed)
            self.told.release()
            if t == 1:
                self.next.wait(SECONDS)
        return {"sums": sums, "contributed": took_part}


def aggregator(ctx, params):
    relay(ctx, params, params.rounds)
    return {}


def gone(ctx, params):
    """Show keys, and never answer again."""
    open_total(ctx, params)
    return {}


def alone(ctx, params):
    """Add without a gate."""
    total = open_total(ctx, params)
    return {"sums": [total(VALUES[ctx.party] * (t + 1), LANES, t, model(ctx)) for t in params.rounds]}


def lying(vectors, seconds=0.5):
    """An aggregator that sends each bank what `vectors` makes of the list, and waits for nobody longer than this."""

    def function(ctx, params):
        send = ctx.send

        def changed(name, table, to=None):
            for bank in BANKS if name == "vectors" else (to,):
                send(name, vectors(table, bank) if name == "vectors" else table, bank)

        object.__setattr__(ctx, "send", changed)
        ctx.channel.deadline_seconds = seconds
        return aggregator(ctx, params)

    return function


def without(table, party):
    return table.filter([name != party for name in table["party"].to_pylist()])


def run(threads, gate, *, wait=0.5, functions=None, inputs=None, roles=ROLES, **params):
    part = Component("sums", {"data_holder": gate.holder, "aggregator": aggregator}, Rounds, sum_messages("the sum"))
    given = {"on_dropout": "continue", "wait_seconds": wait, **params}
    return threads(part, roles, inputs or {}, given, functions=functions, run=f"survivors-{next(RUNS)}")


def summed(banks, t):
    return sum(VALUES[bank] for bank in banks) * (t + 1)


def assert_totals(outcome, first, late=()):
    assert outcome.errors == {}
    for bank in BANKS:
        found = outcome.outputs[bank]
        np.testing.assert_array_equal(found["sums"], [summed(first, 1), summed(BANKS, 2)])
        assert found["contributed"] == [bank not in late, True]


def test_with_all_in_time_the_total_is_that_of_all_and_only_declared_messages_travel(threads, monkeypatch):
    monkeypatch.setattr(words, "PIECE", 4)
    outcome = run(threads, Gate(), wait=SECONDS)
    assert_totals(outcome, BANKS)
    sent = {parcel.header.name for parcels in outcome.parcels.values() for parcel in parcels}
    assert sent == {
        "advert",
        "adverts",
        "offer",
        "offers",
        "masked",
        "vectors",
        "agreed",
        "agreements",
        "shares",
        "sum",
    }
    readable = (np.ldexp(VALUES["east"], 4) + 2**13).astype(np.uint64)[:8].astype("<u8").tobytes()
    assert not any(readable in bytes(parcel.body) for parcel in outcome.parcels["east"])


@pytest.mark.parametrize("message", ["offer", "masked"])
def test_who_is_late_is_left_out_learns_it_and_takes_part_in_the_next_sum(threads, message):
    assert_totals(run(threads, Gate("north", message)), ("east", "south", "west"), late=("north",))


@pytest.mark.parametrize("message", ["agreed", "shares"])
def test_who_is_late_after_its_vector_is_in_the_total(threads, message):
    assert_totals(run(threads, Gate("north", message)), BANKS)


def test_a_party_that_is_gone_hangs_nobody(threads):
    functions = dict.fromkeys(BANKS, alone) | {"north": gone}
    outcome = run(threads, Gate(), wait=0.05, functions=functions)
    assert outcome.errors == {}
    for bank in ("east", "south", "west"):
        expected = [summed(("east", "south", "west"), t) for t in (1, 2)]
        np.testing.assert_array_equal(outcome.outputs[bank]["sums"], expected)
        assert outcome.metrics[bank]["contributors"] == 3


def test_below_the_threshold_the_step_ends_and_says_who_was_awaited(threads):
    functions = dict.fromkeys(BANKS, alone) | {
        "north": gone,
        "west": gone,
        "bureau": lying(lambda table, bank: table, 0.3),
    }
    outcome = run(threads, Gate(), wait=0.05, functions=functions)
    assert isinstance(outcome.errors["bureau"], DeadlinePassed)
    assert "north, west" in str(outcome.errors["bureau"])
    assert not outcome.outputs.get("east")


def test_sum_number_0_is_over_all_or_nobody(threads):
    holders = dict.fromkeys(BANKS, alone)
    outcome = run(threads, Gate(), wait=0.01, functions=holders, rounds=[0])
    np.testing.assert_array_equal(outcome.outputs["east"]["sums"], [summed(BANKS, 0)])
    functions = holders | {"north": gone, "bureau": lying(lambda table, bank: table)}
    outcome = run(threads, Gate(), wait=0.01, functions=functions, rounds=[0])
    assert isinstance(outcome.errors["bureau"], DeadlinePassed)
    functions = holders | {"bureau": lying(lambda table, bank: without(table, "north"))}
    outcome = run(threads, Gate(), wait=0.01, functions=functions, rounds=[0])
    assert any(isinstance(error, ConsentError) for error in outcome.errors.values())
    assert not any(outcome.outputs.get(bank) for bank in BANKS)


def test_parties_that_hold_different_models_get_no_total(threads):
    outcome = run(threads, Gate(), inputs={"south": {"bound": b"m" * 32}})
    assert any(isinstance(error, SpecMismatch) for error in outcome.errors.values())
    assert not any(outcome.outputs.get(bank) for bank in BANKS)


def test_an_aggregator_with_two_lists_of_survivors_gets_shares_for_neither(threads):
    """With both it would have key and self mask of west, whose vector it has."""

    two_lists = lying(lambda table, bank: table if bank in ("south", "west") else without(table, "west"))
    outcome = run(threads, Gate(), wait=0.05, functions={"bureau": two_lists})
    assert outcome.errors
    assert not any(outcome.outputs.get(bank) for bank in BANKS)
    assert not [p for bank in BANKS for p in outcome.parcels[bank] if p.header.name == "shares"]


@pytest.mark.parametrize(("banks", "colluders"), [(BANKS[:3], 0), (BANKS, 2)])
def test_too_few_parties_or_too_many_colluders_are_refused(threads, banks, colluders):
    outcome = run(threads, Gate(), roles=ROLES | {"data_holder": banks}, colluders=colluders)
    assert any(isinstance(error, ConsentError) for error in outcome.errors.values())
    assert not any(outcome.outputs.values())


@pytest.mark.parametrize("other", [{"protection": "paillier"}, {"protection": "plain"}, {"topology": "gossip"}])
def test_only_masks_with_an_aggregator_go_on(other):
    part = Component("sums", {"data_holder": alone, "aggregator": aggregator}, Rounds, sum_messages("the sum"))
    parse_params(part, {"on_dropout": "continue"}, "step sums")
    with pytest.raises(SpecError, match="params is wrong"):
        parse_params(part, {"on_dropout": "continue", **other}, "step sums")


@pytest.mark.parametrize("n", range(4, 33))
def test_the_threshold_is_the_least_that_lets_one_list_be_signed(n):
    for colluders in range(n - 2):
        t = masked_survivors.threshold(n, colluders)
        assert 2 * t > n + colluders >= 2 * (t - 1)
        assert t >= 3


def test_noise_is_shared_over_as_many_as_a_total_may_have(threads):
    class Ctx:
        def parties(self, role):
            return BANKS

    assert fewest(Ctx(), SumParams()) == 4
    assert fewest(Ctx(), SumParams(on_dropout="continue")) == 3
