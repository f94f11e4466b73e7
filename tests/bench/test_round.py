import numpy as np
import pyarrow as pa

from base.canonical import digest
from bench.parties import run_step
from bench.round import BANKS, ROLES, cases
from components import horizontal_mf

ITEMS = [f"{i:02}" for i in range(12)]


def inputs():
    found = {}
    for n, bank in enumerate(BANKS):
        rng = np.random.default_rng(n)
        user, item = np.nonzero(rng.random((30, len(ITEMS))) < 0.7)
        rating = rng.integers(1, 6, len(user)).astype(np.float32)
        train = pa.table({"user": user.astype(np.int32), "item": item.astype(np.int32), "rating": rating})
        people = pa.table({"user_id": [str(u) for u in range(30)]})
        tables = {"train": train, "users": people, "items": pa.table({"item_id": ITEMS})}
        found[bank] = {"ratings": tables, "statistics": {"mean": 3.0, "catalogue": digest(ITEMS)}}
    return found


def test_every_protection_trains_the_same_model_and_plain_takes_the_fewest_bytes():
    models, timed = {}, {}
    for protection in ("plain", "secagg", "paillier"):

        def bank(ctx, params, name=protection):
            outputs = horizontal_mf.COMPONENT.roles["data_holder"](ctx, params)
            models[name, ctx.party] = outputs["model"]
            return outputs

        params = {"rounds": 2, "local_epochs": 2, "key_bits": 2048, "protection": protection}
        timed[protection] = run_step(horizontal_mf.COMPONENT, ROLES, inputs(), params, {"data_holder": bank})
        assert len(timed[protection].rounds) == 2
    for party in BANKS:
        for name, array in models["plain", party].items():
            np.testing.assert_array_equal(array, models["secagg", party][name])
            np.testing.assert_array_equal(array, models["paillier", party][name])
    assert 0 < timed["plain"].bytes < timed["secagg"].bytes < timed["paillier"].bytes


def test_the_cases_are_the_ones_of_the_benchmark():
    with cases() as found:
        assert [case.name for case in found] == [
            "round, plain",
            "round, secagg",
            "round, paillier",
            "step of 3 rounds, secagg",
            "step of 3 rounds, paillier",
        ]
        assert found[0].theirs() > 0
