"""EASE, SLIST and iALS over three banks: the pooled model of the same statistics, which leave once in an epoch."""

import shutil

import numpy as np
import pyarrow as pa
import pytest
from small_histories import together

from base.errors import ConsentError, DataError, SpecMismatch
from components.horizontal_ials import HorizontalIalsParams
from models import ease, ials, mf, slist
from models.histories import Histories
from models.symmetric import enough_ridge
from models.thresholds import enough_pairs, enough_raters
from runtime.randomness import Randomness

BANKS = ("east", "north", "south")
ROLES = {"data_holder": BANKS, "aggregator": ("bureau",)}
ITEMS, LEAST, PAIRS, TOP = 24, 6, 3, 10
KINDS = ("ease", "slist", "ials")
PARAMS = {"min_raters": LEAST}
PAIR_PARAMS = {"min_pairs": PAIRS, "complete": False}
MORE = {
    "ease": PAIR_PARAMS | {"reg": 20.0},
    "slist": PAIR_PARAMS | {"reg": 20.0},
    "ials": {"complete": False, "embedding_size": 1, "sweeps": 3, "second_moments": True},
}


def own(bank, seed=0):
    """A bank's histories: 40 people, popular items first, two items that hardly anybody has."""
    rng = np.random.default_rng([BANKS.index(bank), seed])
    chance = np.linspace(0.7, 0.1, ITEMS) * np.where(np.arange(ITEMS) < ITEMS - 2, 1, 0.2)
    lists = [rng.permutation(np.flatnonzero(rng.random(ITEMS) < chance)) for _ in range(40)]
    user = np.repeat(np.arange(40), [len(one) for one in lists]).astype(np.int32)
    return Histories(user, np.concatenate(lists).astype(np.int32), 40, ITEMS)


def inputs(histories):
    found = {}
    for bank, h in histories.items():
        train = pa.table({"user": h.user, "item": h.item, "rating": np.ones(len(h), np.float32)})
        people = pa.table({"user_id": [f"{bank}{u}" for u in range(h.users)]})
        items = pa.table({"item_id": [f"{i:03}" for i in range(ITEMS)]})
        found[bank] = {"ratings": {"train": train, "users": people, "items": items}}
    return found


def pooled(kind, banks):
    """Return scores (U, I) by bank of the model trained in one place, float64, on what the banks let out."""
    kept = {bank: enough_raters(h, LEAST) for bank, h in banks.items()}
    users = np.arange(40)
    if kind == "ials":
        given, h = HorizontalIalsParams(**MORE["ials"]), together(list(kept.values()))
        loss = ials.Loss(given.unobserved, given.reg, given.frequency)
        Q = mf.start_factors(Randomness(1, "test/step", b"").shared("Q"), ITEMS, 1, given.start_deviation)
        for _ in range(given.sweeps):
            Q = ials.solve_items(ials.item_sums(h, ials.user_step(h, Q, loss)), 1, loss)
        return {bank: ials.scores(Q, ials.user_step(own, Q, loss), users) for bank, own in banks.items()}
    if kind == "ease":
        G = sum(enough_pairs(ease.statistics(h), PAIRS)[0] for h in kept.values())
        B = ease.solve(G, enough_ridge(G, 20.0))
        return {bank: ease.scores(B, h, users) for bank, h in banks.items()}
    parts = []
    for h in kept.values():
        G, SS, ST = slist.statistics(h, slist.Decays())
        parts.append(enough_pairs(G, PAIRS, SS, ST * (slist.orders(h, slist.Decays()) >= PAIRS)))
    G, SS, ST = (sum(each) for each in zip(*parts, strict=True))
    B = slist.solve(G, SS, ST, enough_ridge(0.5 * G + 0.5 * SS, 20.0), 0.5)
    return {bank: slist.scores(B, h, users, 8.0) for bank, h in banks.items()}


def scored(kind, model, h):
    users = np.arange(h.users)
    if kind == "ials":
        return ials.scores(model["Q"], model["P"], users)
    return ease.scores(model["B"], h, users) if kind == "ease" else slist.scores(model["B"], h, users, 8.0)


def run(threads, kind, banks, name, **params):
    return threads(
        f"horizontal_{kind}", ROLES, inputs(banks), {**PARAMS, **MORE[kind], "epoch": name, **params}, run=name
    )


@pytest.mark.parametrize("protection", ["secagg", "paillier"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_top_list_is_that_of_the_pooled_model_of_the_same_statistics(threads, kind, protection):
    banks = {bank: own(bank) for bank in BANKS}
    outcome = run(threads, kind, banks, f"top-{kind}-{protection}"[:32], protection=protection, key_bits=2048)
    assert outcome.errors == {}
    for bank, expected in pooled(kind, banks).items():
        found = scored(kind, outcome.outputs[bank]["model"], banks[bank])
        np.testing.assert_allclose(found, expected, atol=1e-3)
        for ours, theirs in zip(found, expected, strict=True):
            ranked = np.argsort(-theirs, kind="stable")[:TOP]
            np.testing.assert_allclose(np.sort(-ours)[:TOP], -theirs[ranked], atol=1e-3)
            gaps = np.diff(-theirs[ranked]) > 2e-3  # places that are no ties
            same = np.argsort(-ours, kind="stable")[:TOP] == ranked
            assert np.all(same[1:-1] | ~(gaps[:-1] & gaps[1:]))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_shared_is_the_same_everywhere_and_what_few_people_have_is_in_no_sum(threads, kind):
    banks = {bank: own(bank) for bank in BANKS}
    outcome = run(threads, kind, banks, f"shared-{kind}")
    models = [outcome.outputs[bank]["model"] for bank in BANKS]
    common = "Q" if kind == "ials" else "B"
    for model in models[1:]:
        np.testing.assert_array_equal(model[common], models[0][common])
    rare = [i for i in range(ITEMS) if all(h.raters[i] < LEAST for h in banks.values())]
    assert rare
    assert not models[0][common][rare].any()


@pytest.mark.parametrize("kind", ["ease", "slist"])
def test_a_completed_copy_knows_the_own_rare_items_and_tells_nobody(threads, kind):
    banks = {bank: own(bank) for bank in BANKS}
    outcome = run(threads, kind, banks, f"completed-{kind}", complete=True)
    models = {bank: outcome.outputs[bank]["model"] for bank in BANKS}
    rare = [i for i in range(ITEMS) if 0 < banks["east"].raters[i] < LEAST]
    assert models["east"]["B"][rare].any()
    assert not np.array_equal(models["east"]["B"], models["north"]["B"])
    assert len({models[bank]["sum"].tobytes() for bank in BANKS}) == 1


def test_own_rows_of_ials_are_those_that_nobody_let_out_and_change_nothing_that_is_shared(threads):
    banks = {bank: own(bank) for bank in BANKS}
    outcome = run(threads, "ials", banks, "own-rows", complete=True)
    plain = run(threads, "ials", banks, "no-own-rows", epoch="other")
    model, bare = outcome.outputs["east"]["model"], plain.outputs["east"]["model"]
    np.testing.assert_array_equal(model["Q"], bare["Q"])
    assert not bare["Q_own"].any()
    rare = ~model["Q"].any(axis=1)
    assert not model["Q_own"][~rare].any()
    np.testing.assert_array_equal(model["Q_own"][rare].any(axis=1), banks["east"].raters[rare] > 0)
    assert [len(p.body) for p in outcome.parcels["east"]] == [len(p.body) for p in plain.parcels["east"]]
    # A person's factors are those of all rows, and a row is that of the own people who have the item.
    given = HorizontalIalsParams(**MORE["ials"])
    loss = ials.Loss(given.unobserved, given.reg, given.frequency)
    np.testing.assert_array_equal(model["P"], ials.user_step(banks["east"], model["Q"] + model["Q_own"], loss))
    rows = ials.solve_items(ials.item_sums(banks["east"], bare["P"]), 1, loss)
    np.testing.assert_array_equal(model["Q_own"][rare], rows[rare])


@pytest.mark.parametrize("kind", KINDS)
def test_statistics_leave_once_in_an_epoch_and_a_difference_of_two_nights_shows_a_history(threads, kind):
    banks = {bank: own(bank) for bank in BANKS}
    assert run(threads, kind, banks, f"night-1-{kind}", epoch=f"{kind}-1").errors == {}
    assert run(threads, kind, banks, f"night-1-again-{kind}", epoch=f"{kind}-1").errors == {}
    # One person more at south: without the rule the totals of two nights differ by its items.
    h = banks["south"]
    more = np.arange(5, dtype=np.int32)
    grown = Histories(np.append(h.user, np.full(5, 40, np.int32)), np.append(h.item, more), 41, ITEMS)
    if kind == "ease":
        before, after = (ease.statistics(each) for each in (h, grown))
        assert set(np.flatnonzero(np.diag(after - before))) == set(more)
    second = run(threads, kind, {**banks, "south": grown}, f"night-2-{kind}", epoch=f"{kind}-1")
    assert isinstance(second.errors["south"], ConsentError)
    assert not any(second.outputs.get(bank) for bank in BANKS)
    assert {parcel.header.name for parcel in second.parcels["south"]} <= {"advert"}  # a public key of the attempt
    assert run(threads, kind, {**banks, "south": grown}, f"month-2-{kind}", epoch=f"{kind}-2").errors == {}


def test_another_threshold_in_the_same_epoch_is_refused(threads):
    banks = {bank: own(bank) for bank in BANKS}
    assert run(threads, "ease", banks, "first", epoch="t").errors == {}
    outcome = run(threads, "slist", banks, "lower", epoch="t", min_pairs=2)
    assert any(isinstance(error, ConsentError) for error in outcome.errors.values())


def test_banks_with_different_catalogues_get_no_sum(threads):
    given = inputs({bank: own(bank) for bank in BANKS})
    given["south"]["ratings"]["items"] = pa.table({"item_id": [f"x{i:03}" for i in range(ITEMS)]})
    outcome = threads("horizontal_ease", ROLES, given, {**PARAMS, **MORE["ease"]}, run="catalogues")
    assert any(isinstance(error, SpecMismatch) for error in outcome.errors.values())
    assert not any(outcome.outputs.get(bank) for bank in BANKS)


@pytest.mark.parametrize(
    "wrong", [{"second_moments": False}, {"min_raters": 3}, {"embedding_size": 7, "min_raters": 28}]
)
def test_second_moments_of_few_people_or_over_few_items_are_refused_before_anything_is_summed(threads, wrong):
    banks = {bank: own(bank) for bank in BANKS}
    outcome = run(threads, "ials", banks, "-".join(wrong), **wrong)
    assert isinstance(outcome.errors["east"], DataError)
    assert "masked" not in [parcel.header.name for parcel in outcome.parcels["east"]]


def test_a_second_accord_over_the_same_catalogue_lets_nothing_out(threads):
    banks = {bank: own(bank) for bank in BANKS}
    assert run(threads, "ease", banks, "live").errors == {}
    folders = {bank: threads.folder / bank for bank in BANKS}
    for bank in BANKS:  # the secrets of another accord: its own folder beside what the party keeps for all accords
        shutil.move(folders[bank], folders[bank].with_suffix(".live"))
        folders[bank].mkdir()
        shutil.copytree(folders[bank].with_suffix(".live") / ".party", folders[bank] / ".party")
    try:
        outcome = run(threads, "ease", banks, "pilot")
        assert any(isinstance(error, ConsentError) for error in outcome.errors.values())
        assert not any(outcome.outputs.get(bank) for bank in BANKS)
    finally:
        for bank in BANKS:
            shutil.rmtree(folders[bank])
            shutil.move(folders[bank].with_suffix(".live"), folders[bank])
