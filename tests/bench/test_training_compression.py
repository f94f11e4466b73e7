"""Compression, slow banks and large data in the benchmark of training, on made-up ratings of small size."""

import itertools
import json

import numpy as np
import pyarrow as pa
import pytest

import bench.training_large
from base.canonical import digest
from bench.sets import BANKS
from bench.training_compression import ARMS, DENSE, TOP, Curves, Plan, compression, earlier, rmse, until
from bench.training_curve import page, picture
from bench.training_large import Large, drawn, large
from bench.training_open import Split, top, trained
from bench.training_run import Trainer, generated
from bench.training_slow import Paces, paces

ITEMS = 40
SETTINGS = {"embedding_size": 4, "rounds": 4, "local_epochs": 1, "min_raters_per_item": 2}


@pytest.fixture(scope="module")
def found():
    tables, ids = {}, [f"{i:02}" for i in range(ITEMS)]
    for bank, share in generated(90, ITEMS, 2500).items():
        rows = pa.table({"user": share.user, "item": share.item, "rating": share.rating})
        tables[bank] = {"train": rows.slice(200), "validation": rows.slice(0, 100), "test": rows.slice(100, 100)}
        tables[bank] |= {"users": pa.table({"user_id": [f"{u}" for u in range(share.users)]})}
        tables[bank] |= {"items": pa.table({"item_id": ids})}
    return Split(tables, {"mean": 3.0, "catalogue": digest(ids)})


def test_bytes_follow_from_lanes_and_rows(found):
    dense = trained(found, SETTINGS, 1)
    short = trained(found, {**SETTINGS, "row_share": 0.5, "lane": 8}, 1)
    assert dense.a_round == 2 * 3 * dense.values * 2
    assert abs(4 * short.a_round - dense.a_round) <= 4 * 6 * 5  # half of the rows, to a whole one, and half of the bits
    assert dense.dense == {"shared": 2 * dense.a_round, "all": 2 * 3 * 4 * 5 * ITEMS}
    for curve in (dense, short):
        assert len(curve.bytes) == len(curve.rmse["test"]) == 4
        assert set(np.diff(curve.bytes)) == {curve.a_round}
        assert all(1 < each < 2 for part in curve.rmse.values() for each in part)  # ratings of 1 to 5 at random


def test_a_bank_that_sends_its_largest_values_sends_the_others_later(found):
    settings = {**SETTINGS, "lane": 32, "rounds": 2}
    own, dense = trained(found, settings, 1, own_top=True), trained(found, settings, 1)
    assert own.a_round == 3 * top(own.values) * 8 * 4
    assert own.rmse["test"] != dense.rmse["test"]
    assert abs(own.rmse["test"][-1] - dense.rmse["test"][-1]) < 0.2


def curves(plan, **rounds):
    """Curves that fall by .1 a round from 1.2; an arm of `rounds` takes as many to start."""
    found = {}
    for n, arm in enumerate(plan.arms):
        falls = [1.2 - 0.1 * max(0, t - rounds.get(arm, 0)) for t in range(8)]
        document = {"rmse": {"test": falls, "validation": falls}, "bytes": [100 // (n + 1) * t for t in range(1, 9)]}
        document |= {"a_round": 100 // (n + 1), "values": 10, "shared": 5, "items": 10, "at_limit": 0}
        found |= {(plan.data, arm, seed): document for seed in plan.seeds}
    documents = [{"data": d, "arm": a, "seed": s, "params": ARMS[a], **c} for (d, a, s), c in found.items()]
    return Curves(found=earlier(documents))


JUDGED = "30% of rows in turn, 10 bits"
PLAN = Plan("small", (1, 2), 8, tuple(ARMS), (JUDGED,), 0.002, 0.91)


def test_an_arm_is_judged_by_its_bytes_and_by_what_it_loses():
    cases = {(case.name, case.peer): case for case in compression(curves(PLAN, **{JUDGED: 1}), [PLAN])}
    above = cases[f"small, {JUDGED}: RMSE above dense, 16 bits", "limit of 0.002"]
    assert above.ours() == pytest.approx(0.1)
    assert above.target == "<= 1"
    assert cases[f"small, {JUDGED}: a round", "float32, all items"].theirs() == 480 / 1e6
    assert cases[f"small, {JUDGED}: a round", "float32, the same rows"].theirs() == 240 / 1e6
    spent = cases[f"small, {JUDGED}: until RMSE 0.91", "float32, the same rows"]
    assert spent.ours() == pytest.approx(5 * 25 / 1e6)
    assert spent.theirs() == pytest.approx(4 * 240 / 1e6)
    assert cases[f"small, {TOP}: a round", "float32, all items"].target is None
    assert f"small, {DENSE}: RMSE above dense, 16 bits" not in {name for name, _ in cases}


def test_an_arm_that_never_gets_there_meets_no_limit():
    assert until(curves(PLAN, **{JUDGED: 9}), PLAN, JUDGED, float32=False) == np.inf


def test_trainings_of_another_setting_are_made_again():
    known = curves(PLAN).documents
    assert len(earlier(known)) == len(known) == 2 * len(ARMS)
    assert earlier([{**each, "params": {"lane": 24}} for each in known]) == {}


def test_the_page_and_the_picture_show_every_arm(tmp_path, monkeypatch):
    monkeypatch.setattr("bench.training_curve.PLANS", (PLAN,))
    found = curves(PLAN)
    picture(found, tmp_path / "training.png", PLAN)
    assert (tmp_path / "training.png").read_bytes().startswith(b"\x89PNG")
    text = page(found)([])
    assert all(arm in text for arm in ARMS)
    assert f"{rmse(found.of(PLAN, TOP, 1)):.4f} ± 0.0000" in text


def test_one_bank_waits_four_times_as_long_as_its_steps_take(found, monkeypatch):
    waited = []
    monkeypatch.setattr("bench.training_slow.time.sleep", waited.append)
    slow = Paces(found, {**SETTINGS, "rounds": 3, "speed": True})
    for case in paces(slow, "small"):
        assert case.theirs() > 0
        assert case.ours() > 0
    assert len(waited) == 2 * 3  # with and without speed
    assert min(waited) > 0
    told = [(each["slow"], each["speed"]) for each in slow.documents]
    assert told == [(False, True), (True, True), (False, True), (True, False)]
    assert all(1 < each["test rmse"] < 2 for each in slow.documents)


def test_drawn_ratings_have_the_marginals_of_the_source_and_no_pair_twice():
    like = generated(90, ITEMS, 2500)
    shares = drawn(300, 6000, like)
    assert set(shares) == set(BANKS)
    old = np.bincount(np.concatenate([share.item for share in like.values()]), minlength=ITEMS) / 2500
    new = np.bincount(np.concatenate([share.item for share in shares.values()]), minlength=ITEMS) / 6000
    assert np.corrcoef(old, new)[0, 1] > 0.7
    for share in shares.values():
        assert 1800 < len(share.rating) <= 2000  # of so few items pairs come again often
        assert share.users == 100
        assert len(np.unique(share.user.astype(np.int64) * ITEMS + share.item)) == len(share.rating)


@pytest.mark.node
def test_the_large_training_tells_memory_by_round(tmp_path, monkeypatch):
    monkeypatch.setattr(bench.training_large, "shared_out", lambda name: ("made up", generated(90, ITEMS, 2500)))
    found = Large(Trainer(tmp_path), 300, 6000)
    memory, clock, cpu = large(found)
    assert 0 < memory.theirs() <= memory.ours() < 3
    assert min(clock.ours(), cpu.ours()) > 0
    told = json.loads(json.dumps(found.header))["large"]
    assert [len(sizes) for sizes in told["run"]["memory"].values()] == [3, 3, 3]
    assert all(a <= b for sizes in told["run"]["memory"].values() for a, b in itertools.pairwise(sizes))
