"""The harness's arms: the same rows as the nodes clean and split, and an order that is the one of the alignment."""

import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from components import evaluate_ratings
from components.registry import component
from demo import pooled
from demo.data import prepare
from demo.raw_split import HarnessContext, alignment, clean_tables
from features.spec import load_all
from pipelines.load import load

PARTIES = ("north_bank", "south_bank", "west_bank", "bureau")


@pytest.fixture(scope="module")
def raw(tmp_path_factory, repository):
    folder = tmp_path_factory.mktemp("raw")
    manifest = prepare("synthetic", folder, 5)
    for party in PARTIES:
        shutil.copytree(repository / "feature_specs", folder / party / "feature_specs")
    return folder, manifest


def test_the_files_lose_the_dirt_that_was_put_in_and_nothing_else(raw):
    folder, manifest = raw
    for party, names in (("north_bank", ("ratings", "half_ratings", "catalogue")), ("bureau", ("people", "behaviour"))):
        for name, table in clean_tables(folder / party, names).items():
            assert len(table) == manifest["files"][f"{party}/{name}"]["clean"], name


def test_together_beats_alone_and_biases_and_all_beat_the_mean(raw, repository, monkeypatch):
    monkeypatch.setattr(pooled, "REGS", (0.05,))  # what suits the generated ratings; tuning over more is only slower
    spec = load(repository / "conf" / "pipelines" / "horizontal_mf.yaml").spec
    found = pooled.horizontal(raw[0], spec, seed=3)
    for part in ("validation", "test"):
        arms = [found[f"{arm}.{part}.rmse"] for arm in ("pooled", "alone", "mean")]
        assert arms == sorted(arms)
        assert arms[0] < found[f"pooled_biases.{part}.rmse"] < arms[2]
    # Only the mean is the same arm in a run and here; biases of each bank and of all are two.
    assert {name.split(".")[0] for name in found} & set(evaluate_ratings.ARMS) == {"mean"}
    assert found == pooled.horizontal(raw[0], spec, seed=3)
    assert found != pooled.horizontal(raw[0], spec, seed=4)


def test_the_cold_arm_has_the_groups_of_the_run(raw, repository):
    spec = load(repository / "conf" / "pipelines" / "vertical_mf.yaml").spec
    found = pooled.cold(raw[0], spec, b"x" * 32, seed=3)
    groups = ("all", "warm", "cold", "cold_0", "cold_3", "cold_10")
    assert set(found) == {f"pooled.{group}.rmse" for group in groups}
    assert all(0.5 < value < 1.2 for value in found.values())


def test_the_order_is_the_one_that_the_alignment_draws(threads, repository):
    bank = pa.table({"user_id": [f"C{n:07}" for n in (7, 3, 3, 12, 40, 9, 5)]})
    people = pa.table({"user_id": [f"C{n:07}" for n in (12, 3, 99, 40, 5)]})
    rule = load_all(repository / "feature_specs")["user"]
    bank, people = (table.replace_schema_metadata({"spec": "user"}) for table in (bank, people))

    def role(ctx, params):
        ctx = replace(ctx, services=replace(ctx.services, spec=lambda _: rule))
        return component("align_rsa").roles[ctx.role](ctx, params)

    outcome = threads(
        "align_rsa",
        {"receiver": ("bank",), "sender": ("bureau",)},
        {"bank": {"tables": {"ratings": bank}}, "bureau": {"tables": {"people": people}}},
        {"tables": {"bank": "ratings", "bureau": "people"}, "id_column": "user_id", "key_bits": 2048, "pad_to": 32,
         "min_overlap": 1, "on_duplicates": "all"},
        step="align", functions={"bank": role, "bureau": role},
    )  # fmt: skip
    assert outcome.errors == {}
    step = HarnessContext(SimpleNamespace(pipeline="test"), "align", 1, b"bank" * 8)
    found = alignment(step, bank, people)
    for name in ("row", "index"):
        np.testing.assert_array_equal(found[name], outcome.outputs["bank"]["alignment"][name])
