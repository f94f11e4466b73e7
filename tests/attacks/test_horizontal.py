"""Attacks on horizontal training: each succeeds on a weakened setting and fails on the default (protocols.md, attacks).

The adversary is a bank: it follows the shared state V, reads the totals, and subtracts its own part.
"""

import numpy as np
import pytest

from base.errors import ConsentError, StateError
from components import horizontal_mf
from components.horizontal_mf import HorizontalMfParams
from components.secure_sum import SumParams, open_total, relay
from crypto.packing import Lanes

pytestmark = pytest.mark.data
ITEMS = 1682
DEFAULT = HorizontalMfParams(rounds=3)
# One gradient step a round as in FedMF, every row sent, in fine steps: nothing but the sum protects.
WEAK = DEFAULT.model_copy(update={"min_raters_per_item": 1, "local_epochs": 1, "batch_size": 10**6, "lane": 32})


def auc(scores, positive):
    """Area under the ROC curve by ranks; ties count half."""
    order = np.argsort(scores, kind="stable")
    values, ranks = scores[order], np.empty(len(scores))
    first, last = np.searchsorted(values, values, "left"), np.searchsorted(values, values, "right")
    ranks[order] = (first + last + 1) / 2
    n = positive.sum()
    return (ranks[positive].sum() - n * (n + 1) / 2) / (n * (len(scores) - n))


def two_steps(seen, parties, mean):
    """Chai et al. (2021), section 3.3, with biases: ratings of the one person behind two gradients, item -> rating.

    Δb = η(e − λb) shows e, Δq = η(e·p − λq) then shows p; how e changes from one step to the next shows b_u.
    """
    η, λ, found = seen.params.learning_rate, seen.params.reg, []
    for t in (0, 1):
        change, W = seen.change(t, parties)
        rows = np.flatnonzero(W > 0)
        V, ΔV = seen.before[t][rows], change[rows] / W[rows, None]
        e = ΔV[:, 0] / η + λ * V[:, 0]
        p = np.linalg.lstsq(e[:, None], ΔV[:, 1:] / η + λ * V[:, 1:], rcond=None)[0][0]
        found.append((seen.rows[t][rows], V, e, p))
    (items, V, e, p), (items_2, V_2, e_2, p_2) = found
    np.testing.assert_array_equal(items, items_2)
    explained = (V_2[:, 0] + V_2[:, 1:] @ p_2) - (V[:, 0] + V[:, 1:] @ p)
    step = np.mean(e - e_2 - explained)  # Δb_u = η(Σe − nλ b_u)
    η_u = min(η, 0.5 / len(e))  # how models.mf takes many steps of one row at once
    b_u = (e.sum() - step / η_u) / (len(e) * λ)
    return items, mean + b_u + V[:, 0] + V[:, 1:] @ p + e


def mean_of(banks):
    return float(np.mean(np.concatenate([rating for _, _, rating in banks.values()])))


def test_two_gradients_in_clear_show_a_person_s_ratings_and_released_sums_do_not(watched, three_banks):
    # A bank with one customer, whose parts the aggregator reads (no encryption).
    user, item, rating = three_banks["south"]
    person = np.argmax(np.bincount(user))
    mine = user == person
    banks = {**three_banks, "south": (np.zeros(mine.sum(), int), item[mine], rating[mine])}
    seen = watched(banks, ITEMS, WEAK)
    items, found = two_steps(seen, ("south",), mean_of(banks))
    truth = dict(zip(item[mine], rating[mine], strict=True))
    assert set(items) == set(truth)
    assert max(abs(r - truth[i]) for i, r in zip(items, found, strict=True)) < 0.05

    # The default: that bank sends nothing about its one customer.
    alone = watched(banks, ITEMS, DEFAULT)
    change, W = alone.change(0, ("south",))
    assert not change.any()
    assert not W.any()

    # The default with whole banks: the same recovery on the total less the own part says no more than item means do.
    seen = watched(three_banks, ITEMS, DEFAULT)
    items, found = two_steps(seen, ("north", "south"), mean_of(three_banks))
    mean = mean_of(three_banks)
    user, item, rating = three_banks["south"]
    known = np.isin(item, items)
    centred = found - found.mean() + mean  # an attacker that has noticed that there is no single b_u
    hits = max(
        np.mean(_whole(dict(zip(items, g, strict=True)), item[known]) == rating[known]) for g in (found, centred)
    )
    own_mean = _item_means(three_banks["east"], mean)
    baseline = np.mean(np.rint(own_mean[item[known]]) == rating[known])
    assert hits < baseline + 0.01  # .36 of ratings guessed by the item means that the attacker has anyway


def _whole(guess, item):
    return np.clip(np.rint([guess[i] for i in item]), 1, 5)


def _item_means(bank, mean):
    _, item, rating = bank
    count = np.bincount(item, minlength=ITEMS)
    return (np.bincount(item, rating, minlength=ITEMS) + 3 * mean) / (count + 3)


def test_a_row_of_one_customer_shows_that_customer_s_factors_and_the_default_has_no_such_row(watched, three_banks):
    seen = watched(three_banks, ITEMS, WEAK)
    change, W = seen.change(0, ("north", "south"))
    single = np.flatnonzero(W == 1)
    η, λ, V = WEAK.learning_rate, WEAK.reg, seen.before[0]
    e = change[single, 0] / η + λ * V[single, 0]
    p = (change[single, 1:] / η + λ * V[single, 1:]) / e[:, None]
    recovered = 0
    for row, factors in zip(single, p, strict=True):
        bank = next(b for b in ("north", "south") if row in three_banks[b][1])
        user, item, _ = three_banks[bank]
        start = seen.start(bank, int(user.max()) + 1)[user[item == row][0]]
        recovered += np.allclose(factors, start, atol=1e-4)
    assert len(single) > 100  # 137 items
    assert recovered == len(single)

    seen = watched(three_banks, ITEMS, DEFAULT)
    for t in range(DEFAULT.rounds):
        for bank in three_banks:
            change, w = seen.change(t, (bank,))
            assert w[w > 0].min() >= 10
            assert not change[w == 0].any()


def test_row_changes_show_what_one_person_rated_and_in_sums_they_show_popularity_alone(watched, three_banks):
    # One customer in the open: the rows that move are the items that were rated.
    user, item, rating = three_banks["south"]
    person = np.argsort(np.bincount(user))[-20]
    mine = user == person
    seen = watched({**three_banks, "south": (np.zeros(mine.sum(), int), item[mine], rating[mine])}, ITEMS, WEAK)
    change, _ = seen.change(0, ("south",))
    assert auc(np.linalg.norm(change, axis=1), np.isin(seen.rows[0], item[mine])) == 1.0

    # The default: rank items by how their rows moved in the total less east's part. South's people are in it,
    # east's are not; what the ranking tells about both alike is popularity.
    seen = watched(three_banks, ITEMS, DEFAULT)
    scores = np.zeros(ITEMS)
    for t in range(DEFAULT.rounds):
        change, _ = seen.change(t, ("north", "south"))
        scores[seen.rows[t]] += np.linalg.norm(change, axis=1)
    shared = seen.rows[-1]
    inside, outside = (_mean_auc(scores[shared], shared, three_banks[bank]) for bank in ("south", "east"))
    assert abs(inside - outside) < 0.02  # .739 and .733


def _mean_auc(scores, rows, bank):
    user, item, _ = bank
    found = []
    for person in np.unique(user):
        rated = np.isin(rows, item[user == person])
        if 20 <= rated.sum() <= len(rows) - 20:
            found.append(auc(scores, rated))
    return float(np.mean(found))


def test_a_start_from_the_run_seed_is_decoded_and_a_private_start_is_not(watched, three_banks):
    # A small bank: as many customers as there are equations for each item (k + 1).
    user, item, rating = three_banks["south"]
    people = np.argsort(np.bincount(user))[-17:]
    mine = np.isin(user, people)
    small = (np.searchsorted(np.sort(people), user[mine]), item[mine], rating[mine])
    banks = {**three_banks, "south": small}
    params = WEAK.model_copy(update={"min_raters_per_item": 10, "start_deviation": 0.1})

    def decode(shared_start):
        seen = watched(banks, ITEMS, params, shared_start=shared_start)
        change, w = seen.change(0, ("south",))
        rows = np.flatnonzero(w)
        # Σ_u e_ui [1 ; p_u] for each item, with the P_0 that the run seed gives.
        observed = (
            change[rows] / w[rows, None] / params.learning_rate + params.reg * w[rows, None] * seen.before[0][rows]
        )
        start = seen.start("south", 17, private=False)
        e = np.linalg.solve(np.column_stack([np.ones(17), start]).T, observed.T)  # (17, rows)
        truth = np.zeros((17, ITEMS), bool)
        truth[small[0], small[1]] = True
        return auc(np.abs(e).ravel(), truth[:, seen.rows[0][rows]].ravel())

    weak, private = decode(shared_start=True), decode(shared_start=False)
    assert weak > 0.99
    assert abs(private - 0.5) < 0.1  # .53


@pytest.mark.parametrize("protection", ["secagg", "paillier"])
def test_n_and_n_minus_one_show_the_missing_bank_and_a_second_sum_of_a_round_is_refused(
    watched, three_banks, threads, protection
):
    seen = watched(three_banks, ITEMS, DEFAULT)
    total = sum(seen.vectors[1].values())
    repeated = sum(vector for bank, vector in seen.vectors[1].items() if bank != "south")
    np.testing.assert_array_equal(total - repeated, seen.vectors[1]["south"])  # what a repeated round would give away

    # The default: neither in the same attempt, nor with another roster in the next one.
    roster = ("east", "north", "south", "west")
    layout, how = Lanes(16, 6, summands=4), SumParams(protection=protection, key_bits=2048)

    def once(ctx, params):
        return {"sum": open_total(ctx, how)(np.ones(3), layout, 0, bytes(32))}

    def twice(ctx, params):
        total = open_total(ctx, how)
        total(np.ones(3), layout, 0, bytes(32))
        return {"sum": total(np.ones(3), layout, 0, bytes(32))}

    def roles(banks):
        return {"data_holder": banks, "aggregator": ("bureau",)}

    def run(banks, role, attempt, name):
        functions = dict.fromkeys(banks, role) | {"bureau": lambda ctx, params: relay(ctx, how, range(1)) or {}}
        params = how.model_dump()
        return threads(
            horizontal_mf.COMPONENT,
            roles(banks),
            {},
            params,
            run=f"{name}-{protection}",
            attempt=attempt,
            functions=functions,
        )

    same = run(roster, twice, 1, "differencing-1")
    assert any(isinstance(error, StateError) for error in same.errors.values())
    assert run(roster, once, 1, "differencing-2").errors == {}
    fewer = run(roster[:3], once, 2, "differencing-2")
    assert any(isinstance(error, StateError | ConsentError) for error in fewer.errors.values())
    assert fewer.outputs.get("east") is None
