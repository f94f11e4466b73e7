from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta

import pytest
from airflow.dag_processing.dagbag import DagBag

from airflow_provider.factory import dag_of
from pipelines.load import loads

LOADER = '"""An Airflow DAG."""\n\nfrom airflow_provider.factory import build_dag\n\ndag = build_dag(__file__)\n'
HEAVY = ("torch", "pyspark", "mlflow", "crypto", "numpy", "pandas", "pyarrow", "great_expectations", "gmpy2")


@pytest.fixture
def folder(tmp_path, pipeline_text):
    """A clone in small: one good pipeline and its loader."""
    (tmp_path / "dags").mkdir()
    (tmp_path / "conf" / "pipelines").mkdir(parents=True)
    add(tmp_path, "small", pipeline_text)
    return tmp_path


def add(folder, name, text):
    (folder / "dags" / f"{name}.py").write_text(LOADER)
    (folder / "conf" / "pipelines" / f"{name}.yaml").write_text(text)


def test_one_task_a_step_and_the_inputs_are_the_dependencies(pipeline_text):
    dag = dag_of(loads(pipeline_text, "conf/pipelines/small.yaml"))
    assert (dag.dag_id, dag.schedule, dag.catchup, dag.max_active_runs) == ("small", None, False, 1)
    load, validate = dag.get_task("load"), dag.get_task("validate")
    assert (load.upstream_task_ids, validate.upstream_task_ids) == (set(), {"load"})
    assert (load.step, load.file, load.pipeline) == ("load", "small.yaml", pipeline_text)
    assert (load.deadline, validate.deadline) == (timedelta(minutes=30), timedelta(minutes=5))
    assert (load.owner, load.retries) == ("north_bank", 1)
    assert dag.params["seed"] == 7


def test_a_schedule_waits_for_a_person_and_a_pipeline_without_one_does_not(pipeline_text):
    nightly = dag_of(loads(pipeline_text.replace("seed: 7", 'seed: 7\nschedule: "0 3 * * *"'), "small.yaml"))
    assert (nightly.schedule, nightly.is_paused_upon_creation) == ("0 3 * * *", None)
    assert dag_of(loads(pipeline_text, "small.yaml")).is_paused_upon_creation is False


@pytest.mark.parametrize(
    ("old", "new", "line", "key"),
    [
        ("seed: 7", "seed: 7\nretries: 3", 5, "retries"),
        ("load_tables", "load_table", 8, "steps.load.component"),
        ("load.tables", "lode.tables", 9, "steps.validate.inputs.tables"),
        ("seed: 7", "seed: seven", 4, "seed"),
    ],
)
def test_a_wrong_yaml_is_its_own_import_error_and_the_other_dag_stays(folder, pipeline_text, old, new, line, key):
    add(folder, "broken", pipeline_text.replace("pipeline: small", "pipeline: broken").replace(old, new))
    bag = DagBag(dag_folder=folder / "dags")
    assert list(bag.dags) == ["small"]
    ((file, text),) = bag.import_errors.items()
    assert file.endswith("broken.py")
    assert f"broken.yaml:{line}, key {key}" in text
    assert "expected" in text
    assert "found" in text


def test_the_repositorys_dags_can_be_read(repository):
    bag = DagBag(dag_folder=repository / "dags")
    assert bag.import_errors == {}
    assert sorted(bag.dags) == ["horizontal_mf", "horizontal_ncf", "horizontal_slist", "vertical_mf"]
    assert {"load", "validate", "train", "evaluate", "register"} <= set(bag.dags["horizontal_mf"].task_ids)
    assert bag.dags["vertical_mf"].get_task("train").upstream_task_ids == {"split", "encode"}


@pytest.mark.parametrize("name", ["horizontal_mf", "vertical_mf"])
def test_reading_a_dag_file_imports_nothing_that_computes(repository, name):
    code = f"import json, runpy, sys; runpy.run_path('dags/{name}.py'); print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=repository, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = {module.split(".")[0] for module in json.loads(done.stdout.splitlines()[-1])}
    assert "airflow_provider" in loaded
    assert loaded.isdisjoint(HEAVY)
