"""A party's MLflow: nested runs, metrics by round, and a registered part that scores as the evaluation does."""

import mlflow
import numpy as np
import pandas as pd
import pytest

from components.released_statistics import as_arrays
from models import mf, ncf, vertical
from models.histories import Histories
from models.scoring import KINDS, whole
from monitoring.tracking import CHALLENGER, Tracker, prepare_store

USER, ITEM = np.array([0, 2, 3], np.int32), np.array([1, 0, 4], np.int32)


@pytest.fixture(scope="module")
def tracker(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mlflow")
    prepare_store(folder / "mlflow.db", folder / "template.db")
    return Tracker(f"sqlite:///{folder / 'mlflow.db'}", folder / "artifacts")


def _registered(tracker, name, part):
    run = tracker.pipeline_run(name, f"run-{name}", {"accord.party": "north_bank"})
    version = tracker.register(run, name, part, {"model": "digest"}, {"model": "digest"})
    found = tracker.client.get_model_version_by_alias(name, CHALLENGER)
    assert (str(found.version), found.tags["model"]) == (version, "digest")
    return mlflow.pyfunc.load_model(f"models:/{name}@{CHALLENGER}")


def test_a_horizontal_part_scores_as_the_evaluation_does(tracker):
    rng = np.random.default_rng(1)
    part = {
        "mu": np.array(3.5), "Q": rng.normal(size=(5, 3)), "b_item": rng.normal(size=5), "b_own": rng.normal(size=5),
        "Q_own": rng.normal(size=(5, 3)),
        "P": rng.normal(size=(4, 3)), "b_user": rng.normal(size=4),
    }  # fmt: skip
    scores = _registered(tracker, "horizontal", part).predict(pd.DataFrame({"user": USER, "item": ITEM}))
    assert np.allclose(scores, mf.predict(whole(part), USER, ITEM))


def test_a_vertical_part_scores_as_the_evaluation_does(tracker):
    rng = np.random.default_rng(2)
    part = {
        "mu": np.array(3.5), "Q": rng.normal(size=(5, 3)), "b_item": rng.normal(size=5), "P": rng.normal(size=(4, 4)),
        "s": rng.normal(size=(4, 4)),
    }  # fmt: skip
    scores = _registered(tracker, "vertical", part).predict(pd.DataFrame({"user": USER, "item": ITEM}))
    model = vertical.Factors(3.5, part["b_item"], part["Q"], part["P"])
    assert np.allclose(scores, vertical.predict(model, part["s"], USER, ITEM))


@pytest.mark.parametrize("form", [[2, 0], [0, 2, 3, 2], [2, 2, 3, 2]], ids=["gmf", "mlp", "neumf"])
def test_an_ncf_part_scores_as_the_evaluation_does(tracker, form):
    rng, shared = np.random.default_rng(4), np.arange(5)[:, None] < 3
    V, P = (rng.normal(size=(n, sum(form[:2]))) for n in (5, 4))
    part = {
        "form": np.array(form), "V": V * shared, "V_own": V * ~shared, "P": P,
        "layers": rng.normal(size=ncf.Form.of(np.array(form)).size),
    }  # fmt: skip
    scores = _registered(tracker, "ncf", part).predict(pd.DataFrame({"user": USER, "item": ITEM}))
    h = Histories(np.array([], np.int32), np.array([], np.int32), 4, 5)
    assert np.allclose(scores, KINDS["ncf"].scores(part, h, np.arange(4))[USER, ITEM])


@pytest.mark.parametrize("kind", ["ease", "slist", "ials"])
def test_a_part_of_a_model_from_sums_scores_as_the_evaluation_does(tracker, kind):
    rng = np.random.default_rng(3)
    h = Histories(np.array([0, 0, 2, 2, 2, 3], np.int32), np.array([3, 1, 0, 4, 2, 1], np.int32), 4, 5)
    part = {"Q": rng.normal(size=(5, 3)), "Q_own": rng.normal(size=(5, 3)), "P": rng.normal(size=(4, 3))}
    if kind != "ials":
        part = {"B": rng.normal(size=(5, 5)), **as_arrays(h)}
    if kind == "slist":
        part["input_decay"] = np.array(2.0)
    scores = _registered(tracker, kind, part).predict(pd.DataFrame({"user": USER, "item": ITEM}))
    assert np.allclose(scores, KINDS[kind].scores(part, h, np.arange(4))[USER, ITEM])


def test_steps_are_nested_with_their_metrics_by_round(tracker):
    parent = tracker.pipeline_run("nightly", "run-1", {"accord.party": "north_bank"})
    assert tracker.pipeline_run("nightly", "run-1", {}) == parent
    points = [("train_rmse", 1.0 - t / 10, t) for t in range(3)]
    step = tracker.step_run(parent, "nightly", "train", {"rounds": 3}, points, {"accord.run": "run-1"})
    tracker.finish(parent, {"ledger.json": {"entries": 2}})
    assert tracker.client.get_run(step).data.tags["mlflow.parentRunId"] == parent
    assert [m.value for m in tracker.client.get_metric_history(step, "train_rmse")] == [1.0, 0.9, 0.8]
    assert [file.path for file in tracker.client.list_artifacts(parent)] == ["ledger.json"]
    assert tracker.client.get_run(parent).info.status == "FINISHED"
