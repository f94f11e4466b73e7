"""Metrics from secure sums equal the metrics of the pooled rows."""

import numpy as np
import pyarrow as pa
import pytest

from base.errors import DataError, SpecMismatch
from models import mf
from models.metrics import rmse
from models.scoring import whole

BANKS = ("east", "north", "south")
ROLES = {"data_holder": BANKS, "aggregator": ("bureau",)}
PARAMS = {"min_count": 20, "key_bits": 2048}
USERS, ITEMS, K = 12, 15, 2


def table(rng, n):
    user, item = rng.integers(0, USERS, n), rng.integers(0, ITEMS, n)
    rating = rng.integers(1, 6, n)
    return pa.table({
        "user": user.astype(np.int32), "item": item.astype(np.int32), "rating": rating.astype(np.float32)
    })  # fmt: skip


def inputs(rows=30):
    shared = np.random.default_rng(0)
    Q, b_item = shared.normal(0, 1, (ITEMS, K)), shared.normal(0, 1, ITEMS)
    found = {}
    for n, bank in enumerate(BANKS):
        rng = np.random.default_rng(n + 1)
        model = {
            "mu": np.array(3.2), "Q": Q, "b_item": b_item, "b_own": rng.normal(0, 0.1, ITEMS),
            "Q_own": rng.normal(0, 0.1, Q.shape),
            "P": rng.normal(0, 1, (USERS, K)), "b_user": rng.normal(0, 1, USERS), "catalogue": np.zeros(32, np.uint8),
        }  # fmt: skip
        sizes = {"train": 80, "validation": rows, "test": rows + 7 * n}
        found[bank] = {"model": model, "ratings": {part: table(rng, size) for part, size in sizes.items()}}
    return found


def columns(table):
    return tuple(table[name].to_numpy() for name in ("user", "item", "rating"))


def test_metrics_are_those_of_the_pooled_rows(threads):
    given = inputs()
    outcome = threads("evaluate_ratings", ROLES, given, PARAMS, run="evaluate")
    assert outcome.errors == {}
    metrics = outcome.outputs["east"]["metrics"]
    assert metrics == outcome.outputs["north"]["metrics"] == outcome.outputs["south"]["metrics"]
    assert outcome.outputs["bureau"] == {}
    assert set(metrics) == {
        f"{arm}.{part}.rmse" for arm in ("federated", "mean", "biases") for part in ("validation", "test")
    } | {"validation.n", "test.n"}
    for part in ("validation", "test"):
        r, federated, biases = [], [], []
        for bank in BANKS:
            user, item, rating = columns(given[bank]["ratings"][part])
            u, i, x = columns(given[bank]["ratings"]["train"])
            alone = mf.fit_biases(mf.Ratings(u, i, x.astype(float)), 3.2, (USERS, ITEMS))
            r.append(rating)
            federated.append(np.clip(mf.predict(whole(given[bank]["model"]), user, item), x.min(), x.max()))
            biases.append(np.clip(mf.predict(alone, user, item), x.min(), x.max()))
        r, federated, biases = map(np.concatenate, (r, federated, biases))
        assert metrics[f"{part}.n"] == len(r)
        assert metrics[f"federated.{part}.rmse"] == pytest.approx(rmse(r, federated), abs=1e-5)
        assert metrics[f"biases.{part}.rmse"] == pytest.approx(rmse(r, biases), abs=1e-5)
        assert metrics[f"mean.{part}.rmse"] == pytest.approx(rmse(r, np.full(len(r), 3.2)), abs=1e-5)


def test_a_party_with_too_few_ratings_stops_before_it_sends(threads):
    outcome = threads("evaluate_ratings", ROLES, inputs(rows=19), PARAMS, run="few")
    assert any(isinstance(error, DataError) for error in outcome.errors.values())
    assert all(parcels == [] for parcels in outcome.parcels.values())


def test_parties_with_different_models_get_no_metrics(threads):
    given = inputs()
    given["south"]["model"] = {**given["south"]["model"], "b_item": given["south"]["model"]["b_item"] + 1e-9}
    outcome = threads("evaluate_ratings", ROLES, given, PARAMS, run="differ")
    assert any(isinstance(error, SpecMismatch) for error in outcome.errors.values())
    assert not any(outcome.outputs.get(bank) for bank in BANKS)
