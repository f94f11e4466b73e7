"""Attacks on sums by masks that cancel: each succeeds on a weakened setting and fails on what `masked_sum` does.

The adversary is the aggregator, which sends what it likes, or a bank that reads totals. `test_sums` attacks sums of
ciphertexts; `tests/crypto/test_secagg` attacks the parties of `crypto.secagg` without a channel between them.
"""

import hashlib
import shutil

import numpy as np
import pyarrow as pa
import pytest

import crypto.secagg
from base.errors import ConsentError, CryptoError, DeadlinePassed, PeerForeign, SpecMismatch, StateError
from components import masked_sum
from components.contract import Component, Params
from components.masked_sum import Summer, relay, sum_messages
from components.secure_sum import SumParams, open_total
from components.secure_sum import relay as relay_sum
from components.secure_sum import sum_messages as secure_messages
from components.words import recv_words
from crypto.masks import pack, pair_seed, unpack
from crypto.packing import Lanes
from crypto.secagg import Party
from crypto.secagg_claims import Claims
from crypto.secagg_public import Advert, Consent, Total
from runtime.keys import PartyKeys

BANKS = ("east", "north", "south")
ROLES = {"data_holder": BANKS, "aggregator": ("bureau",)}
LANES, MODEL = Lanes(16, 4, 4), b"m" * 32
SECRET = np.array([3.5, -1.25, 8.0])  # what south would not show
OTHERS = 1.0 + 2.0  # what east and north add


class Rounds(Params):
    rounds: tuple[int, ...] = (0,)


def holder(ctx, params):
    summer, bound = Summer(ctx), ctx.inputs["bound"]
    return {"sums": [summer.total(ctx.inputs["v"][i], LANES, r, bound) for i, r in enumerate(params.rounds)]}


def aggregator(ctx, params):
    relay(ctx, params.rounds)
    return {}


PART = Component("sums", {"data_holder": holder, "aggregator": aggregator}, Rounds, sum_messages("the sum"))


def inputs(*rounds, banks=BANKS, **bounds):
    """One vector a round and bank; `rounds` says what south contributes."""
    own = {"east": np.ones(3), "north": np.full(3, 2.0), "west": np.full(3, 4.0)}
    return {bank: {"v": [own.get(bank, south) for south in rounds], "bound": bounds.get(bank, MODEL)} for bank in banks}


def refused(outcome, kind):
    """Tell whether somebody refused for that reason, and nobody has a sum or gave a seed."""
    seeds = [p for bank in outcome.parcels for p in outcome.parcels[bank] if p.header.name == "seed"]
    given = any(outcome.outputs.get(bank) for bank in outcome.outputs)
    return any(isinstance(error, kind) for error in outcome.errors.values()) and not seeds and not given


def forgetful(monkeypatch):
    """Weakened: parties and aggregator do not remember what was summed."""
    inner = masked_sum._collect
    monkeypatch.setattr(masked_sum, "_collect", lambda ctx, terms, done: inner(ctx, terms, set()))
    monkeypatch.setattr(Claims, "attempt", lambda self: None)
    monkeypatch.setattr(Claims, "over", lambda self, what, number, record: None)


def lying(**changes):
    """An aggregator for which `changes` (message -> function of table and its party) hold at its ends."""

    def function(ctx, params):
        recv, send = ctx.recv, ctx.send

        def changed_recv(name, from_=None):
            table = recv(name, from_)
            return changes[name](table, from_) if name in changes else table

        def changed_send(name, table, to=None):
            if name != "sum" or "sum" not in changes:
                send(name, table, to)
            else:
                for bank in BANKS:
                    send(name, changes["sum"](table, bank), bank)

        object.__setattr__(ctx, "recv", changed_recv)
        object.__setattr__(ctx, "send", changed_send)
        return aggregator(ctx, params)

    return {"bureau": function}


def with_words(table, words):
    return table.set_column(0, table.schema.field("w"), [words])


# What parties are shown


def test_parties_that_were_shown_two_models_give_no_sum(threads, monkeypatch):
    given = inputs(SECRET, north=b"n" * 32)
    assert refused(threads(PART, ROLES, given, run="models-1"), SpecMismatch)
    # Weakened: the context does not say which model. East and north would sum over south's answer to another question.
    inner = Party.begin
    monkeypatch.setattr(
        Party, "begin", lambda self, number, model, rows, *layout: inner(self, number, bytes(32), rows, *layout)
    )
    outcome = threads(PART, ROLES, given, run="models-2")
    assert outcome.errors == {}
    assert (outcome.outputs["east"]["sums"][0] == OTHERS + SECRET).all()


class Puppet:
    """Keys of a party that the aggregator made up."""

    def __init__(self):
        self.store = {}

    def sign(self, data):
        return bytes(64)

    def verify(self, party, data, signature):
        pass

    def keep(self, name, make):
        return self.store.setdefault(name, make())


def puppeteer(ctx, params):
    """Show south a roster whose other members are puppets that contribute zeros, and return what the sum then is."""
    terms, row = masked_sum._terms(ctx), ctx.recv("advert", from_="south").to_pylist()[0]
    puppets = {name: Party(terms, name, Puppet()) for name in ("east", "north")}
    adverts = {name: puppet.advert for name, puppet in puppets.items()}
    adverts["south"] = Advert(row["public"], row["signature"])
    shown = [(name, one.public, one.signature) for name, one in adverts.items()]
    ctx.send("adverts", masked_sum.rows(masked_sum.KEYS, shown), "south")
    total = Total(terms, LANES, 3)
    for name, puppet in puppets.items():
        puppet.meet(adverts)
        puppet.begin(0, MODEL, hashlib.sha256(b"vector").digest(), LANES, 3)
        total.add(name, puppet.mask(np.zeros(3)))
    total.add("south", recv_words(ctx, "masked", from_="south")[0])

    ctx.send("vectors", masked_sum.rows(masked_sum.VECTORS, list(total.survivors.items())), "south")
    consents = {name: puppet.agree(total.survivors) for name, puppet in puppets.items()}
    agreed = ctx.recv("agreed", from_="south").to_pylist()[0]
    consents["south"] = Consent(agreed["listed"], agreed["signature"])
    rows = [(name, consent.listed, consent.signature) for name, consent in consents.items()]
    ctx.send("agreements", masked_sum.rows(masked_sum.AGREED, rows), "south")
    reveals = {name: puppet.reveal(consents) for name, puppet in puppets.items()}
    seed = ctx.recv("seed", from_="south")["seed"][0].as_py()
    reveals["south"] = crypto.secagg.Reveal(seed=seed)
    ctx.send("sum", _table(total.open(reveals)), "south")
    return {"read": total.unmask(reveals)}


def _table(words):
    layout = {"lane": "16", "fraction": "4", "summands": "4", "size": "3", "round": "0"}
    return pa.table([words], schema=pa.schema([pa.field("w", pa.uint64())], metadata=layout))


def test_an_aggregator_that_plays_the_other_banks_reads_the_last_where_signatures_do_not_count(threads, monkeypatch):
    idle = {"east": lambda ctx, params: {}, "north": lambda ctx, params: {}, "bureau": puppeteer}
    outcome = threads(PART, ROLES, inputs(SECRET), run="puppets-1", functions=idle)
    assert refused(outcome, PeerForeign)
    assert [p.header.name for p in outcome.parcels["south"]] == ["advert"]  # no vector left
    # Weakened: keys are taken from whoever shows them.
    monkeypatch.setattr(PartyKeys, "verify", lambda self, party, data, signature: None)
    outcome = threads(PART, ROLES, inputs(SECRET), run="puppets-2", functions=idle)
    assert (outcome.outputs["bureau"]["read"] == SECRET).all()


# Totals that differ by one party


def test_a_second_sum_of_one_round_would_show_a_party_by_subtraction(threads, monkeypatch):
    given, twice = inputs(SECRET, 0 * SECRET), {"rounds": [0, 0]}
    outcome = threads(PART, ROLES, given, twice, run="replay-1")
    assert any(isinstance(error, StateError) for error in outcome.errors.values())
    assert outcome.outputs.get("east") is None
    forgetful(monkeypatch)
    first, second = threads(PART, ROLES, given, twice, run="replay-2").outputs["east"]["sums"]
    assert (first - second == SECRET).all()


def test_a_round_repeated_without_one_bank_would_show_it_by_subtraction(threads, monkeypatch):
    four = ROLES | {"data_holder": ("east", "north", "south", "west")}
    three = ROLES | {"data_holder": ("east", "north", "west")}

    def both(run):
        first = threads(PART, four, inputs(SECRET, banks=four["data_holder"]), run=run)
        assert first.errors == {}
        given = inputs(SECRET, banks=three["data_holder"])
        return first.outputs["east"]["sums"][0], threads(PART, three, given, run=run, attempt=2)

    _, second = both("fewer-1")
    assert refused(second, StateError)
    forgetful(monkeypatch)
    whole, second = both("fewer-2")
    assert (whole - second.outputs["east"]["sums"][0] == SECRET).all()


class Going(SumParams):
    on_dropout: str = "continue"
    wait_seconds: float = 60.0
    rounds: tuple[int, ...] = (0,)


def test_two_runs_of_which_one_went_on_without_a_bank_show_nothing_and_sum_0_is_of_all(threads):
    """Statistics and counts are the same in every run: two totals that differ by a bank are that bank's part."""
    lanes, four = Lanes(16, 4, 4), ROLES | {"data_holder": (*BANKS, "west")}

    def adds(ctx, params):
        total = open_total(ctx, params)
        return {"sums": [total(ctx.inputs["v"][0], lanes, number, MODEL) for number in params.rounds]}

    def adding(ctx, params):
        relay_sum(ctx, params, params.rounds)
        return {}

    def hurried(ctx, params):
        ctx.channel.deadline_seconds = 2
        return adding(ctx, params)

    def late(ctx, params):  # shows its keys, and is not heard of again
        open_total(ctx, params)
        return {}

    part = Component("sums", {"data_holder": adds, "aggregator": adding}, Going, secure_messages("the sum"))
    given = inputs(SECRET, banks=four["data_holder"])

    def both(number, **functions):
        first = threads(part, four, given, {"rounds": [number]}, run=f"whole-{number}")
        assert first.errors == {}
        params = {"rounds": [number], "wait_seconds": 2.0}
        second = threads(part, four, given, params, run=f"parted-{number}", functions={"south": late, **functions})
        return first.outputs["east"]["sums"][0], second

    # The default: sum 0, where statistics and counts cross, waits for all, and ends without a total.
    _, second = both(0, bureau=hurried)
    assert any(isinstance(error, DeadlinePassed) for error in second.errors.values())
    assert second.outputs.get("east") is None
    # A round of training goes on, but not with values that were in a sum of all before: the difference would be a part.
    _, second = both(1)
    assert any(isinstance(error, StateError) for error in second.errors.values())
    assert second.outputs.get("east") is None


# Restored snapshots


def _twin(secret):
    """Copy what forbids to be copied, as a snapshot of a machine does."""
    twin = object.__new__(type(secret))
    twin.__dict__.update(secret.__dict__)
    return twin


def test_a_snapshot_of_a_running_bank_would_use_its_pads_twice(threads, monkeypatch):
    """The machine of a bank comes back as it was between the start of a round and its masked vector."""

    def restored(ctx, params):
        party = Summer(ctx)._party
        party.begin(0, MODEL, bytes(32), LANES, 3)
        twin = _twin(party)
        twin._round = _twin(party._round)
        sent = party.mask(SECRET)
        return {"difference": sent - twin.mask(0 * SECRET)}

    def meet(ctx, params):
        Summer(ctx)
        return {}

    functions = {
        "east": meet,
        "north": meet,
        "south": restored,
        "bureau": lambda ctx, params: relay(ctx, range(0)) or {},
    }
    outcome = threads(PART, ROLES, {}, run="pads-1", functions=functions)
    assert isinstance(outcome.errors["south"], StateError)
    # Weakened: the key store came back with it.
    monkeypatch.setattr(PartyKeys, "keep", lambda self, name, make: make())
    outcome = threads(PART, ROLES, {}, run="pads-2", functions=functions)
    words = outcome.outputs["south"]["difference"] + pack(0 * SECRET, LANES)
    assert (unpack(words, LANES, 3, 1) == SECRET).all()


def test_a_bank_restored_from_a_backup_repeats_neither_an_attempt_nor_a_round_over_other_values(threads):
    first = threads(PART, ROLES, inputs(SECRET), run="backup")
    assert first.errors == {}
    again = threads(PART, ROLES, inputs(0 * SECRET), run="backup")
    assert refused(again, StateError)
    assert refused(threads(PART, ROLES, inputs(0 * SECRET), run="backup", attempt=2), StateError)
    # Weakened: south's key store is part of its backup, and the round is summed again over its new values.
    shutil.rmtree(threads.folder / "south")
    third = threads(PART, ROLES, inputs(0 * SECRET), run="backup", attempt=3)
    assert third.errors == {}
    assert (first.outputs["east"]["sums"][0] - third.outputs["east"]["sums"][0] == SECRET).all()


# Vectors that are not what a party sent in this round


def masked_words(outcome, bank="south"):
    """Return the masked vectors that a bank sent, round by round, as the aggregator has them."""
    bodies = [p for p in outcome.parcels[bank] if p.header.name == "masked"]
    return [pa.ipc.open_stream(bytes(p.body)).read_all()["w"].to_numpy() for p in bodies]


def test_masked_vectors_of_two_rounds_do_not_show_what_changed(threads, monkeypatch):
    given, two = inputs(0 * SECRET, SECRET), {"rounds": [0, 1]}

    def change(run):
        before, after = masked_words(threads(PART, ROLES, given, two, run=run))
        return unpack(after - before + pack(0 * SECRET, LANES), LANES, 3, 1)

    with pytest.raises(CryptoError):  # the difference of two pads: nothing but noise
        change("rounds-1")
    # Weakened: pads of the attempt and not of the round.
    inner = crypto.secagg._Round.__init__

    def same_pad(self, *more):
        inner(self, *more)
        self.b = b"b" * 32

    monkeypatch.setattr(crypto.secagg._Round, "__init__", same_pad)
    monkeypatch.setattr(crypto.secagg, "pair_seed", lambda private, public, _: pair_seed(private, public, bytes(32)))
    assert (change("rounds-2") == SECRET).all()


def swaps():
    """Name -> what an aggregator makes of a masked vector (table, bank, vectors that it has kept)."""
    return {
        "of an earlier round": lambda table, bank, kept: (
            kept.get(("masked", bank), table) if bank == "south" else table
        ),
        "of another bank": lambda table, bank, kept: kept["masked", "east"] if bank == "south" else table,
        "of an earlier attempt": lambda table, bank, kept: (
            with_words(table, kept["words"]) if bank == "south" else table
        ),
    }


@pytest.mark.parametrize("name", swaps())
def test_a_masked_vector_in_another_s_place_is_not_signed_and_its_masks_do_not_cancel(threads, monkeypatch, name):
    run, two = name.replace(" ", "-"), {"rounds": [0, 1]}
    first = threads(PART, ROLES, inputs(SECRET), run=run)
    kept = {"words": masked_words(first)[0]}

    def swapped(table, bank):
        out = swaps()[name](table, bank, kept)
        kept.setdefault(("masked", bank), table)
        return out

    def attack(number):
        for key in [key for key in kept if key != "words"]:
            del kept[key]
        given = inputs(SECRET, SECRET)
        return threads(PART, ROLES, given, two, run=run, attempt=number, functions=lying(masked=_renumbered(swapped)))

    outcome = attack(2)
    assert isinstance(outcome.errors["south"], ConsentError)
    assert outcome.outputs.get("south") is None
    # Weakened: south signs a list in which its own vector is another. Masks still do not cancel: the check word.
    inner = Party.agree

    def credulous(self, survivors):
        self._round.y = survivors[self._party]
        return inner(self, survivors)

    monkeypatch.setattr(Party, "agree", credulous)
    outcome = attack(3)
    assert any(isinstance(error, CryptoError) for error in outcome.errors.values())
    assert outcome.outputs.get("south") is None


def _renumbered(swapped):
    """Give a kept vector the round number of the one in whose place it stands."""

    def function(table, bank):
        return swapped(table, bank).replace_schema_metadata(table.schema.metadata)

    return function


# What the aggregator announces


def _shifted(table, bank):
    """Add 1.0 to the first value of the total, within its lane."""
    words = table["w"].to_numpy().copy()
    words[0] += np.uint64(1 << LANES.fraction)
    return with_words(table, words)


def test_another_total_for_all_is_believed_and_nothing_proves_it(threads):
    """Stated, not defended: the aggregator's word is the total, within what three parties can give."""
    outcome = threads(PART, ROLES, inputs(SECRET), run="announced", functions=lying(sum=_shifted))
    assert outcome.errors == {}
    for bank in BANKS:
        assert (outcome.outputs[bank]["sums"][0] == OTHERS + SECRET + [1, 0, 0]).all()


def test_two_totals_end_with_the_next_sum_that_depends_on_them(threads):
    def training(ctx, params):
        summer = Summer(ctx)
        first = summer.total(ctx.inputs["v"][0], LANES, 0, MODEL)
        bound = hashlib.sha256(first.tobytes()).digest()
        return {"first": first, "sums": [summer.total(ctx.inputs["v"][1], LANES, 1, bound)]}

    def two_faced(table, bank):
        return _shifted(table, bank) if bank == "south" else table

    def run(name, change):
        functions = dict.fromkeys(BANKS, training) | lying(sum=change)
        return threads(PART, ROLES, inputs(SECRET, SECRET), {"rounds": [0, 1]}, run=name, functions=functions)

    assert run("faces-1", lambda table, bank: table).errors == {}
    outcome = run("faces-2", two_faced)
    assert any(isinstance(error, SpecMismatch) for error in outcome.errors.values())
    assert not any(outcome.outputs.get(bank) for bank in BANKS)


def test_what_the_check_word_notices_of_a_total_and_what_it_does_not(threads):
    rng = np.random.default_rng(1)

    def pad_left(table, bank):  # a self mask or a pairwise mask that nobody took off
        return with_words(table, table["w"].to_numpy() + rng.integers(0, 2**64, len(table), np.uint64))

    def too_much(table, bank):  # more than three parties can give in a lane
        words = table["w"].to_numpy().copy()
        words[0] |= np.uint64(0xFFFF)
        return with_words(table, words)

    for name, change in (("pad", pad_left), ("much", too_much)):
        outcome = threads(PART, ROLES, inputs(SECRET), run=f"check-{name}", functions=lying(sum=change))
        assert any(isinstance(error, CryptoError) for error in outcome.errors.values())
        assert not any(outcome.outputs.get(bank) for bank in BANKS)
    # Not noticed: one part in place of the total, where the aggregator has it from elsewhere and adds two zeros.
    alone = pack(SECRET, LANES) + pack(0 * SECRET, LANES) * np.uint64(2)
    outcome = threads(
        PART, ROLES, inputs(SECRET), run="check-alone", functions=lying(sum=lambda t, bank: with_words(t, alone))
    )
    assert outcome.errors == {}
    assert (outcome.outputs["east"]["sums"][0] == SECRET).all()
