import numpy as np
import pyarrow as pa
import pytest

from base.canonical import digest
from base.errors import SpecError
from bench import plain
from bench.parties import run_step
from bench.round import BANKS, ROLES, cases
from components import horizontal_mf, registry

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


def test_sums_in_the_clear_exist_for_measuring_alone():
    with pytest.raises(SpecError, match="unknown component"):
        registry.component(plain.COMPONENT.name)
    assert plain.COMPONENT.name not in registry.catalogue()


def test_plain_trains_the_same_model_as_paillier_in_fewer_bytes():
    models, timed = {}, {}
    for part in (plain.COMPONENT, horizontal_mf.COMPONENT):

        def bank(ctx, params, part=part):
            outputs = part.roles["data_holder"](ctx, params)
            models[part.name, ctx.party] = outputs["model"]
            return outputs

        params = {"rounds": 2, "local_epochs": 2, "key_bits": 2048}
        timed[part.name] = run_step(part, ROLES, inputs(), params, {"data_holder": bank})
        assert len(timed[part.name].rounds) == 2
    for party in BANKS:
        for name, array in models["horizontal_mf", party].items():
            np.testing.assert_array_equal(array, models["horizontal_mf_plain", party][name])
    assert 0 < timed["horizontal_mf_plain"].bytes < timed["horizontal_mf"].bytes


def test_the_cases_are_the_ones_of_the_benchmark():
    with cases() as found:
        assert [case.name for case in found] == ["round, plain", "round, paillier", "step of 3 rounds, paillier"]
        assert found[0].theirs() > 0
