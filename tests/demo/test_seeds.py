"""Arms over seeds: means, deviations, and a page that says where its figures come from."""

import json

import pytest

from demo.seeds import summarise, write_results

BY_SEED = [
    {"test": {"alone": 0.95, "federated": 0.90}, "cold": {"federated": 1.0}},
    {"test": {"alone": 0.97, "federated": 0.92}, "cold": {"federated": 1.2}},
]


def test_mean_and_deviation_worked_by_hand():
    found = summarise(BY_SEED)
    assert found["test"]["alone"] == {
        "mean": pytest.approx(0.96),
        "deviation": pytest.approx(0.0141421, abs=1e-6),
        "n": 2,
    }
    assert found["cold"]["federated"]["mean"] == pytest.approx(1.1)
    assert summarise(BY_SEED[:1])["test"]["alone"] == {"mean": pytest.approx(0.95), "deviation": 0.0, "n": 1}


def test_the_page_names_seeds_data_and_machine(tmp_path):
    report = {
        "arms_over_seeds": summarise(BY_SEED), "arms_by_seed": {"7": BY_SEED[0], "8": BY_SEED[1]}, "seconds": {},
        "aligned": None, "mlflow": {"north_bank": "a path of this machine"},
    }  # fmt: skip
    write_results({"data": {"source": "synthetic"}, "pipelines": {"horizontal_mf": report}}, tmp_path)
    page = (tmp_path / "arms.md").read_text()
    assert "seeds 7, 8" in page
    assert "synthetic data" in page
    assert "| test | 0.9600 ± 0.0141 | 0.9100 ± 0.0141 |" in page
    assert "path of this machine" not in (tmp_path / "arms.json").read_text()
    assert json.loads((tmp_path / "arms.json").read_text())["versions"]["gmpy2"]
