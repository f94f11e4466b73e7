"""Bar (B): banks that train together predict about as well as one owner of all ratings, on MovieLens-100K."""

import threading

import numpy as np
import pyarrow as pa
import pytest

from base.canonical import digest
from components import horizontal_mf
from components.averaging import train
from demo.pooled import Arms, union
from models import mf
from models.metrics import root_mean, squared_error
from models.scoring import whole

pytestmark = pytest.mark.data
BANKS = ("east", "north", "south")
ROLES = {"data_holder": BANKS, "aggregator": ("bureau",)}
ITEMS = [f"{i:04}" for i in range(1682)]


@pytest.fixture(scope="module", params=[1, 2, 3])
def banks(request, accord_data):
    """Split tables of three banks, 80/10/10 at random, other customers at each."""
    user, item, rating, _ = np.loadtxt(accord_data / "ml-100k" / "u.data.gz", dtype=int).T
    rng = np.random.default_rng(request.param)
    bank = rng.permutation(np.arange(user.max() + 1) % 3)
    found = {}
    for n, party in enumerate(BANKS):
        own = np.flatnonzero(bank[user] == n)
        ids, u = np.unique(user[own], return_inverse=True)
        columns = (u.astype(np.int32), (item[own] - 1).astype(np.int32), rating[own].astype(np.float32))
        rows = pa.table(dict(zip(("user", "item", "rating"), columns, strict=True)))
        test, validation, train = np.split(rng.permutation(len(own)), [len(own) // 10, len(own) // 5])
        parts = {"train": train, "validation": validation, "test": test}
        found[party] = {name: rows.take(np.sort(part)) for name, part in parts.items()}
        found[party] |= {"users": pa.table({"user_id": ids.astype(str)}), "items": pa.table({"item_id": ITEMS})}
    return found


def federated(threads, banks, epoch):
    """Train with the sums in the open (test_horizontal_mf shows that encryption changes no bit) and return models."""
    seen, barrier = {}, threading.Barrier(3)

    def bank(ctx, params):
        def total(values, lanes, t, bound, name):
            seen[t, ctx.party] = lanes.quantise(values)
            barrier.wait(timeout=300)
            return sum(seen[t, party] for party in BANKS)

        learner = horizontal_mf.Learner(ctx, params)
        train(ctx, params, learner, total)
        return {"model": learner.part()}

    rating = np.concatenate([banks[party]["train"]["rating"].to_numpy() for party in BANKS])
    statistics = {"mean": float(rating.mean()), "catalogue": digest(ITEMS)}
    inputs = {party: {"ratings": banks[party], "statistics": statistics} for party in BANKS}
    functions = dict.fromkeys(BANKS, bank) | {"bureau": lambda ctx, params: {}}
    outcome = threads("horizontal_mf", ROLES, inputs, {"epoch": epoch}, run="movielens", functions=functions)
    assert outcome.errors == {}
    assert all(outcome.metrics[party]["saturated"] == 0 for party in BANKS)
    return {party: outcome.outputs[party]["model"] for party in BANKS}


def test_federated_is_within_a_hundredth_of_pooled_and_clearly_below_biases(
    threads, banks, request, record_testsuite_property
):  # fmt: skip
    # Counts of another split would stand for these in one epoch.
    models = federated(threads, banks, f"split-{request.node.callspec.params['banks']}")
    squared = n = 0
    for party in BANKS:
        user, item, rating = (banks[party]["test"][name].to_numpy() for name in ("user", "item", "rating"))
        squared += squared_error(rating, np.clip(mf.predict(whole(models[party]), user, item), 1, 5))
        n += len(rating)
    together = root_mean(squared, n)

    owner = Arms(union(list(banks.values())), horizontal_mf.HorizontalMfParams(), np.random.default_rng(0))
    pooled = root_mean(*owner.errors(owner.tuned(), "test"))
    biases = root_mean(*owner.errors(mf.fit_biases(owner.train, owner.mu, owner.shape), "test"))
    record_testsuite_property("horizontal", {"federated": round(together, 4), "pooled": round(pooled, 4)})
    assert pooled < 0.93
    assert together < pooled + 0.01
    assert together < biases - 0.015
