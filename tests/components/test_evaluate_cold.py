"""Figures worked by hand."""

import numpy as np
import pyarrow as pa
import pytest

from base.errors import DataError
from components.contract import require
from components.evaluate_cold import COMPONENT, EvaluateColdParams


class Ctx:
    def __init__(self, inputs):
        self.inputs, self.metrics = inputs, {}

    def metric(self, name, value, round_number=None):
        self.metrics[name] = value

    def require(self, condition, what, *, expected, found, remedy=""):
        require(condition, what, expected=expected, found=found, where="here", remedy=remedy)


def table(user, rating):
    n = len(user)
    return pa.table({"user": pa.array(user, pa.int32()), "item": pa.array([0] * n, pa.int32()), "rating": rating})


def inputs(cold_people=10):
    """Ten warm people and `cold_people` cold ones, one test rating each: 4; alone says 3 to all, federated 4 + s."""
    m = 10 + cold_people
    cold = np.where(np.arange(m) < 10, -1, 0).astype(np.int32)
    model = {
        "mu": np.array(3.0), "Q": np.ones((1, 1)), "b_item": np.zeros(1),
        "P": np.ones((m, 2)) / 2, "s": np.zeros((m, 2)),
        "Q_alone": np.ones((1, 1)), "b_alone": np.zeros(1), "P_alone": np.zeros((m, 2)),
    }  # fmt: skip
    model["s"][10:, 1] = 9.0  # far above the scale: clipped to 5
    test = table(np.arange(m), [4.0] * m)
    people = pa.table({"user": np.arange(m, dtype=np.int32), "cold": cold})
    return {"ratings": {"train": table([0, 1], [1.0, 5.0]), "test": test, "people": people}, "model": model}


def test_every_arm_and_group():
    ctx = Ctx(inputs())
    metrics = COMPONENT.roles["label_holder"](ctx, EvaluateColdParams(min_people=10))["metrics"]
    assert metrics == {
        "alone.all.rmse": 1, "federated.all.rmse": pytest.approx(np.sqrt(0.5)), "all.n": 20, "all.people": 20,
        "alone.warm.rmse": 1, "federated.warm.rmse": 0, "warm.n": 10, "warm.people": 10,
        "alone.cold.rmse": 1, "federated.cold.rmse": 1, "cold.n": 10, "cold.people": 10,
        "alone.cold_0.rmse": 1, "federated.cold_0.rmse": 1, "cold_0.n": 10, "cold_0.people": 10,
    }  # fmt: skip
    assert ctx.metrics == metrics


def test_a_group_of_a_few_people_is_refused_by_name():
    with pytest.raises(DataError, match="people in group cold") as caught:
        COMPONENT.roles["label_holder"](Ctx(inputs(cold_people=9)), EvaluateColdParams(min_people=10))
    assert (caught.value.expected, caught.value.found) == ("at least 10", "9")


def test_many_ratings_of_few_people_are_still_few_people():
    given = inputs()
    given["ratings"]["test"] = table([*range(10), *[10] * 50], [4.0] * 60)
    with pytest.raises(DataError, match="people in group cold"):
        COMPONENT.roles["label_holder"](Ctx(given), EvaluateColdParams(min_people=10))
