from __future__ import annotations

import socket
import sqlite3
import stat

import pytest
from ports import free_port

from base.errors import EnvironmentMissing, SpecError, StateError
from demo.airflow import Airflow, require_port
from demo.airflow_home import AirflowHome
from demo.dag_run import run_dags
from demo.harness import tell_step

LOADER = '"""An Airflow DAG."""\n\nfrom airflow_provider.factory import build_dag\n\ndag = build_dag(__file__)\n'
PIPELINE = """\
pipeline: small
accord: demo
seed: 7
initiator: north_bank
roles: {data_holder: [north_bank, south_bank]}
steps:
  load: {component: load_tables, params: {data_sets: {north_bank: [ratings], south_bank: [ratings]}}}
  validate: {component: validate_tables, inputs: {tables: load.tables}}
"""


@pytest.fixture
def home(tmp_path):
    """A home with one DAG of two steps, whose connection names certificates that do not exist."""
    (tmp_path / "conf" / "pipelines").mkdir(parents=True)
    (tmp_path / "conf" / "pipelines" / "small.yaml").write_text(PIPELINE)
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "small.py").write_text(LOADER)
    missing = {name: str(tmp_path / f"{name}.pem") for name in ("ca", "cert", "key")}
    connection = {"host": "127.0.0.1", "port": 7401, "extra": {"party": "north_bank", **missing}}
    found = AirflowHome(tmp_path / "home", connection, dags=tmp_path / "dags", port=free_port())
    found.prepare()
    return found


def test_a_home_has_a_migrated_database_and_keys_of_its_own(home, tmp_path):
    with sqlite3.connect(home.home / "airflow.db") as database:
        assert database.execute("select count(*) from alembic_version").fetchone() == (1,)
        assert database.execute("select count(*) from dag_run").fetchone() == (0,)
    other = AirflowHome(tmp_path / "other", home.connection)
    other.prepare()
    for key in ("CORE__FERNET_KEY", "API_AUTH__JWT_SECRET", "API__SECRET_KEY"):
        assert home.environment()[f"AIRFLOW__{key}"] == home.environment()[f"AIRFLOW__{key}"]
        assert home.environment()[f"AIRFLOW__{key}"] != other.environment()[f"AIRFLOW__{key}"]
    assert len(home.environment()["AIRFLOW__API_AUTH__JWT_SECRET"]) >= 64
    assert stat.S_IMODE((home.home / "keys.json").stat().st_mode) == 0o600


def test_a_taken_port_is_named_before_anything_starts(home):
    with socket.create_server(("127.0.0.1", home.port)):
        with pytest.raises(EnvironmentMissing) as raised:
            require_port(home.port)
        with pytest.raises(EnvironmentMissing, match="a port is taken"):
            Airflow(home).start()
    assert str(home.port) in raised.value.found
    assert "AIRFLOW_PORT" in raised.value.remedy


@pytest.mark.airflow
def test_a_wrong_yaml_stops_the_run_with_file_line_and_key(home):
    (home.dags.parent / "conf" / "pipelines" / "small.yaml").write_text(PIPELINE.replace("load_tables", "load_table"))
    with pytest.raises(SpecError) as raised:
        run_dags(home, ["small"], watch=lambda line: None)
    assert "small.yaml:7, key steps.load.component" in raised.value.found


@pytest.mark.airflow
def test_a_dag_whose_tasks_fail_is_an_error_and_the_log_says_why(home):
    lines = []
    with pytest.raises(StateError) as raised:
        run_dags(home, ["small"], watch=lines.append)
    assert raised.value.found == "{'load': 'failed', 'validate': 'upstream_failed'}"
    assert {line["pipeline"] for line in lines} == {"small"}
    (error,) = [line["event"] for line in lines if line["level"] == "error"]
    assert "the Airflow connection to the party node is not usable" in error
    assert "remedy" in error


def test_a_line_of_the_screen_names_its_pipeline():
    said = []
    for event in ("Submitted", "Waiting"):
        tell_step({"event": event, "pipeline": "vertical_mf", "step": "align", "attempt": 2}, said.append)
    assert said == ["vertical_mf: step align, attempt 2"]
