"""Changes of users, all at once, against a loop over users and ratings."""

import numpy as np
import pytest

from models import mf
from models.user_updates import layers, of_each_user, user_changes

USERS, ITEMS, K, EPOCHS, RATE, REG = 6, 5, 2, 3, 0.1, 0.05


def small():
    rng = np.random.default_rng(3)
    user = np.array([0, 0, 0, 1, 3, 3, 3, 3, 3, 3, 3, 5], np.int32)  # two have nothing, one enough for smaller steps
    item = np.array([0, 2, 4, 1, 0, 1, 2, 3, 4, 0, 1, 2], np.int32)  # user 3 rates two items twice
    data = mf.Ratings(user, item, rng.uniform(1, 5, len(user)))
    return data, mf.Factors(
        3.0, rng.normal(size=(ITEMS, K)), rng.normal(size=ITEMS), rng.normal(size=(USERS, K)), np.zeros(USERS)
    )


def one_by_one(model, data):
    changes = np.zeros((len(data), K + 1))
    for u in range(USERS):
        rows = np.flatnonzero(data.user == u)
        own = min(RATE, 0.5 / max(len(rows), 1))
        copies = {n: (model.b_item[data.item[n]], model.Q[data.item[n]].copy()) for n in rows}
        for _ in range(EPOCHS):
            p, b_u = model.P[u].copy(), model.b_user[u]
            for n in rows:
                b, q = copies[n]
                e = data.rating[n] - (model.mu + b_u + b + p @ q)
                model.P[u] += own * (e * q - REG * p)
                model.b_user[u] += own * (e - REG * b_u)
                copies[n] = b + RATE * (e - REG * b), q + RATE * (e * p - REG * q)
        for n in rows:
            b, q = copies[n]
            changes[n] = [b - model.b_item[data.item[n]], *(q - model.Q[data.item[n]])]
    return changes


def test_all_at_once_is_one_after_the_other_and_the_item_side_stays():
    data, model = small()
    other, before = model.copy(), model.copy()
    found, mse = user_changes(model, data, EPOCHS, RATE, REG)
    np.testing.assert_allclose(found, one_by_one(other, data), atol=1e-12)
    np.testing.assert_allclose(model.P, other.P, atol=1e-12)
    np.testing.assert_allclose(model.b_user, other.b_user, atol=1e-12)
    np.testing.assert_array_equal(model.Q, before.Q)
    np.testing.assert_array_equal(model.P[[2, 4]], before.P[[2, 4]])
    assert mse > 0


def test_a_user_is_one_contribution_with_each_place_once():
    data, model = small()
    changes, _ = user_changes(model, data, EPOCHS, RATE, REG)
    row, scale = np.array([0, -1, 1, 2, -1])[data.item], np.array([2.0, 1.0, 0.5])  # items 1 and 4 are not shared
    people = list(of_each_user(data.user, row, changes, scale))
    assert len(people) == 3  # user 1 has nothing that is shared
    total = np.zeros(3 * (K + 1))
    for place, values in people:
        assert len(np.unique(place)) == len(place)
        total[place] += values
    expected = np.zeros((3, K + 1))
    np.add.at(expected, row[row >= 0], changes[row >= 0])
    np.testing.assert_allclose(total.reshape(3, K + 1), expected * scale[:, None], atol=1e-12)
    assert list(of_each_user(data.user[:0], row[:0], changes[:0], scale)) == []


def test_layers_give_rows_of_few_people_more_room_and_no_row_a_scale_of_its_own():
    W = np.array([10.0, 11.0, 40.0, 160.0, 170.0])
    a = layers(W)
    assert a[0] == a[1]  # one layer
    assert a[3] == a[4]
    assert a[0] > a[2] > a[3]
    assert a[0] / a[3] == pytest.approx(4.0)
    assert (W * a**2).sum() / W.sum() == pytest.approx(1.0)
    # What all ratings together see of the noise on means is less than with one scale for all.
    assert (1 / (a**2 * W)).sum() < (1 / W).sum()
