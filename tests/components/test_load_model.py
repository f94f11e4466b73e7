"""Going on from an earlier model: the own part by its manifest, people and items matched, new ones from the start."""

import numpy as np
import pyarrow as pa
import pytest

from base.canonical import digest
from base.errors import DataError, SpecMismatch
from components.id_keys import rows_before
from runtime.artifacts import Ref, Store
from tests.components.test_horizontal_mf import BANKS, CATALOGUE, PARAMS, ROLES, inputs

ONE = PARAMS | {
    "warm_start": True,
    "rounds": 1,
    "epoch": "warm",
    "learning_rate": 1e-9,
}  # so that the model stays where it starts


@pytest.fixture(scope="module")
def earlier(threads):
    outcome = threads("horizontal_mf", ROLES, inputs(1), PARAMS | {"epoch": "warm"}, run="earlier")
    assert outcome.errors == {}
    return {bank: outcome.outputs[bank]["model"] for bank in BANKS}


def with_start(earlier, change=lambda tables: tables):
    given = inputs(1)
    for bank in BANKS:
        given[bank] |= {"start": earlier[bank], "ratings": change(given[bank]["ratings"])}
    return given


def test_training_goes_on_where_the_earlier_model_ended(threads, earlier):
    outcome = threads("horizontal_mf", ROLES, with_start(earlier), ONE, run="warm")
    assert outcome.errors == {}
    for bank in BANKS:
        for name in ("Q", "b_item", "P", "b_user"):
            np.testing.assert_allclose(outcome.outputs[bank]["model"][name], earlier[bank][name], atol=1e-5)


def test_new_people_start_anew_and_the_others_keep_their_rows(threads, earlier):
    def newcomer_first(tables):  # somebody whose id sorts before all others
        ids = tables["users"]["user_id"].to_pylist()
        return tables | {"users": pa.table({"user_id": ["a new one", *ids[1:]]})}

    outcome = threads("horizontal_mf", ROLES, with_start(earlier, newcomer_first), ONE, run="newcomer")
    assert outcome.errors == {}
    for bank in BANKS:
        P = outcome.outputs[bank]["model"]["P"]
        np.testing.assert_allclose(P[1:], earlier[bank]["P"][1:], atol=1e-5)
        assert np.abs(P[0] - earlier[bank]["P"][0]).max() > 1e-3


def test_items_are_found_by_their_ids_in_another_catalogue(threads, earlier):
    new = ["00A", *CATALOGUE]  # sorts after 009: later items move by one
    order = np.argsort(new)
    place = np.empty(len(new), int)
    place[order] = np.arange(len(new))

    def moved(tables):
        found = {"items": pa.table({"item_id": sorted(new)}), "users": tables["users"]}
        for part in ("train", "validation"):
            item = place[1:][tables[part]["item"].to_numpy()].astype(np.int32)
            found[part] = tables[part].set_column(1, "item", pa.array(item))
        return found

    given = with_start(earlier, moved)
    for bank in BANKS:
        given[bank]["statistics"] = given[bank]["statistics"] | {"catalogue": digest(sorted(new))}
    outcome = threads("horizontal_mf", ROLES, given, ONE, run="catalogue-2")
    assert outcome.errors == {}
    for name in ("Q", "b_item"):
        found = outcome.outputs["east"]["model"][name][place[1:]]
        np.testing.assert_allclose(found, earlier["east"][name], atol=1e-5)


def test_banks_that_start_from_different_models_get_no_sum(threads, earlier):
    given = with_start(earlier)
    given["south"]["start"] = earlier["south"] | {"Q": earlier["south"]["Q"] * 2}
    outcome = threads("horizontal_mf", ROLES, given, ONE, run="differ")
    assert any(isinstance(error, SpecMismatch) for error in outcome.errors.values())
    assert not any(outcome.outputs.get(bank) for bank in BANKS)


def test_a_bank_that_joins_starts_from_the_item_side_of_the_others(threads, earlier):
    given = with_start(earlier)
    del given["south"]["start"]
    outcome = threads("horizontal_mf", ROLES, given, ONE, run="joins")
    assert outcome.errors == {}
    for bank in BANKS:
        np.testing.assert_allclose(outcome.outputs[bank]["model"]["Q"], earlier["east"]["Q"], atol=1e-4)
    assert np.abs(outcome.outputs["south"]["model"]["P"]).max() < 0.03 * 6  # its own people start anew


def test_without_any_earlier_model_all_start_anew(threads):
    cold = threads("horizontal_mf", ROLES, inputs(1), ONE | {"warm_start": False}, run="cold")
    warm = threads("horizontal_mf", ROLES, inputs(1), ONE, run="nobody")
    assert cold.errors == warm.errors == {}
    np.testing.assert_array_equal(cold.outputs["east"]["model"]["Q"], warm.outputs["east"]["model"]["Q"])


def test_a_model_of_another_size_is_refused(threads, earlier):
    outcome = threads("horizontal_mf", ROLES, with_start(earlier), ONE | {"embedding_size": 5}, run="size")
    assert any(isinstance(error, DataError) for error in outcome.errors.values())


def test_a_part_holds_no_id(earlier):
    for array in earlier["east"].values():
        assert b"east7" not in np.ascontiguousarray(array).tobytes()


def test_rows_are_matched_by_key():
    keys = np.arange(48, dtype=np.uint8).reshape(3, 16)
    rows, before = rows_before(keys, keys[[2, 0]])
    assert (rows.tolist(), before.tolist()) == ([0, 2], [1, 0])
    assert rows_before(keys, keys[:0])[0].size == 0


def test_the_store_knows_registered_parts_by_digest_and_the_latest(tmp_path):
    store = Store(tmp_path)
    refs = [store.save({"Q": np.full(2, x)}) for x in (1.0, 2.0)]
    for model, ref in zip(("a" * 64, "b" * 64), refs, strict=True):
        store.list_model("nightly", model, Ref(ref.kind, ref.digest))
    assert store.read_model("nightly", "a" * 64)["Q"][0] == 1.0
    assert store.read_model("nightly", "latest")["Q"][0] == 2.0
    assert store.read_model("nightly", "c" * 64) is None
    assert store.read_model("weekly", "latest") is None


def test_the_component_asks_for_a_manifest_that_is_there(threads):
    outcome = threads("load_model", {"data_holder": BANKS}, {}, {"manifest": "0" * 64}, run="none")
    assert all(isinstance(outcome.errors[bank], DataError) for bank in BANKS)
    outcome = threads("load_model", {"data_holder": BANKS}, {}, {}, run="first")
    assert outcome.errors == {}
    assert outcome.outputs["east"] == {}
