import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_histories import as_lists, bank_histories, histories

from base.errors import DataError
from models import popularity
from models.histories import Histories

THREE = histories([[2, 0], [], [0, 1, 3]], 4)


def test_by_hand():
    np.testing.assert_array_equal(THREE.matrix().toarray(), [[1, 0, 1, 0], [0, 0, 0, 0], [1, 1, 0, 1]])
    np.testing.assert_array_equal(THREE.raters, [2, 1, 1, 1])
    np.testing.assert_array_equal(THREE.age, [1, 0, 2, 1, 0])
    np.testing.assert_array_equal(THREE.start, [0, 2, 2, 5])
    weighted = THREE.matrix(np.array([0.5, 1.0, 2.0, 3.0, 4.0])).toarray()
    np.testing.assert_array_equal(weighted, [[1, 0, 0.5, 0], [0, 0, 0, 0], [2, 3, 0, 4]])
    assert len(THREE) == 5


@given(bank_histories(max_banks=1), st.data())
def test_taken_users_keep_their_histories(banks, data):
    h = banks[0]
    users = data.draw(st.lists(st.integers(0, h.users - 1), max_size=5) if h.users else st.just([]))
    taken = h.take(np.array(users, np.int64))
    assert as_lists(taken) == [as_lists(h)[u] for u in users]
    assert (taken.users, taken.items) == (len(users), h.items)


@pytest.mark.parametrize(
    ("user", "item"),
    [
        ([0, 0], [1]),  # lengths
        ([1, 0], [1, 1]),  # order
        ([0, 2], [1, 1]),  # user outside
        ([-1, 0], [1, 1]),
        ([0, 1], [1, 3]),  # item outside
        ([0, 1], [-1, 1]),
        ([0, 0, 0], [1, 2, 1]),  # an item twice
    ],
)
def test_other_forms_are_refused(user, item):
    with pytest.raises(DataError, match="form"):
        Histories(np.array(user, np.int32), np.array(item, np.int32), 2, 3)


def test_popularity_is_a_sum_and_the_same_for_everyone():
    n = popularity.statistics(THREE) + popularity.statistics(histories([[3]], 4))
    found = popularity.scores(n, THREE, np.array([2, 0]))
    np.testing.assert_array_equal(found, [[2, 1, 1, 2]] * 2)
