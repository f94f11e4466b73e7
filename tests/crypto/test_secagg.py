"""Secure aggregation between parties in one process, and the attacks that it is there for."""

import pickle

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

import crypto.secagg
from base.errors import ConsentError, CryptoError, PeerForeign, SpecMismatch, StateError
from crypto.agreement import frame, hkdf, x25519
from crypto.masks import add_pads, digest, pack, pair_seed, unpack
from crypto.node_keys import NodeKeys
from crypto.packing import Lanes
from crypto.secagg import Party
from crypto.secagg_public import (
    Advert,
    Consent,
    Offer,
    Terms,
    Total,
    advert_text,
    consent_text,
    list_digest,
    offer_text,
)
from crypto.shamir import SHARE_BYTES, Share, reconstruct, share

NAMES = tuple(f"bank{i}" for i in range(1, 6))
NODES = {name: NodeKeys.generate() for name in NAMES}
MODEL, ROWS = b"m" * 32, b"r" * 32
LANES, SIZE = Lanes(16, 4, 5), 50
VALUES = {name: np.random.default_rng(i).integers(-99, 99, SIZE) / 16 for i, name in enumerate(NAMES)}
STOP, GO_ON = Terms("run-1/fit", 1, NAMES), Terms("run-1/fit", 1, NAMES, threshold=4, colluders=2)


class Keys:
    """A node's keys and its lasting store."""

    def __init__(self, name, store=None):
        self.name, self.store = name, {} if store is None else store

    def sign(self, data):
        return NODES[self.name].sign(data)

    def verify(self, party, data, signature):
        NODES[party].public.verify(party, data, signature)

    def keep(self, name, make):
        return self.store.setdefault(name, make())


class Forgetful(Keys):
    """The weakened setting: the store came back with the snapshot."""

    def keep(self, name, make):
        return make()


class Trusting(Keys):
    """The weakened setting: no signature is looked at."""

    def verify(self, party, data, signature):
        pass


def start(terms=STOP, keys=Keys, stores=None):
    parties = {name: Party(terms, name, keys(name, *([stores[name]] if stores else []))) for name in terms.roster}
    adverts = {name: party.advert for name, party in parties.items()}
    for party in parties.values():
        party.meet(adverts)
    return parties


def masked(parties, number=1, model=None, values=VALUES, offering=None, sending=None):
    """Rounds 1 and 2: the aggregator with the vectors of `sending`, out of the parties that are `offering`."""
    terms = next(iter(parties.values()))._terms
    made = {n: p.begin(number, (model or {}).get(n, MODEL), ROWS, LANES, SIZE) for n, p in parties.items()}
    offers = None if terms.threshold is None else {n: made[n] for n in offering or parties}
    total = Total(terms, LANES, SIZE, offers)
    for name in sending or offering or parties:
        total.add(name, parties[name].mask(values[name], offers))
    return total


def opened(parties, total, agreeing=None, revealing=None):
    """Rounds 3 and 4."""
    consents = {n: parties[n].agree(total.survivors) for n in agreeing or total.survivors}
    return total.unmask({n: parties[n].reveal(consents) for n in revealing or consents})


def summed(names, values=VALUES):
    return sum(values[name] for name in names)


@pytest.fixture
def attempt():
    return start()


# The sum


@pytest.mark.parametrize("terms", [STOP, GO_ON, Terms("r", 1, NAMES[:3]), Terms("r", 3, NAMES[:4], 3, 1)])
def test_the_sum_is_exact_round_after_round(terms):
    parties = start(terms)
    for number in (1, 2, 7):
        assert (opened(parties, masked(parties, number)) == summed(terms.roster)).all()


@settings(max_examples=8, deadline=None)
@given(st.integers(3, 50), st.sampled_from([8, 10, 16, 24, 32]), st.booleans(), st.data())
def test_three_to_fifty_silos_in_every_lane(n, lane, stop, data):
    names = tuple(f"silo{i:02}" for i in range(n))
    NODES.update(dict.fromkeys(names, NODES["bank1"]))
    t = None if stop or n < 4 else data.draw(st.integers((n + 1) // 2 + 1, n - 1))
    lanes, terms = Lanes(lane, 0, n), Terms("r", 1, names, t)
    parties, values = start(terms), {}
    for name in names:
        q = st.sampled_from([-lanes.limit, lanes.limit, 0]) | st.integers(-lanes.limit, lanes.limit)
        values[name] = np.array(data.draw(st.lists(q, min_size=3, max_size=3)))
    offers = {name: party.begin(1, MODEL, ROWS, lanes, 3) for name, party in parties.items()}
    total = Total(terms, lanes, 3, None if t is None else offers)
    there = names if t is None else data.draw(st.permutations(names))[: data.draw(st.integers(t, n))]
    for name in there:
        total.add(name, parties[name].mask(values[name], None if t is None else offers))
    assert opened(parties, total).tolist() == sum(values[name] for name in there).tolist()


@pytest.mark.parametrize(
    ("offering", "sending", "agreeing", "revealing", "there"),
    [
        (NAMES[:4], None, None, None, NAMES[:4]),
        (None, NAMES[1:], None, None, NAMES[1:]),
        (None, None, NAMES[:4], None, NAMES),
        (None, None, None, NAMES[1:], NAMES),
        (None, NAMES[:4], NAMES[:4], NAMES[:4], NAMES[:4]),
    ],
)
def test_a_party_may_drop_out_at_every_stage_and_come_back_in_the_next_round(
    offering, sending, agreeing, revealing, there
):
    parties = start(GO_ON)
    assert (
        opened(parties, masked(parties, 1, None, VALUES, offering, sending), agreeing, revealing) == summed(there)
    ).all()
    assert (opened(parties, masked(parties, 2)) == summed(NAMES)).all()


def test_drop_outs_beyond_the_threshold_stop_the_sum():
    few = NAMES[:3]
    parties = start(GO_ON)
    with pytest.raises(ConsentError, match="too few offers"):
        masked(parties, 1, offering=few)
    with pytest.raises(ConsentError, match="does not sign"):
        opened(parties, masked(parties, 2, sending=few))
    total = masked(parties, 3)
    with pytest.raises(ConsentError, match="enough consents"):
        opened(parties, total, agreeing=few)
    total = masked(parties, 4)
    with pytest.raises(ConsentError, match="too few parties open"):
        opened(parties, total, revealing=few)


def test_nobody_may_be_missing_under_stop(attempt):
    with pytest.raises(ConsentError, match="does not sign"):
        opened(attempt, masked(attempt, sending=NAMES[:4]))
    total = masked(attempt, 2)
    with pytest.raises(ConsentError, match="enough consents"):
        opened(attempt, total, agreeing=NAMES[:4])


def test_under_stop_no_share_of_anything_exists(attempt):
    assert attempt["bank1"].begin(1, MODEL, ROWS, LANES, SIZE) is None
    assert attempt["bank1"]._round.shares == {}


# What a vector shows


def test_vectors_show_nothing_and_every_seed_is_needed(attempt):
    total = masked(attempt, values={name: np.zeros(SIZE) for name in NAMES})
    assert len(set(total.survivors.values())) == len(NAMES)
    consents = {n: p.agree(total.survivors) for n, p in attempt.items()}
    reveals = {n: p.reveal(consents) for n, p in attempt.items()}
    with pytest.raises(CryptoError, match="do not cancel"):
        total.unmask({**reveals, "bank1": reveals["bank2"]})
    assert not total.unmask(reveals).any()


def test_what_a_party_sends_is_uniform_however_its_values_are():
    lanes, n = Lanes(32, 0, 5), 20_000
    parties = start()
    for party in parties.values():
        party.begin(1, MODEL, ROWS, lanes, n)
    words = parties["bank3"].mask(np.full(n, lanes.limit))
    assert chisquare(np.bincount(words.view(np.uint8), minlength=256)).pvalue > 1e-6


# Two models, two rosters, two lists


def two_models(parties):
    return masked(parties, model={"bank2": b"x" * 32})


def test_two_models_are_refused_before_a_seed_is_out(attempt):
    total = two_models(attempt)
    consents = {n: p.agree(total.survivors) for n, p in attempt.items()}
    for party in attempt.values():
        with pytest.raises(SpecMismatch, match="agree on what a sum is over"):
            party.reveal(consents)


def test_two_models_give_garbage_even_with_every_seed(attempt):
    # The weakened setting: the seeds are taken from the parties' memory.
    total = two_models(attempt)
    words = total._sum.copy()
    add_pads(words, [], [party._round.b for party in attempt.values()])
    with pytest.raises(CryptoError, match="do not cancel"):
        unpack(words, LANES, SIZE, 5)
    # The same with one model: the masks cancel, so the above can fail.
    total = masked(attempt, 2)
    add_pads(total._sum, [], [party._round.b for party in attempt.values()])
    assert (unpack(total._sum, LANES, SIZE, 5) == summed(NAMES)).all()


def test_two_models_stop_an_offer():
    parties = start(GO_ON)
    offers = {n: p.begin(1, b"x" * 32 if n == "bank2" else MODEL, ROWS, LANES, SIZE) for n, p in parties.items()}
    for name, party in parties.items():
        with pytest.raises(SpecMismatch, match="another model"):
            party.mask(VALUES[name], offers)
    with pytest.raises(SpecMismatch, match="2 contexts"):
        Total(GO_ON, LANES, SIZE, offers)


@pytest.mark.parametrize(
    "other", [Terms("run-1/fit", 1, NAMES[:4]), Terms("run-1/fit", 2, NAMES), Terms("run-2/fit", 1, NAMES)]
)
def test_keys_of_another_run_attempt_or_roster_are_refused(other):
    parties = {name: Party(STOP, name, Keys(name)) for name in NAMES}
    adverts = {name: party.advert for name, party in parties.items()}
    adverts["bank2"] = Party(other, "bank2", Keys("bank2")).advert
    with pytest.raises(PeerForeign, match="bank2 does not verify"):
        parties["bank1"].meet(adverts)


def test_two_rosters_give_garbage_where_signatures_are_not_looked_at():
    # bank1..3 are shown that bank4, bank5 have keys of the aggregator.
    parties = {name: Party(STOP, name, Trusting(name)) for name in NAMES}
    true = {name: party.advert for name, party in parties.items()}
    fake = {n: a if n < "bank4" else Party(STOP, n, Keys(n)).advert for n, a in true.items()}
    for name, party in parties.items():
        party.meet({**(fake if name < "bank4" else true), name: party.advert})
    total = masked(parties)
    add_pads(total._sum, [], [party._round.b for party in parties.values()])
    with pytest.raises(CryptoError, match="do not cancel"):
        unpack(total._sum, LANES, SIZE, 5)


def test_two_keys_that_a_party_signed_are_noticed_before_a_seed_is_out():
    # bank5 helps the aggregator: it signs two keys, and bank1 is shown the second.
    parties = {name: Party(STOP, name, Keys(name)) for name in NAMES}
    adverts = {name: party.advert for name, party in parties.items()}
    second = Party(STOP, "bank5", Keys("bank5")).advert
    for name, party in parties.items():
        party.meet({**adverts, "bank5": second} if name == "bank1" else adverts)
    total = masked(parties)
    consents = {n: p.agree(total.survivors) for n, p in parties.items()}
    for name in ("bank1", "bank2"):
        with pytest.raises(SpecMismatch):
            parties[name].reveal(consents)


def test_missing_foreign_and_repeated_adverts_are_refused():
    parties = {name: Party(STOP, name, Keys(name)) for name in NAMES}
    adverts = {name: party.advert for name, party in parties.items()}
    for wrong in (
        {n: adverts[n] for n in NAMES[:4]},
        {**adverts, "bank9": adverts["bank2"]},
        {**adverts, "bank1": adverts["bank2"]},
    ):
        with pytest.raises(StateError, match="not the adverts"):
            parties["bank1"].meet(wrong)
    trusting = Party(STOP, "bank1", Trusting("bank1"))
    with pytest.raises(CryptoError, match="one key"):
        trusting.meet({**adverts, "bank1": trusting.advert, "bank3": adverts["bank2"]})
    parties["bank1"].meet(adverts)
    with pytest.raises(StateError, match="not the adverts"):
        parties["bank1"].meet(adverts)


def test_two_sets_of_offers_are_refused_before_a_share_is_out():
    parties = start(GO_ON)
    offers = {n: p.begin(1, MODEL, ROWS, LANES, SIZE) for n, p in parties.items()}
    less = {n: offers[n] for n in NAMES[:4]}
    sent = {n: digest(parties[n].mask(VALUES[n], less if n == "bank1" else offers)) for n in NAMES[:4]}
    consents = {n: parties[n].agree(sent) for n in sent}
    with pytest.raises(SpecMismatch):
        parties["bank1"].reveal(consents)
    with pytest.raises(SpecMismatch):
        parties["bank2"].reveal(consents)


def test_a_changed_vector_is_not_signed(attempt):
    total = masked(attempt)
    with pytest.raises(ConsentError, match="does not sign"):
        attempt["bank1"].agree({**total.survivors, "bank1": bytes(32)})
    consents = {n: attempt[n].agree({**total.survivors, "bank3": b"3" * 32} if n == "bank2" else total.survivors)
                for n in ("bank1", "bank2", "bank4", "bank5")}  # fmt: skip
    consents["bank3"] = attempt["bank3"].agree(total.survivors)
    with pytest.raises(SpecMismatch):
        attempt["bank1"].reveal(consents)


@pytest.mark.parametrize("change", ["signature", "signer"])
def test_a_tampered_signature_is_refused(attempt, change):
    total = masked(attempt)
    consents = {n: p.agree(total.survivors) for n, p in attempt.items()}
    one = consents["bank2"]
    wrong = bytes([one.signature[0] ^ 1]) + one.signature[1:] if change == "signature" else consents["bank3"].signature
    with pytest.raises(PeerForeign, match="bank2 does not verify"):
        attempt["bank1"].reveal({**consents, "bank2": Consent(one.listed, wrong)})


def test_tampered_offers_are_refused():
    parties = start(GO_ON)
    offers = {n: p.begin(1, MODEL, ROWS, LANES, SIZE) for n, p in parties.items()}
    one = offers["bank2"]
    key = X25519PrivateKey.generate().public_key().public_bytes_raw()
    with pytest.raises(PeerForeign, match="bank2"):
        parties["bank1"].mask(VALUES["bank1"], {**offers, "bank2": Offer(one.context, key, one.signature, one.sealed)})
    for sealed in ({}, {**one.sealed, "bank1": one.sealed["bank3"]}, {"bank1": one.sealed["bank1"][:-1]}):
        with pytest.raises(CryptoError, match="does not open"):
            parties["bank1"].mask(
                VALUES["bank1"], {**offers, "bank2": Offer(one.context, one.public, one.signature, sealed)}
            )
    # bank2 seals for bank1 what was meant for bank3.
    two = parties["bank2"]
    wrong = share(bytes(32), 5, 4)[2].to_bytes() * 2
    key = two._sealing("bank2", "bank1", one.context, one.public)
    sealed = {**one.sealed, "bank1": AESGCM(key).encrypt(bytes(12), wrong, None)}
    offer = Offer(one.context, one.public, one.signature, sealed)
    with pytest.raises(CryptoError, match="another party's"):
        parties["bank1"].mask(VALUES["bank1"], {**offers, "bank2": offer})
    without = {n: offers[n] for n in NAMES[1:]}
    with pytest.raises(ConsentError, match="too few offers"):
        parties["bank1"].mask(VALUES["bank1"], without)
    again = parties["bank1"].begin(1, MODEL, ROWS, LANES, SIZE)
    with pytest.raises(StateError, match="own offer"):
        parties["bank1"].mask(VALUES["bank1"], offers)
    assert parties["bank1"].mask(VALUES["bank1"], {**offers, "bank1": again}).size


# Both kinds of shares


def test_both_kinds_of_shares_of_one_party_are_refused():
    parties = start(GO_ON)
    total = masked(parties)
    with_all, without = total.survivors, {n: total.survivors[n] for n in NAMES[:4]}
    parties["bank1"].agree(with_all)
    with pytest.raises(StateError, match="not the time"):
        parties["bank1"].agree(without)
    # The aggregator has five parties, two of which help it and sign both lists: the other list never gets four.
    for name in ("bank2", "bank3", "bank4"):
        parties[name].agree(with_all)
    context = parties["bank1"]._round.context
    listed = list_digest(context, without)
    helpers = {n: Consent(listed, NODES[n].sign(consent_text(n, listed))) for n in ("bank3", "bank4")}
    with pytest.raises(ConsentError, match="enough consents"):
        parties["bank1"].reveal(helpers)


def test_a_reveal_has_one_kind_of_share_for_a_party_and_comes_once():
    parties = start(GO_ON)
    total = masked(parties, sending=NAMES[:4])
    consents = {n: parties[n].agree(total.survivors) for n in NAMES[:4]}
    reveal = parties["bank1"].reveal(consents)
    assert (set(reveal.self_shares), set(reveal.key_shares), reveal.seed) == (set(NAMES[:4]), {"bank5"}, b"")
    with pytest.raises(StateError, match="not the time"):
        parties["bank1"].reveal(consents)


def test_a_key_of_the_whole_attempt_would_open_an_earlier_round_and_a_key_of_the_round_does_not(monkeypatch):
    def attack(parties):
        """bank5 takes part in round 1 and drops in round 2; the aggregator wants x of round 1."""
        first = masked(parties, 1)
        offered, context = dict(first._offered), first._context
        consents = {n: p.agree(first.survivors) for n, p in parties.items()}
        b = parties["bank5"]._round.b  # released in round 1, as of every survivor
        seen = parties["bank5"].seen
        first.unmask({n: p.reveal(consents) for n, p in parties.items()})
        second = masked(parties, 2, sending=NAMES[:4])
        consents = {n: parties[n].agree(second.survivors) for n in NAMES[:4]}
        reveals = [parties[n].reveal(consents) for n in NAMES[:4]]
        s5 = X25519PrivateKey.from_private_bytes(reconstruct([r.key_shares["bank5"] for r in reveals], 4))
        add_pads(seen, [], [b, *(pair_seed(s5, offered[v], context) for v in NAMES[:4])])
        return (seen == pack(VALUES["bank5"], LANES)).all()

    assert not attack(watched(start(GO_ON)))
    parties = start(GO_ON)
    for party in parties.values():
        party.fixed = X25519PrivateKey.generate()
    with monkeypatch.context() as patch:
        begin = Party.begin

        def weak(self, *args):
            patch.setattr(crypto.secagg, "X25519PrivateKey", type("One", (), {"generate": lambda: self.fixed}))
            return begin(self, *args)

        patch.setattr(Party, "begin", weak)
        assert attack(watched(parties))


def watched(parties):
    """Let the aggregator keep the first vector of each party."""
    for party in parties.values():

        def mask(values, offers, party=party):
            words = Party.mask(party, values, offers)
            if not hasattr(party, "seen"):
                party.seen = words.copy()
            return words

        party.mask = mask
    return parties


# Numbers that come back


def copied(party):
    """A restored snapshot of a party's memory."""
    twin = object.__new__(Party)
    twin.__dict__.update(party.__dict__)
    if party._round is not None:
        twin._round = object.__new__(type(party._round))
        twin._round.__dict__.update(party._round.__dict__)
    return twin


def test_pads_used_again_after_a_restored_snapshot_show_the_difference_and_are_refused():
    def attack(keys):
        parties = start(STOP, keys)
        for party in parties.values():
            party.begin(1, MODEL, ROWS, LANES, SIZE)
        twin = copied(parties["bank1"])
        first, second = parties["bank1"].mask(VALUES["bank1"]), twin.mask(VALUES["bank2"])
        return (second - first == pack(VALUES["bank2"], LANES) - pack(VALUES["bank1"], LANES)).all()

    assert attack(Forgetful)
    with pytest.raises(StateError, match="round 1 differs"):
        attack(Keys)
    one = start()["bank1"]
    one.begin(1, MODEL, ROWS, LANES, SIZE)
    twin = copied(one)
    one.mask(VALUES["bank1"])
    with pytest.raises(StateError, match="use a pad twice"):
        twin.mask(VALUES["bank1"])


@pytest.mark.parametrize("terms", [STOP, GO_ON])
def test_a_second_sum_of_a_round_is_refused(terms):
    parties = start(terms)
    opened(parties, masked(parties, 3))
    with pytest.raises(StateError, match="use a pad twice"):
        masked(parties, 3)


def test_a_second_list_after_a_restored_snapshot_is_refused():
    def attack(keys):
        parties = start(GO_ON, keys)
        total = masked(parties)
        twin = copied(parties["bank1"])
        parties["bank1"].agree(total.survivors)
        return twin.agree(total.survivors)

    assert attack(Forgetful)
    with pytest.raises(StateError, match="second survivors"):
        attack(Keys)


def test_an_attempt_never_goes_back():
    store = {}
    Party(Terms("r", 3, NAMES), "bank1", Keys("bank1", store))
    for attempt in (1, 2, 3):
        with pytest.raises(StateError, match="attempt"):
            Party(Terms("r", attempt, NAMES), "bank1", Keys("bank1", store))
    Party(Terms("r", 4, NAMES), "bank1", Keys("bank1", store))
    Party(Terms("other", 1, NAMES), "bank1", Keys("bank1", store))


def test_a_round_takes_one_record_of_the_store_and_no_more():
    parties = start()
    before = {name: len(party._keys.store) for name, party in parties.items()}
    opened(parties, masked(parties))
    assert {name: len(party._keys.store) - before[name] for name, party in parties.items()} == dict.fromkeys(NAMES, 1)


@pytest.mark.parametrize("attempt", [1, 2])
def test_a_snapshot_uses_no_pad_twice_in_a_repeated_round_either(attempt):
    stores = {name: {} for name in NAMES}
    for earlier in range(1, attempt):
        masked(start(Terms("run-1/fit", earlier, NAMES), Keys, stores))
    one = start(Terms("run-1/fit", attempt, NAMES), Keys, stores)["bank1"]
    one.begin(1, MODEL, ROWS, LANES, SIZE)
    twins = [copied(one) for _ in range(3)]
    one.mask(VALUES["bank1"])
    for twin in twins:
        with pytest.raises(StateError, match="use a pad twice"):
            twin.mask(VALUES["bank1"])


def test_a_later_attempt_repeats_a_round_only_over_the_same():
    stores = {name: {} for name in NAMES}
    masked(start(STOP, Keys, stores))
    again = start(Terms("run-1/fit", 2, NAMES), Keys, stores)
    one = again["bank1"]
    for wrong in ((1, b"x" * 32, ROWS), (1, MODEL, b"x" * 32)):
        one.begin(*wrong, LANES, SIZE)
        with pytest.raises(StateError, match="round 1 differs"):
            one.mask(VALUES["bank1"])
    assert (opened(again, masked(again)) == summed(NAMES)).all()
    for attempt, other in ((3, (NAMES[:4],)), (4, (NAMES, 4))):
        with pytest.raises(StateError, match="round 1 differs"):
            masked(start(Terms("run-1/fit", attempt, *other), Keys, stores))


def test_a_later_attempt_with_other_survivors_is_refused_since_the_sums_differ_by_one_party():
    def attack(keys, stores):
        parties = start(GO_ON, keys, stores)
        first = opened(parties, masked(parties, sending=NAMES[:4]))
        again = start(Terms("run-1/fit", 2, NAMES, 4, 2), keys, stores)
        return opened(again, masked(again)) - first

    assert (attack(Forgetful, None) == VALUES["bank5"]).all()
    with pytest.raises(StateError, match="round 1 differs"):
        attack(Keys, {name: {} for name in NAMES})


def test_a_later_attempt_over_changed_values_is_refused_since_the_sums_differ_by_the_change():
    change = 3 * np.eye(SIZE)[7]

    def attack(keys, stores):
        parties = start(STOP, keys, stores)
        first = opened(parties, masked(parties))
        again = start(Terms("run-1/fit", 2, NAMES), keys, stores)
        return opened(again, masked(again, values={**VALUES, "bank1": VALUES["bank1"] + change})) - first

    assert (attack(Forgetful, None) == change).all()
    with pytest.raises(StateError, match="round 1 differs"):
        attack(Keys, {name: {} for name in NAMES})


@pytest.mark.parametrize("number", [np.int64(1), np.int32(1), np.uint8(1), True, 1.0, "1", -1, None])
def test_a_round_has_one_name_so_its_number_is_an_int_alone(attempt, number):
    # Each of these is written in another way: a second sum of round 1, over other values, would be let through.
    opened(attempt, masked(attempt, 1))
    with pytest.raises(StateError, match="cannot begin"):
        masked(attempt, number, values={**VALUES, "bank1": VALUES["bank2"]})
    with pytest.raises(StateError, match="cannot begin"):
        attempt["bank1"].begin(2, MODEL, ROWS, LANES, number)
    with pytest.raises(StateError, match="no terms"):
        Terms("run-1/fit", number, NAMES)


# Keys that no honest party draws, and keys copied in another form

P = 2**255 - 19
ORDER_8 = (
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
)
KEY = int.from_bytes(X25519PrivateKey.generate().public_key().public_bytes_raw(), "little")
BAD_KEYS = {
    "the identity": bytes(32),
    "the identity, top bit": (1 << 255).to_bytes(32, "little"),
    "order 4": (1).to_bytes(32, "little"),
    "order 4 of the twist": (P - 1).to_bytes(32, "little"),
    **{f"order 8, {i}": u.to_bytes(32, "little") for i, u in enumerate(ORDER_8)},
    "p": P.to_bytes(32, "little"),
    "p + 1": (P + 1).to_bytes(32, "little"),
    "p + 9, not canonical": (P + 9).to_bytes(32, "little"),
    "all ones": b"\xff" * 32,
    "an honest key, top bit": (KEY | 1 << 255).to_bytes(32, "little"),
    "on the twist": (2).to_bytes(32, "little"),
    "empty": b"",
    "short": KEY.to_bytes(32, "little")[:31],
    "two": KEY.to_bytes(32, "little") + (9).to_bytes(32, "little"),
}


@pytest.mark.parametrize("bad", BAD_KEYS.values(), ids=BAD_KEYS)
@pytest.mark.parametrize("terms", [STOP, GO_ON])
def test_a_bad_key_of_the_attempt_is_refused_by_name_before_anything_is_taken(terms, bad):
    parties = {name: Party(terms, name, Keys(name)) for name in NAMES}
    adverts = {name: party.advert for name, party in parties.items()}
    wrong = Advert(bad, NODES["bank5"].sign(advert_text(terms, "bank5", bad)))
    for name in NAMES[:4]:
        with pytest.raises(CryptoError, match="no honest party draws") as refused:
            parties[name].meet({**adverts, "bank5": wrong})
        assert refused.value.party == "bank5"
    for party in parties.values():
        party.meet(adverts)
    assert (opened(parties, masked(parties)) == summed(NAMES)).all()


def lying_offer(liar, honest, public):
    """What `liar` sends with another s_u: signed, and its shares sealed under it."""
    context, name = honest.context, liar._party
    shares = zip(NAMES, share(bytes(32), 5, 4), strict=True)
    sealed = {
        peer: AESGCM(liar._sealing(name, peer, context, public)).encrypt(bytes(12), one.to_bytes() * 2, None)
        for peer, one in shares if peer != name
    }  # fmt: skip
    return Offer(context, public, NODES[name].sign(offer_text(name, context, public)), sealed)


@pytest.mark.parametrize("bad", BAD_KEYS.values(), ids=BAD_KEYS)
def test_a_bad_key_of_the_round_is_refused_by_name_and_its_party_can_be_left_out(bad):
    parties, stores = start(GO_ON), {}
    offers = {n: p.begin(1, MODEL, ROWS, LANES, SIZE) for n, p in parties.items()}
    lie = {**offers, "bank5": lying_offer(parties["bank5"], offers["bank5"], bad)}
    for name in NAMES[:4]:
        stores[name] = dict(parties[name]._keys.store)
        with pytest.raises(CryptoError, match="no honest party draws") as refused:
            parties[name].mask(VALUES[name], lie)
        assert refused.value.party == "bank5"
        assert parties[name]._keys.store == stores[name]  # nothing of the round was claimed
    with pytest.raises(CryptoError, match="no honest party draws"):
        Total(GO_ON, LANES, SIZE, lie)
    without = {n: offers[n] for n in NAMES[:4]}
    total = Total(GO_ON, LANES, SIZE, without)
    for name in without:
        total.add(name, parties[name].mask(VALUES[name], without))
    assert (opened(parties, total) == summed(NAMES[:4])).all()


def test_one_key_of_two_parties_leaves_the_round_as_it_was():
    parties = start(GO_ON)
    offers = {n: p.begin(1, MODEL, ROWS, LANES, SIZE) for n, p in parties.items()}
    lie = {**offers, "bank5": lying_offer(parties["bank5"], offers["bank5"], offers["bank1"].public)}
    with pytest.raises(CryptoError, match="one key"):
        parties["bank1"].mask(VALUES["bank1"], lie)
    assert parties["bank1"].mask(VALUES["bank1"], offers).size


def equivalent(public):
    """P + (0, 0), which is 1/u: canonical, on the curve, and every clamped scalar gives it the multiple of P."""
    copy = pow(int.from_bytes(public, "little"), -1, P).to_bytes(32, "little")
    some = X25519PrivateKey.generate()
    assert copy != public
    assert x25519(some, copy) == x25519(some, public)
    return copy


def seed_of_the_value_alone(private, public, context):
    """The weakened setting: the seed does not depend on the keys' bytes."""
    return hkdf(x25519(private, public), frame(b"weak", context))


def liars_word(survivors, honest, parties):
    """The lists that the honest sign, and what the liar signs too; returns what the honest reveal."""
    consents = {n: parties[n].agree(survivors) for n in honest}
    listed = consents[honest[0]].listed
    consents["bank5"] = Consent(listed, NODES["bank5"].sign(consent_text("bank5", listed)))
    return {n: parties[n].reveal(consents) for n in honest}


def opens_under_stop():
    """bank5 copies bank1's key in another form: with it bank1's mask in every vector is undone."""
    parties = {n: Party(STOP, n, Keys(n)) for n in NAMES}
    adverts = {n: p.advert for n, p in parties.items()}
    copy = equivalent(adverts["bank1"].public)
    adverts["bank5"] = Advert(copy, NODES["bank5"].sign(advert_text(STOP, "bank5", copy)))
    honest = NAMES[:4]
    for name in honest:
        parties[name].meet(adverts)
        parties[name].begin(1, MODEL, ROWS, LANES, SIZE)
    y = {n: parties[n].mask(VALUES[n]) for n in honest}
    reveals = liars_word({**{n: digest(v) for n, v in y.items()}, "bank5": bytes(32)}, honest, parties)
    # bank1 < bank2..4 < bank5: in what is left of bank2 + bank3 + bank4 the masks with bank1 and bank5 are alike.
    words = y["bank2"] + y["bank3"] + y["bank4"]
    add_pads(words, [], [reveals[n].seed for n in honest[1:]])
    return unpack(words, LANES, SIZE, 3)


def opens_going_on():
    """The same with s_u of the round."""
    parties = start(GO_ON)
    offers = {n: p.begin(1, MODEL, ROWS, LANES, SIZE) for n, p in parties.items()}
    offers["bank5"] = lying_offer(parties["bank5"], offers["bank5"], equivalent(offers["bank1"].public))
    honest = NAMES[:4]
    y = {n: parties[n].mask(VALUES[n], offers) for n in honest}
    reveals = liars_word({**{n: digest(v) for n, v in y.items()}, "bank5": bytes(32)}, honest, parties)
    words = y["bank2"] + y["bank3"] + y["bank4"]
    b = [reconstruct([reveals[n].self_shares[u] for n in honest], 4) for u in honest[1:]]
    add_pads(words, [], b)
    return unpack(words, LANES, SIZE, 3)


@pytest.mark.parametrize("attack", [opens_under_stop, opens_going_on])
def test_a_copy_of_a_partys_key_in_another_form_opens_nothing(attack, monkeypatch):
    # A sum without bank1 and bank5; with three parties, or with helpers, it is one party's vector.
    with pytest.raises(CryptoError, match="do not cancel"):
        attack()
    monkeypatch.setattr(crypto.secagg, "pair_seed", seed_of_the_value_alone)
    assert (attack() == summed(NAMES[1:4])).all()


def test_of_three_parties_one_copied_key_opens_the_vector_between_only_where_bytes_do_not_count(monkeypatch):
    def attack():
        names = ("bank1", "bank2", "bank5")
        terms = Terms("run-1/fit", 1, names)
        parties = {n: Party(terms, n, Keys(n)) for n in names}
        adverts = {n: p.advert for n, p in parties.items()}
        copy = equivalent(adverts["bank1"].public)
        adverts["bank5"] = Advert(copy, NODES["bank5"].sign(advert_text(terms, "bank5", copy)))
        for name in names[:2]:
            parties[name].meet(adverts)
            parties[name].begin(1, MODEL, ROWS, LANES, SIZE)
        y = {n: parties[n].mask(VALUES[n]) for n in names[:2]}
        listed = {**{n: digest(v) for n, v in y.items()}, "bank5": bytes(32)}
        reveals = liars_word(listed, names[:2], parties)
        words = y["bank2"].copy()
        add_pads(words, [], [reveals["bank2"].seed])
        return unpack(words, LANES, SIZE, 1)

    with pytest.raises(CryptoError, match="do not cancel"):
        attack()
    monkeypatch.setattr(crypto.secagg, "pair_seed", seed_of_the_value_alone)
    assert (attack() == VALUES["bank2"]).all()


def test_a_copied_key_of_the_attempt_does_not_seal_twice_under_one_key_and_nonce(monkeypatch):
    def attack():
        """What bank2 sealed for bank1 and for bank5, who copied c_u of bank1; and what it had to seal."""
        parties, dealt = {n: Party(GO_ON, n, Keys(n)) for n in NAMES}, []
        adverts = {n: p.advert for n, p in parties.items()}
        copy = equivalent(adverts["bank1"].public)
        adverts["bank5"] = Advert(copy, NODES["bank5"].sign(advert_text(GO_ON, "bank5", copy)))
        parties["bank2"].meet(adverts)
        with monkeypatch.context() as patch:
            patch.setattr(crypto.secagg, "share", lambda *args: dealt.append(share(*args)) or dealt[-1])
            sealed = parties["bank2"].begin(1, MODEL, ROWS, LANES, SIZE).sealed
        plain = [b"".join(shares[i].to_bytes() for shares in dealt) for i in (0, 4)]
        return xor(sealed["bank1"], sealed["bank5"])[: 2 * SHARE_BYTES] == xor(*plain)

    def xor(a, b):
        return bytes(x ^ y for x, y in zip(a, b, strict=True))

    assert not attack()

    def weak(self, sender, receiver, context, public):
        peer = receiver if sender == self._party else sender
        return hkdf(x25519(self._key, self._adverts[peer]), frame(b"weak", context, public, sender.encode()))

    monkeypatch.setattr(Party, "_sealing", weak)
    assert attack()


# Terms and requests at the wrong time


@pytest.mark.parametrize(
    "case", [(NAMES[:2],), (NAMES[:3], 2, 0), (NAMES, 3, 1), (NAMES, 5, 0), (NAMES[:4], 3, 2), ((), None)]
)
def test_terms_that_are_not_safe_are_refused(case):
    with pytest.raises(ConsentError):
        Terms("r", 1, *case)


@pytest.mark.parametrize("case", [(1, NAMES[::-1]), (1, (*NAMES, NAMES[-1])), (0, NAMES), (1, NAMES, 4, -1)])
def test_terms_that_mean_nothing_are_refused(case):
    with pytest.raises(StateError):
        Terms("r", *case)


def test_a_party_outside_the_roster_is_refused():
    with pytest.raises(ConsentError, match="outside the roster"):
        Party(Terms("r", 1, NAMES[:4]), "bank5", Keys("bank5"))


def test_requests_at_another_time_are_refused(attempt):
    one = attempt["bank1"]
    for early in (lambda: one.mask(VALUES["bank1"]), lambda: one.agree({}), lambda: one.reveal({})):
        with pytest.raises(StateError, match="not the time"):
            early()
    with pytest.raises(StateError, match="cannot begin"):
        Party(STOP, "bank1", Keys("bank1")).begin(1, MODEL, ROWS, LANES, SIZE)
    for wrong in ((b"short", ROWS, LANES), (MODEL, b"", LANES), (MODEL, ROWS, Lanes(16, 4, 4))):
        with pytest.raises(StateError, match="cannot begin"):
            one.begin(1, *wrong, SIZE)
    one.begin(1, MODEL, ROWS, LANES, SIZE)
    with pytest.raises(StateError, match="not the vector"):
        one.mask(np.zeros(SIZE + 1))
    with pytest.raises(StateError, match="not the vector"):
        one.mask(VALUES["bank1"], {})


def test_values_outside_the_lanes_are_refused_and_may_be_mended(attempt):
    one = attempt["bank1"]
    one.begin(1, MODEL, ROWS, LANES, SIZE)
    for bad in (np.full(SIZE, 1e9), np.full(SIZE, np.nan)):
        with pytest.raises(CryptoError, match="gradient"):
            one.mask(bad, name="gradient")
    one.mask(VALUES["bank1"])


# The aggregator


def test_the_aggregator_refuses_what_is_not_of_the_round(attempt):
    total = masked(attempt, sending=NAMES[:4])
    y = np.zeros(total._sum.size, np.uint64)
    for party, vector in (("bank1", y), ("bank9", y), ("bank5", y[1:]), ("bank5", y.astype(np.int64))):
        with pytest.raises(StateError, match="not a vector"):
            total.add(party, vector)
    with pytest.raises(ConsentError):
        total.unmask({})
    with pytest.raises(StateError, match="offers"):
        Total(STOP, LANES, SIZE, {})
    a, b = (Offer(context, b"", b"", {}) for context in (b"a", b"b"))
    with pytest.raises(SpecMismatch):
        Total(GO_ON, LANES, SIZE, {"bank1": a, "bank2": b})


def test_false_shares_are_noticed():
    cases = (
        ("self_shares", "bank2", NAMES[:4], "do not cancel"),
        ("self_shares", "bank2", NAMES, "of one secret"),
        ("key_shares", "bank5", NAMES[:4], "key that was offered"),
    )
    for kind, party, sending, match in cases:
        parties = start(GO_ON)
        total = masked(parties, sending=sending)
        consents = {n: parties[n].agree(total.survivors) for n in sending}
        reveals = {n: parties[n].reveal(consents) for n in sending}
        shares = getattr(reveals["bank1"], kind)
        # What is rebuilt is a seed of 32 bytes still, but for 297 in 2^256 cases.
        shares[party] = Share(shares[party].x, shares[party].y ^ 1)
        with pytest.raises(CryptoError, match=match):
            total.unmask(reveals)


# Secrets


def test_secrets_are_not_shown_and_not_pickled():
    parties = start(GO_ON)
    total = masked(parties)
    one = parties["bank1"]
    held = [one, one._round, one._round.shares["bank2"][0]]
    consents = {n: p.agree(total.survivors) for n, p in parties.items()}
    held.append(one.reveal(consents))
    for secret in held:
        assert repr(secret) == f"<{type(secret).__name__}, not shown>"
        with pytest.raises(CryptoError):
            pickle.dumps(secret)
    assert "sealed" not in repr(Offer(b"", b"", b"", {"bank1": b"x"}))
