"""Attacks on sums of item statistics: whole histories without thresholds and epochs, and what is left with them.

The adversary is east, one of three banks of MovieLens-100K: it runs the step as it should, reads the totals, and takes
its own part off. What it reads has crossed under `secagg`, but for settings of iALS that its step refuses; models are
not computed where nobody looks.
"""

import numpy as np
import pyarrow as pa
import pytest
from item_attacks import (
    chains,
    cliques,
    gram_from_weights,
    history_of,
    lone_orders,
    membership,
    newcomers,
    one_more,
    peeled,
    shared_raters,
)
from scipy.stats import mannwhitneyu

from base.errors import ConsentError, DataError
from components import horizontal_ials, masked_sum, released_statistics
from components.horizontal_ials import HorizontalIalsParams
from models import ease, ials, slist
from models.histories import Histories
from models.symmetric import enough_ridge, from_upper
from models.thresholds import enough_raters

pytestmark = pytest.mark.data
BANKS, ITEMS, PEOPLE = ("east", "north", "south"), 1682, 943
ROLES = {"data_holder": BANKS, "aggregator": ("bureau",)}
FOREIGN = BANKS[1:]
LOSS = ials.Loss()
OPEN = {"min_raters": 1, "min_pairs": 1}  # the weakened setting: nothing is left out


@pytest.fixture(scope="module")
def banks(accord_data):
    """MovieLens-100K as the histories of three banks, in the order of time."""
    user, item, _, when = np.loadtxt(accord_data / "ml-100k" / "u.data.gz", dtype=np.int64).T
    tie = np.random.default_rng(3).permutation(ITEMS)
    order = np.lexsort((tie[item - 1], when, user))
    user, item = (user[order] - 1).astype(np.int32), (item[order] - 1).astype(np.int32)
    everybody = Histories(user, item, PEOPLE, ITEMS)
    bank = np.random.default_rng(7).permutation(np.arange(PEOPLE) % 3)
    return {party: everybody.take(np.flatnonzero(bank == n)) for n, party in enumerate(BANKS)}


@pytest.fixture(scope="module")
def night(threads, banks):
    """`night(kind, name, histories, **params)` runs one step; it returns the outcome and what east read of each sum.

    That is [(total, total less east's own part)]. Nothing is solved: who has the totals has the model.
    """
    inner = masked_sum.Summer.total

    def run(kind, name, histories=banks, **params):
        read = []

        def total(self, values, lanes, round_number, bound, name="vector"):
            found = inner(self, values, lanes, round_number, bound, name)
            if self._ctx.party == "east":
                own = np.ldexp(lanes.quantise(values.ravel()).astype(float), -lanes.fraction)
                read.append((found.astype(float), found - own))
            return found

        with pytest.MonkeyPatch.context() as m:
            m.setattr(masked_sum.Summer, "total", total)
            m.setattr(horizontal_ials, "_alone", lambda h, Q, params, loss: Q)
            m.setattr(ease, "solve", lambda G, reg: G[:0])
            m.setattr(slist, "solve", lambda G, SS, ST, reg, α: G[:0])
            outcome = threads(f"horizontal_{kind}", ROLES, _inputs(histories), {"epoch": name} | params, run=name)
        return outcome, read

    return run


@pytest.fixture(scope="module")
def open_sum(night):
    """(total, foreign part) of G in the weakened setting: nothing is left out."""
    return night("ease", "open", **OPEN)[1][0]


@pytest.fixture(scope="module")
def default_sum(night):
    """(total, foreign part) of G by the defaults."""
    return night("ease", "default")[1][0]


def _inputs(histories):
    items = pa.table({"item_id": [f"{i:05}" for i in range(ITEMS)]})
    return {
        bank: {
            "ratings": {
                "train": pa.table({"user": h.user, "item": h.item, "rating": np.ones(len(h), np.float32)}),
                "users": pa.table({"user_id": [f"{bank}{u}" for u in range(h.users)]}),
                "items": items,
            }
        }
        for bank, h in histories.items()
    }


def _sets(banks, parties, least=1):
    """Return the people's items at the parties, without items of fewer than `least` raters at a party."""
    kept = [enough_raters(banks[party], least) for party in parties]
    return [frozenset(one.tolist()) for h in kept for one in np.split(h.item, h.start[1:-1])]


def _gram(vector):
    return np.rint(from_upper(vector[: ITEMS * (ITEMS + 1) // 2], ITEMS)).astype(int)


def _overlap(found, people):
    """Return the largest Jaccard index between something found and somebody."""
    return max(len(one & other) / len(one | other) for one in found for other in people)


def test_histories_come_off_a_gram_matrix_and_none_comes_off_the_default(open_sum, default_sum, banks):
    # Weakened: no thresholds. Peeled: 628 of 628 foreign people, 873 of all 943 from the total that everybody sees.
    total, foreign = map(_gram, open_sum)
    people = set(_sets(banks, FOREIGN))
    assert len(people & set(peeled(foreign))) == len(people) == 628
    assert len(set(_sets(banks, BANKS)) & set(peeled(total))) == 873
    # 100 cliques around pairs that one person has: all of them histories.
    assert set(cliques(foreign, 1)) <= people

    # The default: no item has fewer than 10 raters, nothing comes off, and of 100 cliques none is a history, nor what
    # a bank kept of one.
    total, foreign = map(_gram, default_sum)
    assert peeled(foreign) == peeled(total) == []
    found, kept = cliques(foreign, 3), _sets(banks, FOREIGN, 10)
    assert not set(found) & (people | set(kept))
    # What comes nearest to somebody in the sum is no reading (above .8): .72, against .60 for east, who is not in it.
    assert _overlap(found, kept) < 0.8


def test_the_model_gives_the_gram_matrix_back_and_no_more_than_that(open_sum, default_sum):
    # Weakened: B alone gives G to the last unit, and with it the 873 histories. λ is public.
    G = _gram(open_sum[0])
    found = np.rint(gram_from_weights(_weights(open_sum[0]), 1)).astype(int)
    np.fill_diagonal(found, found.diagonal() - 500)
    np.testing.assert_array_equal(found, G)

    # The default: B gives back the sum that left, from which nothing comes off.
    G = _gram(default_sum[0])
    found = np.rint(gram_from_weights(_weights(default_sum[0]), 3)).astype(int)
    np.fill_diagonal(found, G.diagonal())
    np.testing.assert_array_equal(found, G)
    assert peeled(found) == []


def _weights(total):
    """Return B as every bank solves it without `complete`."""
    G = from_upper(total[: ITEMS * (ITEMS + 1) // 2], ITEMS)
    return ease.solve(G, enough_ridge(G, 500.0))


def _come(banks, people, seed=2):
    """Return the banks before `people` of south came, and who came."""
    south = banks["south"]
    new = np.random.default_rng(seed).permutation(south.users)[:people]
    h, before = south.take(new), south.take(np.setdiff1d(np.arange(south.users), new))
    return {**banks, "south": before}, [frozenset(one.tolist()) for one in np.split(h.item, h.start[1:-1])]


def _read(found, people):
    """Return how many people something found shows: a Jaccard index above .8 with the whole history."""
    return sum(any(len(one & other) > 0.8 * len(one | other) for one in found) for other in people)


def test_the_difference_of_two_nights_is_who_came_and_an_epoch_has_one_night(night, banks, monkeypatch):
    before, (person,) = _come(banks, 1)
    _, [(_, first)] = night("ease", "night-1", before, epoch="nights")
    # The default: the second night is refused at the bank whose people changed; nothing leaves it.
    outcome, read = night("ease", "night-2", epoch="nights")
    assert isinstance(outcome.errors["south"], ConsentError)
    assert {p.header.name for p in outcome.parcels["south"]} <= {"advert"}  # a public key
    assert read == []
    # Weakened: the rule off, thresholds as they are. The diagonal shows that person's items, 93 % of them and no other.
    monkeypatch.setattr(released_statistics, "_once", lambda *args: None)
    _, [(_, second)] = night("ease", "night-3", epoch="nights")
    shown = set(np.flatnonzero(_gram(second - first).diagonal()))
    assert shown <= person
    assert len(shown) > 0.85 * len(person)


def test_two_epochs_hide_people_among_those_who_came_between_them_and_not_by_thresholds(night, default_sum, banks):
    """What an epoch is worth, stated: thresholds hold for a release and not for the difference of two."""
    after = default_sum[1]
    read = {}
    for people in (10, 35, 100):
        before, came = _come(banks, people)
        _, [(_, first)] = night("ease", f"month-{people}", before)
        read[people] = _read(newcomers(_gram(after - first)), came)
    # By their rows alone, whole histories: 7 of 10 who came between two releases, 14 of 35, 2 of 100 (a third of
    # the bank). So an epoch is as long as it takes for many people to come, whatever the thresholds.
    assert read[10] >= 5
    assert read[35] >= 10
    assert read[100] <= 5


def test_the_order_of_one_person_stands_in_st_and_no_history_does(night, banks):
    half, decays, unit = ITEMS * (ITEMS + 1) // 2, slist.Decays(), 2.0**-16
    past, future = (np.exp(-np.arange(60) / δ) for δ in (decays.past, decays.future))
    between = np.convolve(past, future)[:60]

    # Weakened: no thresholds. An item that one person had shows how far before and after it all others come.
    _, [(_, foreign)] = night("slist", "open-st", **OPEN)
    D = lone_orders(foreign[2 * half : -1].reshape(ITEMS, ITEMS), between, unit)
    raters = sum(banks[bank].raters for bank in FOREIGN)
    right = [_ordered(banks, i, D) for i in np.flatnonzero(raters == 1)]
    assert len(right) == 137  # items
    assert all(right)

    # The default: pairs of three people and more, of which one order may be a single person's. East reads how many
    # places lie between such items, of somebody.
    _, [(_, foreign)] = night("slist", "default-st")
    G, ST = _gram(foreign), foreign[2 * half : -1].reshape(ITEMS, ITEMS)
    D = np.where((G >= 3) & (G <= 9), lone_orders(ST, between, unit), np.nan)
    places, pairs = _places(banks), np.argwhere(D > 0)
    sample = np.random.default_rng(1).permutation(pairs)[:1000]
    true = np.mean([_somebody(places, pair, [0, D[tuple(pair)]]) for pair in sample])
    # The price of a threshold that counts both orders as one (protocols.md): 39,400 pairs, .996 of them right.
    assert len(pairs) * true < 41_000
    # A fragment of one person that fits together has at most six items; nobody's history, nor what a bank kept of it.
    grown = [len(items) for items, at in chains(D, 3000, np.random.default_rng(0)) if _somebody(places, items, at)]
    assert max(grown) <= 6


def _ordered(banks, i, D):
    """Tell whether row and column i of D hold the person's items around i at their true distances."""
    h = next(banks[bank] for bank in FOREIGN if banks[bank].raters[i])
    person = h.user[h.item == i][0]
    items = h.item[h.start[person] : h.start[person + 1]]
    away = np.arange(len(items)) - np.flatnonzero(items == i)[0]
    near = (np.abs(away) <= 40) & (away != 0)
    told = np.where(away > 0, D[i, items], -D[items, i])
    return np.array_equal(told[near], away[near])


def _places(banks):
    """Return the place of each item in each foreign history as its bank kept it, NaN where it is not."""
    kept = [enough_raters(banks[bank], 10) for bank in FOREIGN]
    places = [np.full((h.users, ITEMS), np.nan) for h in kept]
    for h, place in zip(kept, places, strict=True):
        place[h.user, h.item] = np.arange(len(h)) - h.start[h.user]
    return np.concatenate(places)


def _somebody(places, items, at):
    """Tell whether one person has these items at these places, seen from the first."""
    own = places[:, items] - places[:, items[:1]]
    return bool(np.any(np.all(own == np.asarray(at) - at[0], axis=1)))


def _trained(banks, least, d, sweeps):
    """Return [(Q that a sweep started from, foreign item sums)] of every sweep, in fixed point of 16 bits.

    Without a step, which would refuse such thresholds and dimensions.
    """
    read, Q = [], np.random.default_rng(1).normal(0.0, 0.1 / np.sqrt(d), (ITEMS, d))
    kept = {bank: enough_raters(h, least) for bank, h in banks.items()}
    for _ in range(sweeps):
        sums = {bank: ials.item_sums(h, ials.user_step(h, Q, LOSS)) for bank, h in kept.items()}
        whole = {bank: np.ldexp(np.rint(np.ldexp(one, 16)), -16) for bank, one in sums.items()}
        read.append((Q, sum(whole[bank] for bank in FOREIGN)))
        Q = ials.solve_items(sum(whole.values()), d, LOSS)
    return read


def _owners(banks, sweep, least, factors):
    """Return for each of ±p whose factors it is within 2 %, a person's number or None."""
    kept = [enough_raters(banks[bank], least) for bank in FOREIGN]
    P = np.concatenate([ials.user_step(h, sweep[0], LOSS) for h in kept])
    length, found = np.linalg.norm(P, axis=1), []
    for p in factors:
        away = np.minimum(np.linalg.norm(P - p, axis=1), np.linalg.norm(P + p, axis=1))
        nearest = int(np.argmin(away))
        found.append(nearest if away[nearest] < 0.02 * length[nearest] else None)
    return found


def test_an_item_of_one_rater_shows_that_person_s_factors(banks):
    # Weakened: no threshold. Σ p of an item with one rater is p_u, of all 137 such items; and 1,144 pairs of items show
    # that one has the other's raters and one more.
    sweep = _trained(banks, 1, 32, 2)[1]
    sums, single = sweep[1], np.flatnonzero(np.rint(sweep[1][:-1, -1]) == 1)
    assert len(single) == 137
    assert None not in _owners(banks, sweep, 1, sums[single, -33:-1])
    assert len(one_more(sums, 32)) > 0


def test_items_with_fewer_raters_than_factors_have_dimensions_show_who_shares_them(banks):
    # Weakened: 32 dimensions, 10 raters. Σ p pᵀ of two items with 10 to 22 raters meet in the one person who had both:
    # the factors of 159 of 628 people, 96 % of what is found right.
    sweeps = _trained(banks, 10, 32, 8)
    found = shared_raters(sweeps[1][1], 32)
    owners = dict(zip(found, _owners(banks, sweeps[1], 10, found.values()), strict=True))
    pairs = {one: pair for pair, one in owners.items() if one is not None}
    assert len(pairs) > 140
    assert np.mean([one is not None for one in owners.values()]) > 0.9
    # Factors of seven sweeps, with the Q that all know, are 224 equations for a history of zeros and ones: of eight
    # people two to the last item, recall .91 and precision .92.
    whole = _sets(banks, FOREIGN, 10)
    read = [(history_of(pairs[one], sweeps, LOSS), whole[one]) for one in sorted(pairs)[:8]]
    assert sum(found == true for found, true in read) >= 2
    assert np.mean([len(found & true) / len(true) for found, true in read]) > 0.8
    assert np.mean([len(found & true) / len(found) for found, true in read]) > 0.8


def test_the_default_of_ials_shows_nobody_s_factors(night):
    # Four times as many raters as dimensions: Σ p pᵀ of every item has full rank, so no two meet in somebody, and no
    # item has the raters of another and one more. Less is refused, and all of it unless the accord allows it.
    _, read = night("ials", "default-p", second_moments=True, sweeps=2)
    sums = read[1][1].reshape(ITEMS + 1, -1)
    assert shared_raters(sums, HorizontalIalsParams().embedding_size) == {}
    assert len(one_more(sums, HorizontalIalsParams().embedding_size)) == 0
    for name, params in (("few", {"min_raters": 10, "second_moments": True}), ("unsaid", {})):
        outcome, read = night("ials", name, **params)
        assert read == []
        assert all(isinstance(outcome.errors[bank], DataError) for bank in BANKS)


def _areas(banks, least, d, rarest=15):
    """Return the areas under the curve of the two scores of `membership` for the items with the fewest raters."""
    sweep, kept = _trained(banks, least, d, 4)[3], {bank: enough_raters(banks[bank], least) for bank in FOREIGN}
    n = np.rint(sweep[1][:-1, -1])
    found = [
        membership(h, item, sweep, LOSS)
        for item in np.argsort(np.where(n > 0, n, np.inf), kind="stable")[:rarest]
        for h in kept.values() if h.raters[item]
    ]  # fmt: skip
    *scores, had = map(np.concatenate, zip(*found, strict=True))
    return [mannwhitneyu(score[had], score[~had]).statistic / (had.sum() * (~had).sum()) for score in scores]


def test_who_knows_the_rest_of_a_history_tests_an_item_where_raters_are_hardly_more_than_dimensions(banks):
    # Weakened: 33 raters for 32 dimensions. The sum tells who is in it, 1.000 where the model itself says .92.
    sum_tells, model_tells = _areas(banks, 33, 32)
    assert sum_tells > 0.98 > model_tells
    # 33 raters for 8 dimensions: the sum tells less than the model, .83 and .89.
    sum_tells, model_tells = _areas(banks, 33, 8)
    assert sum_tells < model_tells


def test_by_the_default_of_ials_a_sum_tells_no_more_about_an_item_than_the_model(banks):
    sum_tells, model_tells = _areas(banks, HorizontalIalsParams().min_raters, HorizontalIalsParams().embedding_size)
    assert sum_tells <= model_tells
