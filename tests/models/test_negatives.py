import numpy as np
import pytest

from base.errors import DataError
from models import negatives
from models.histories import Histories


def test_negatives_are_all_items_that_the_user_did_not_have_each_as_likely():
    h = Histories(np.array([0, 0, 0, 1, 2], np.int32), np.array([4, 0, 2, 3, 4], np.int32), 3, 5)
    users = np.tile([0, 1], 4000)
    drawn = negatives.draw(np.random.default_rng(0), h, users, 3)
    assert drawn.shape == (8000, 3)
    for user, free in ((0, [1, 3]), (1, [0, 1, 2, 4])):
        count = np.bincount(drawn[users == user].ravel(), minlength=5)
        assert np.flatnonzero(count).tolist() == free
        np.testing.assert_allclose(count[free], 12000 / len(free), rtol=0.1)


def test_somebody_who_had_every_item_is_refused():
    h = Histories(np.array([0, 0], np.int32), np.array([0, 1], np.int32), 1, 2)
    with pytest.raises(DataError, match="every item"):
        negatives.draw(np.random.default_rng(0), h, np.array([0]), 1)
