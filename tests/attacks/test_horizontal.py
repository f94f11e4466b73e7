"""Attacks on horizontal training: each succeeds on a weakened setting and fails on the default (protocols.md, attacks).

The attacks are those of `accord bench attacks`, on fewer people and items of MovieLens-100K. The adversary is a bank:
it follows the shared state V, reads the totals, and subtracts its own part.
"""

import numpy as np
import pytest

from base.errors import ConsentError, StateError
from bench import attacks_nights as nights
from bench import attacks_rounds as rounds
from bench.attacks_crossing import adversary
from bench.attacks_data import world
from bench.attacks_watch import DEFAULT, watch
from components import horizontal_mf
from components.secure_sum import SumParams, open_total, relay
from crypto.packing import Lanes


@pytest.fixture(scope="module")
def small(accord_data):
    """150 people of each bank, 500 items."""
    with adversary(world(1).smaller(150, 500)) as found:
        yield found


@pytest.mark.data
def test_two_gradients_in_clear_show_a_person_s_ratings_and_released_sums_do_not(small):
    # Weakened: a bank with one customer, whose part is read. Each rating, whole.
    found = rounds.recovery(small)
    assert found.weakened == 1.0
    # The default: the same recovery on the total less the own part says no more than the item means that a bank has.
    assert found.default < found.chance + 0.01
    # And a bank with one customer sends nothing about that one.
    banks, _, _ = rounds.one_person(small.world)
    alone = watch(banks, small.world.items, DEFAULT, small.world.seed)
    change, w = alone.change(0, [rounds.VICTIM])
    assert not change.any()
    assert not w.any()


@pytest.mark.data
def test_a_row_of_one_customer_shows_that_customer_s_factors_and_the_default_has_no_such_row(small):
    found = rounds.lone_rows(small)
    assert found.weakened == 1.0
    assert found.default == 0
    # Stated: rows of one other bank alone there are, with 10 people behind them.
    assert 0 < rounds.one_bank(small).default < 0.5


@pytest.mark.data
def test_row_changes_show_what_one_person_rated_and_in_sums_they_show_popularity_alone(small):
    # Weakened: one customer in the open. The rows that move are the items that were rated.
    found = rounds.moved_rows(small)
    assert found.weakened == 1.0
    # The default: what the ranking tells about people in the sum and outside alike is popularity.
    assert abs(found.default - found.chance) < 0.03


@pytest.mark.data
def test_a_start_from_the_run_seed_is_decoded_and_a_private_start_is_not(small):
    # A small bank: as many customers as there are equations for each item (k + 1).
    found = rounds.decoded_start(small)
    assert found.weakened > 0.99
    assert abs(found.default - 0.5) < 0.1


@pytest.mark.data
def test_counts_of_two_nights_show_who_came_and_an_epoch_has_one_night(small):
    # Weakened: an epoch of one night. Most items of one person and no other: the rest have fewer than 10 raters.
    found = nights.counts(small)
    assert found.weakened > 0.7
    assert found.default == 0


@pytest.mark.data
def test_changes_of_two_nights_from_one_model_tell_a_newcomer_better_than_chance(small):
    """Stated, not defended: private orders blur what one person adds to a sum, and do not hide it."""
    found = nights.changes(small)
    assert found.weakened > 0.95
    assert found.chance < found.default < found.weakened - 0.05


@pytest.mark.data
def test_a_rating_that_changed_between_two_nights_shows_where_private_choices_do_not_follow_the_rows(small):
    # Weakened: one stream for all nights of a pipeline, which has one seed. What did not change cancels; what is left
    # is largest in the row of the item.
    found = nights.changed_rating(small)
    assert found.weakened == 1.0
    assert found.default <= 0.25


@pytest.mark.parametrize("protection", ["secagg", "paillier"])
def test_n_and_n_minus_one_show_the_missing_bank_and_a_second_sum_of_a_round_is_refused(threads, protection):
    roster = ("east", "north", "south", "west")
    layout, how = Lanes(16, 6, summands=4), SumParams(protection=protection, key_bits=2048)

    def once(ctx, params):
        return {"sum": open_total(ctx, how)(np.ones(3), layout, 0, bytes(32))}

    def twice(ctx, params):
        total = open_total(ctx, how)
        total(np.ones(3), layout, 0, bytes(32))
        return {"sum": total(np.ones(3), layout, 0, bytes(32))}

    def run(banks, role, attempt, name):
        functions = dict.fromkeys(banks, role) | {"bureau": lambda ctx, params: relay(ctx, how, range(1)) or {}}
        return threads(
            horizontal_mf.COMPONENT, {"data_holder": banks, "aggregator": ("bureau",)}, {}, how.model_dump(),
            run=f"{name}-{protection}", attempt=attempt, functions=functions,
        )  # fmt: skip

    # What a repeated round would give away: `test_masked_sum`, `test_sums`. Here with the sums of training.
    same = run(roster, twice, 1, "differencing-1")
    assert any(isinstance(error, StateError) for error in same.errors.values())
    # Neither in the same attempt, nor with another roster in the next one.
    assert run(roster, once, 1, "differencing-2").errors == {}
    fewer = run(roster[:3], once, 2, "differencing-2")
    assert any(isinstance(error, StateError | ConsentError) for error in fewer.errors.values())
    assert fewer.outputs.get("east") is None
