import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_histories import as_lists, bank_histories, histories

from models import ease, slist
from models.slist import Decays
from models.thresholds import completed, enough_pairs, enough_raters, expected_counts

LEAST = st.integers(1, 4)


def test_by_hand():
    h = enough_raters(histories([[0, 1, 2], [2, 0], [1, 2], [2]], 4), 3)
    assert as_lists(h) == [[2], [2], [2], [2]]
    G = np.array([[9.0, 2, 3], [2, 1, 0], [3, 0, 5]])
    one, other = enough_pairs(G, 3, np.full((3, 3), 0.5))
    np.testing.assert_array_equal(one, [[9, 0, 3], [0, 1, 0], [3, 0, 5]])
    np.testing.assert_array_equal(other, [[0.5, 0, 0.5], [0, 0.5, 0], [0.5, 0, 0.5]])
    np.testing.assert_array_equal(G[0], [9, 2, 3])


def released(banks, raters, pairs):
    """Return the sums over the banks of what each lets out."""
    total = None
    for h in banks:
        own = enough_pairs(*_with(pairs, slist.statistics(enough_raters(h, raters), Decays(2, 3))))
        total = own if total is None else tuple(a + b for a, b in zip(total, own, strict=True))
    return total


def _with(pairs, statistics):
    G, SS, ST = statistics
    return G, pairs, SS, ST


def slow(banks, raters, pairs):
    """Return the same sums person by person over everyone, each pair asked whether its person's bank lets it out."""
    items = banks[0].items
    G, SS, ST = np.zeros((3, items, items))
    for bank in map(as_lists, banks):
        kept = [[i for i in own if sum(i in other for other in bank) >= raters] for own in bank]
        for own in kept:
            for q, j in enumerate(own):
                for p, i in enumerate(own[: q + 1]):
                    if i != j and sum(i in other and j in other for other in kept) < pairs:
                        continue
                    past = sum(np.exp(-(2 * τ - p - q) / 2) for τ in range(q, len(own) - 1))
                    future = sum(np.exp(-(τ - p) / 2 - (q - τ - 1) / 3) for τ in range(p, q))
                    G[i, j] += 1
                    SS[i, j] += past
                    ST[i, j] += future
                    if i != j:
                        G[j, i] += 1
                        SS[j, i] += past
    return G, SS, ST


@settings(deadline=None)
@given(bank_histories(max_users=8), LEAST, LEAST)
def test_models_of_the_summed_releases_are_the_pooled_models_of_the_same_statistics(banks, raters, pairs):
    found, expected = released(banks, raters, pairs), slow(banks, raters, pairs)
    np.testing.assert_array_equal(found[0], expected[0])
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)
    np.testing.assert_array_equal(ease.solve(found[0], 200), ease.solve(expected[0], 200))
    np.testing.assert_allclose(slist.solve(*found, 200, 0.5), slist.solve(*expected, 200, 0.5), atol=1e-9)


@settings(deadline=None)
@given(bank_histories(max_users=8), LEAST, LEAST)
def test_nothing_leaves_that_is_of_few_people(banks, raters, pairs):
    for h in banks:
        G, SS, ST = released([h], raters, pairs)
        off = ~np.eye(h.items, dtype=bool)
        assert np.all((G == 0) | (least(off, raters, pairs) <= G))
        assert not SS[G == 0].any()
        assert not ST[G == 0].any()


def least(off, raters, pairs):
    return np.where(off, pairs, raters)


def test_what_was_withheld_is_put_back_by_hand():
    total = np.array([[30.0, 9, 0], [9, 20, 0], [0, 0, 0]])
    own = np.array([[12.0, 2, 1], [2, 11, 3], [1, 3, 6]])
    released = np.array([[12.0, 0, 0], [0, 11, 0], [0, 0, 0]])
    (found,) = completed((total,), (own,), (released,), 0.5)
    np.testing.assert_array_equal(found, [[30, 11, 2], [11, 20, 6], [2, 6, 12]])


@settings(deadline=None)
@given(bank_histories(max_users=8), LEAST, LEAST)
def test_a_party_alone_completes_to_what_it_has(banks, raters, pairs):
    own = slist.statistics(banks[0], Decays(2, 3))
    out = released(banks[:1], raters, pairs)
    for one, other in zip(completed(out, own, out, 1.0), own, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_what_others_withheld_is_expected_by_hand():
    """Own people are a quarter, so each of the three others has as many; least 3: they hold 0, 1 or 2 of a pair."""
    own = np.array([[20.0, 4, 0], [4, 10, 2], [0, 2, 5]])
    theirs = np.array([[50.0, 7, 0], [7, 30, 20], [0, 20, 0]])
    found = expected_counts(own + theirs, own, own, 0.25, 3, 3)
    chance = 12 / (2 * (200 + 100 + 50))

    def one(a, b, count):  # E[c | c < 3] of a Poisson number
        m = (count + chance * a * b) / 2
        return (m + m**2) / (1 + m + m**2 / 2)

    expected = own + theirs
    expected[0, 1] += one(20, 10, 4)  # 7 of 3 or more each: at least one of the three let nothing out
    expected[0, 2] += 3 * one(20, 5, 0)
    expected[2, 2] += 15  # nobody let the item out: the own people stand for all
    expected[1, 0], expected[2, 0] = expected[0, 1], expected[0, 2]
    np.testing.assert_allclose(found, expected)


def test_a_pair_of_many_own_people_is_one_that_the_silent_almost_let_out():
    own = np.array([[9000.0, 8000.0], [8000.0, 9000.0]])
    total = own * np.eye(2)
    found = expected_counts(total, own, total, 0.1, 4, 10)
    assert found[0, 1] == pytest.approx(8000 + 4 * 9, abs=1)


@settings(deadline=None)
@given(bank_histories(max_users=8), LEAST, LEAST)
def test_expectation_adds_to_what_is_known_and_takes_nothing_away(banks, raters, pairs):
    own = ease.statistics(banks[0])
    (out, *_), (total, *_) = released(banks[:1], raters, pairs), released(banks, raters, pairs)
    share = banks[0].users / max(sum(h.users for h in banks), 1) or 1.0
    found = expected_counts(total, own, out, share, max(len(banks) - 1, 1), pairs)
    known, off = own + total - out, ~np.eye(len(own), dtype=bool)
    assert np.all(found >= known)
    assert np.all((found - known)[off] <= (len(banks) - 1) * (pairs - 1) + 1e-9)
    np.testing.assert_array_equal(found, found.T)


def test_it_is_nearer_to_the_truth_than_the_own_people_standing_for_all():
    rng = np.random.default_rng(1)
    chance = 0.5 / np.arange(1, 61) ** 0.7
    rows = [[np.flatnonzero(rng.random(60) < chance).tolist() for _ in range(120)] for _ in range(3)]
    banks = [histories(lists, 60) for lists in rows]
    truth, own = sum(ease.statistics(h) for h in banks), ease.statistics(banks[0])
    (out, *_), (total, *_) = released(banks[:1], 5, 4), released(banks, 5, 4)
    (before,) = completed((total,), (own,), (out,), 1 / 3)
    after, off = expected_counts(total, own, out, 1 / 3, 2, 4), ~np.eye(60, dtype=bool)
    assert np.square(after - truth)[off].sum() < 0.6 * np.square(before - truth)[off].sum()
