"""Rows in turn: every row comes as often as any other, whatever the share."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from models.coordinates import rows_in_turn


@given(st.integers(1, 60), st.floats(0.02, 1.0), st.integers(1, 40))
def test_rows_come_equally_often_and_a_round_has_its_share(n, share, rounds):
    order = np.random.default_rng(n).permutation(np.arange(3, 3 + n))
    seen = np.zeros(n, int)
    for t in range(1, rounds + 1):
        rows = rows_in_turn(order, share, t)
        assert len(rows) == len(np.unique(rows)) == np.ceil(share * n)
        assert np.all(np.diff(rows) > 0)
        seen[rows - 3] += 1
    assert seen.max() - seen.min() <= 1


def test_the_whole_share_is_every_row():
    np.testing.assert_array_equal(rows_in_turn(np.array([5, 2, 9]), 1.0, 7), [2, 5, 9])
