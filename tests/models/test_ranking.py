"""Ranks by hand and by a slow second implementation, and what each pool gives away."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.errors import DataError
from models import ranking
from models.histories import Histories


def histories(rows, users, items):
    user, item = np.array(rows, np.int32).reshape(-1, 2).T
    return Histories(user, item, users, items)


def test_ranks_by_hand():
    scores = np.array([
        [0.9, 0.5, 0.7, 0.1],  # positive 2 stands behind 0
        [0.5, 0.5, 0.5, 0.5],  # all alike: behind all rivals
        [0.1, 0.2, 0.3, 0.4],  # first, its own score is no rival
        [0.4, 0.3, 0.2, 0.1],  # 0 and 1 score more, but only 1 is a rival
    ])  # fmt: skip
    positive = np.array([2, 1, 3, 2])
    rivals = np.array([[1, 1, 0, 1], [1, 0, 1, 1], [1, 1, 1, 0], [0, 1, 0, 1]], bool)
    assert ranking.ranks(scores, positive, rivals).tolist() == [1, 3, 0, 1]


def test_a_score_that_is_no_number_is_never_to_the_good_of_the_positive():
    scores = np.array([[np.nan, 0.0, 1.0], [2.0, np.nan, 1.0], [np.inf, np.inf, 0.0]])
    rivals = np.array([[False, True, True], [False, True, True], [False, True, True]])
    assert ranking.ranks(scores, np.zeros(3, int), rivals).tolist() == [2, 1, 1]


def test_hits_and_gains_by_hand():
    rank = np.array([0, 1, 2, 9, 10, 500])
    assert ranking.hit_ratio(rank, 10).tolist() == [1, 1, 1, 1, 0, 0]
    assert ranking.ndcg(rank, 10).tolist() == pytest.approx([1, 0.6309297536, 0.5, 0.2890648263, 0, 0])
    assert ranking.hit_ratio(rank, 1).tolist() == [1, 0, 0, 0, 0, 0]


@given(st.integers(0, 2**32 - 1))
def test_ranks_and_gains_are_those_of_a_sorted_list(seed):
    rng = np.random.default_rng(seed)
    users, items, at = int(rng.integers(1, 6)), int(rng.integers(2, 12)), int(rng.integers(1, 6))
    scores = rng.integers(0, 4, (users, items)).astype(float)  # few values: many ties
    positive = rng.integers(0, items, users)
    rivals = ranking.without(rng.random((users, items)) < 0.7, positive)
    found = ranking.ranks(scores, positive, rivals)
    hits, gains = ranking.hit_ratio(found, at), ranking.ndcg(found, at)
    for u in range(users):
        listed = [(-scores[u][i], i == positive[u], i) for i in range(items) if rivals[u][i] or i == positive[u]]
        shown = [i for _, _, i in sorted(listed)]  # the best first; of equal ones the positive last
        assert hits[u] == (positive[u] in shown[:at])
        place = shown.index(positive[u]) + 1
        assert gains[u] == pytest.approx(1 / math.log2(1 + place) if place <= at else 0)


TRAIN = [(0, 0), (0, 1), (1, 2), (2, 5)]
HELD_OUT = np.array([[2, ranking.NONE, 0], [3, ranking.NONE, 4]])  # validation, test


def test_what_is_in_each_pool():
    train, users = histories(TRAIN, 3, 6), np.array([0, 1, 2])
    clean = ranking.source("clean", train, HELD_OUT, users)
    assert [set(np.flatnonzero(row)) for row in clean] == [{2, 3, 4, 5}, {0, 1, 3, 4, 5}, {0, 1, 2, 3, 4}]
    official = ranking.source("official", train, HELD_OUT, users)
    assert [set(np.flatnonzero(row)) for row in official] == [{4, 5}, {0, 1, 3, 4, 5}, {1, 2, 3}]
    assert (ranking.source("isolate", train, HELD_OUT, users) == official).all()
    assert (ranking.source("official", train, HELD_OUT, users[1:2]) == official[1:2]).all()


def test_training_leaves_out_the_candidates_under_isolate_alone():
    free, drawn = np.array([[True, True, False, True]]), np.array([[True, False, False, False]])
    assert ranking.training_source("isolate", free, drawn).tolist() == [[False, True, False, True]]
    assert ranking.training_source("official", free, drawn).tolist() == free.tolist()
    assert ranking.training_source("clean", free, drawn).tolist() == free.tolist()


def test_the_positive_is_no_rival_of_itself():
    free = np.ones((2, 3), bool)
    assert ranking.without(free, np.array([2, 0])).tolist() == [[True, True, False], [False, True, True]]
    assert free.all()


def test_candidates_are_rivals_in_the_number_asked_for_and_all_equally_likely():
    rivals = np.random.default_rng(1).random((20_000, 12)) < 0.8
    rivals[:, 0], rivals[:, 1:5] = False, True
    drawn = ranking.candidates(np.random.default_rng(2), rivals, 4)
    assert (drawn.sum(axis=1) == 4).all()
    assert not (drawn & ~rivals).any()
    full = drawn[rivals[:, 1:].all(axis=1)]
    share = full[:, 1:].mean(axis=0)
    assert np.abs(share - 4 / 11).max() < 5 * math.sqrt((4 / 11) * (7 / 11) / len(full))


def test_more_candidates_than_rivals_are_refused():
    rivals = np.array([[True, True, True], [True, True, False]])
    assert ranking.candidates(np.random.default_rng(1), rivals, 2).sum() == 4
    with pytest.raises(DataError, match="too few others"):
        ranking.candidates(np.random.default_rng(1), rivals, 3)


def test_every_user_with_a_held_out_item_is_in_one_block_and_blocks_do_not_change_the_draw(monkeypatch):
    held_out = np.array([3, ranking.NONE, 1, 0, ranking.NONE, 4, 2])
    parts = np.array([np.where(np.arange(7) < 3, ranking.NONE, held_out), held_out])
    rivals = ranking.without(np.ones((5, 8), bool), held_out[held_out >= 0])
    whole = ranking.candidates(np.random.default_rng(1), rivals, 3)
    assert [block.tolist() for block in ranking.blocks(parts, 8)] == [[0, 2, 3, 5, 6]]
    monkeypatch.setattr(ranking, "CELLS", 16)
    assert [block.tolist() for block in ranking.blocks(parts, 8)] == [[0, 2], [3, 5], [6]]
    rng = np.random.default_rng(1)
    drawn = [ranking.candidates(rng, rivals[a:b], 3) for a, b in ((0, 2), (2, 4), (4, 5))]
    np.testing.assert_array_equal(np.concatenate(drawn), whole)
    monkeypatch.setattr(ranking, "CELLS", 1)
    assert len(ranking.blocks(parts, 8)) == 5  # one user at least


def test_held_out_items_are_one_of_a_user():
    assert ranking.held_out_items(np.array([2, 0]), np.array([7, 8]), 4).tolist() == [8, -1, 7, -1]
    with pytest.raises(DataError, match="leave-one-out"):
        ranking.held_out_items(np.array([2, 2]), np.array([7, 8]), 4)


@pytest.mark.parametrize(
    ("pool", "least", "most"), [("official", 0.99, 1), ("clean", 0.07, 0.13), ("isolate", 0.07, 0.13)]
)
def test_who_remembers_negatives_of_training_alone_finds_the_answer_in_the_official_pool_only(pool, least, most):
    """HR@10 of a "model" that knows no preference: chance is 10 of 100; of 1000 people 3σ are .028."""
    users, items, rng = np.arange(1000), 250, np.random.default_rng(3)
    had = np.argsort(rng.random((1000, items)), axis=1)[:, :22]
    train = histories([(u, i) for u in users for i in had[u, 2:]], 1000, items)
    held_out = had[:, :2].T  # validation, test; tastes do not exist
    free = ranking.source(pool, train, held_out, users)
    drawn = ranking.candidates(rng, ranking.without(free, held_out[1]), 99)
    trained = ranking.training_source(pool, free, drawn)
    met = trained & (rng.random(trained.shape) < 0.999)  # 4 negatives an item in 20 epochs meet nearly all of a pool
    scores = ~met + 1e-6 * rng.random(met.shape)
    found = ranking.hit_ratio(ranking.ranks(scores, held_out[1], drawn), 10).mean()
    assert least <= found <= most
