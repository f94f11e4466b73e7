"""Attacks on sums of item statistics: whole histories without thresholds and epochs, and what is left with them.

The attacks are those of `accord bench attacks`, on fewer people and items of MovieLens-100K. The adversary is one of
three banks: it runs the step as it should, reads the totals as they cross under `secagg`, and takes its own part off.
"""

import numpy as np
import pytest

from base.errors import AccordError
from bench import attacks_moments as moments
from bench import attacks_orders as orders
from bench import attacks_pairs as pairs
from bench.attacks_crossing import adversary
from bench.attacks_data import FOREIGN, world
from models.symmetric import enough_ridge

pytestmark = pytest.mark.data


@pytest.fixture(scope="module")
def small(accord_data):
    """150 people of each bank, 500 items."""
    with adversary(world(1).smaller(150, 500)) as found:
        yield found


@pytest.fixture(scope="module")
def everybody(accord_data):
    """All of MovieLens-100K: factors need many people."""
    return world(1)


def test_histories_come_off_a_gram_matrix_and_none_comes_off_the_default(small):
    # Weakened: no thresholds. Almost all foreign people, and many of all from the total that everybody sees; whatever
    # comes off is somebody's.
    (open_, default), people = pairs.foreign(small), set(small.world.people(FOREIGN))
    found = pairs.peeled(open_)
    assert len(people & set(found)) > 0.9 * len(people)
    assert len(people & set(found)) > 0.98 * len(found)
    assert pairs.peel(small).weakened > 0.2
    # 100 cliques around pairs that one person has: all of them histories.
    assert set(pairs.cliques(open_, 1)) <= people

    # The default: no item has fewer than 10 raters, nothing comes off, and of 100 cliques none is a history, nor what
    # a bank kept of one.
    assert pairs.peeled(default) == pairs.peeled(pairs.totals(small)[1]) == []
    assert pairs.clique(small).default == 0
    # What comes nearest to somebody in the sum is no reading: hardly nearer than to the own people, who are not in it.
    overlap = pairs.clique_overlap(small)
    assert overlap.default < pairs.READ
    assert overlap.default < overlap.chance + 0.2 < overlap.weakened + 0.2


def test_the_model_gives_the_gram_matrix_back_and_no_more_than_that(small):
    open_, default = pairs.totals(small)
    # Weakened: B alone gives G to the last unit, and with it the histories. λ is public.
    assert enough_ridge(open_.astype(float), pairs.REG) == pairs.REG
    np.testing.assert_array_equal(pairs.given_back(open_, 1), open_)
    # The default: B gives back the sum that left, from which nothing comes off.
    np.testing.assert_array_equal(pairs.given_back(default, 3), default)
    found = pairs.peel_weights(small)
    assert found.weakened > 0.2
    assert found.default == 0


def test_the_difference_of_two_nights_is_who_came_and_an_epoch_has_one_night(small):
    # Weakened: the rule off, thresholds as they are. The diagonal shows that person's items, most of them and no other.
    # The default: the second night is refused at the bank whose people changed; the same night again is not.
    found = pairs.one_night(small)
    assert found.weakened > 0.8
    assert found.default == 0
    before, _ = pairs.came(small.world, 2)
    small.nights.run("ease", small.world.banks, epoch="refused")
    with pytest.raises(AccordError):
        small.nights.run("ease", before.banks, epoch="refused")


def test_two_epochs_hide_people_among_those_who_came_between_them_and_not_by_thresholds(small):
    """What an epoch is worth, stated: thresholds hold for a release and not for the difference of two."""
    # By their rows alone, whole histories of many of the few who came between two releases, and of next to none where a
    # third of the bank came. So an epoch is as long as it takes for many people to come, whatever the thresholds.
    found = pairs.epochs_apart(small, few=10, many=50)
    assert found.weakened >= 0.4
    assert found.default <= 0.1


def test_the_order_of_one_person_stands_in_st_and_no_history_does(small):
    # Weakened: no thresholds. An item that one person had shows how far before and after it all others come: 40 places
    # each way. The default: a fragment of one person that fits together has a few items; nobody's history.
    found = orders.longest(small)
    assert found.weakened > 60
    assert found.default <= 6
    # The price of a threshold that counts both orders as one (protocols.md): places between two items, of somebody.
    assert orders.distances(small).weakened > 0.9


def test_an_item_of_one_rater_shows_that_person_s_factors(small):
    # Weakened: no threshold. Σ p of an item with one rater is p_u, of all such items; and pairs of items show that one
    # has the other's raters and one more.
    sweep = moments.trained(small.world, 1, 32, 2)[1]
    single = moments.single(sweep[1], 32)
    assert len(single) > 10
    assert None not in moments.owners(small.world, sweep, 1, single)
    assert len(moments.one_more(sweep[1], 32)) > 0


def test_items_with_fewer_raters_than_factors_have_dimensions_show_who_shares_them(small):
    # Weakened: 32 dimensions, 10 raters. Σ p pᵀ of two items with 10 to 22 raters meet in the one person who had both.
    world = small.world
    sweeps = moments.trained(world, 10, 32, 8)
    found = moments.shared_raters(sweeps[1][1], 32)
    owners = dict(zip(found, moments.owners(world, sweeps[1], 10, found.values()), strict=True))
    pair_of = {one: pair for pair, one in owners.items() if one is not None}
    assert len(pair_of) > 20
    assert np.mean([one is not None for one in owners.values()]) > 0.8
    # Factors of seven sweeps, with the Q that all know, are 224 equations for a history of zeros and ones.
    whole = world.people(FOREIGN, 10)
    read = [(moments.history_of(pair_of[one], sweeps, moments.LOSS), whole[one]) for one in sorted(pair_of)[:4]]
    assert sum(found == true for found, true in read) >= 2
    assert np.mean([len(found & true) / len(true) for found, true in read]) > 0.8
    assert np.mean([len(found & true) / len(found) for found, true in read]) > 0.8


def test_the_default_of_ials_shows_nobody_s_factors(small):
    # Four times as many raters as dimensions: Σ p pᵀ of every item has full rank, so no two meet in somebody, and no
    # item has the raters of another and one more. Less is refused, and all of it unless the accord allows it.
    sums, d = moments.default_sums(small), moments.DEFAULT.embedding_size
    assert (sums[:-1, -1] > 0).sum() > 30
    assert moments.shared_raters(sums, d) == {}
    assert len(moments.one_more(sums, d)) == 0
    for params in ({"min_raters": 10, "second_moments": True, "epoch": "few"}, {"epoch": "unsaid"}):
        with pytest.raises(AccordError, match=r"second moments|failed"):
            small.nights.run("ials", small.world.banks, **params)


def test_who_knows_the_rest_of_a_history_tests_an_item_where_raters_are_hardly_more_than_dimensions(everybody):
    # Weakened: 33 raters for 32 dimensions. The sum tells who is in it better than the model does.
    sum_tells, model_tells = moments.areas(everybody, 33, 32)
    assert sum_tells > 0.92 > model_tells
    # 33 raters for 8 dimensions: the sum tells less than the model.
    sum_tells, model_tells = moments.areas(everybody, 33, 8)
    assert sum_tells < model_tells


def test_by_the_default_of_ials_a_sum_tells_no_more_about_an_item_than_the_model(everybody):
    sum_tells, model_tells = moments.areas(everybody, moments.DEFAULT.min_raters, moments.DEFAULT.embedding_size)
    assert sum_tells <= model_tells
