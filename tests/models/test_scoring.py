"""Each kind's scores are what its formula says, item by item."""

import math

import numpy as np
import pytest

from models import mf
from models.histories import Histories
from models.scoring import KINDS, whole

USERS, ITEMS, K = 4, 5, 2
HISTORY = {0: [1, 3], 2: [4, 0, 2], 3: [1]}  # from the oldest to the newest; person 1 has none
ROWS = [(u, i) for u, items in HISTORY.items() for i in items]
H = Histories(*(np.array(column, np.int32) for column in zip(*ROWS, strict=True)), USERS, ITEMS)


@pytest.fixture
def model():
    rng = np.random.default_rng(1)
    shared = np.array([True, True, False, True, False])
    Q, b = rng.normal(0, 1, (ITEMS, K)), rng.normal(0, 1, ITEMS)
    return {
        "B": rng.normal(0, 1, (ITEMS, ITEMS)), "input_decay": np.array(2.0), "mu": np.array(3.0),
        "Q": Q * shared[:, None], "Q_own": Q * ~shared[:, None], "b_item": b * shared, "b_own": b * ~shared,
        "P": rng.normal(0, 1, (USERS, K)), "b_user": rng.normal(0, 1, USERS), "form": np.array([K, 0]),
        "V": Q * shared[:, None], "V_own": Q * ~shared[:, None], "layers": np.array([2.0, -1.0]),
    }  # fmt: skip


def by_hand(kind, model, u, i):
    items = HISTORY.get(u, [])
    if kind == "ease":
        return sum(model["B"][j, i] for j in items)
    if kind == "slist":
        return sum(math.exp(-(len(items) - 1 - n) / 2) * model["B"][j, i] for n, j in enumerate(items))
    if kind == "ials":
        return sum(model["P"][u, k] * (model["Q"] + model["Q_own"])[i, k] for k in range(K))
    if kind == "ncf":
        V = model["V"] + model["V_own"]
        return sum(model["layers"][k] * model["P"][u, k] * V[i, k] for k in range(K))
    return mf.predict(whole(model), np.array([u]), np.array([i]))[0]


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_those_of_the_formula(model, kind):
    users = np.array([3, 0, 1, 2])
    found = KINDS[kind].scores(model, H, users)
    expected = [[by_hand(kind, model, u, i) for i in range(ITEMS)] for u in users]
    np.testing.assert_allclose(found, expected, atol=1e-12)
    np.testing.assert_allclose(KINDS[kind].scores(model, H, users[1:2]), expected[1:2], atol=1e-12)


def test_rows_that_nobody_shares_come_from_the_party(model):
    m = whole(model)
    assert np.all(m.Q[2] == model["Q_own"][2])
    assert np.all(m.Q[0] == model["Q"][0])
    assert m.b_item[4] == model["b_own"][4] != 0
