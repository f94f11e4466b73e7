"""The four organisations on generated data, copied for every way to run, always with the same secrets."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from killable import KillableNodes
from ports import free_port, free_ports
from short_pipelines import project

from demo.airflow import Airflow
from demo.airflow_home import AirflowHome
from demo.consortium import PARTIES, Consortium
from demo.dag_run import run_dags
from demo.data import prepare
from demo.harness import PIPELINES, SEED, connection


@pytest.fixture(scope="session")
def original(tmp_path_factory):
    """The organisations before their first run; no test may change them."""
    ports = free_ports(PARTIES)
    consortium = Consortium(tmp_path_factory.mktemp("original"), ports=ports)
    prepare("synthetic", consortium.root / "parties", SEED)
    consortium.lay_out()
    consortium.sign()
    return consortium


@pytest.fixture(scope="session")
def fresh(original, tmp_path_factory):
    """A function that returns a copy of the organisations before their first run."""

    def copy(name):
        root = tmp_path_factory.mktemp(name) / "demo"
        shutil.copytree(original.root, root)
        return Consortium(root, ports=original._ports)

    return copy


@pytest.fixture(scope="session")
def outcome(repository):
    """A function that returns what has to be the same however a pipeline was started."""

    def ask(consortium, run):
        with consortium.client("north_bank", "cli") as client:
            found = client.call("report", {"run": run})
        assert found["state"] == "closed"
        return {"model": found["model"], "metrics": found["metrics"], "steps": sorted(found["steps"])}

    return ask


@pytest.fixture(scope="session")
def short(repository, tmp_path_factory):
    """A folder with DAGs and pipelines as shipped, but with less work in them."""
    return project(repository, tmp_path_factory.mktemp("short"))


@pytest.fixture(scope="session")
def approve(short):
    """A function that lets every approver approve both pipelines."""

    def ask(consortium):
        for name in PIPELINES:
            consortium.approve(short / "conf" / "pipelines" / f"{name}.yaml")

    return ask


@pytest.fixture(scope="session")
def in_process(fresh, approve, outcome, short, tmp_path_factory):
    """Both DAGs, run in one process on real nodes: (consortium with stopped nodes, Airflow's home, outcomes)."""
    with fresh("in_process") as consortium:
        approve(consortium)
        address = connection(consortium.home("north_bank"))
        home = AirflowHome(tmp_path_factory.mktemp("airflow"), address, dags=short / "dags")
        home.prepare()
        results = run_dags(home, PIPELINES, watch=lambda line: None)
        runs = {name: result["tasks"]["register"]["xcom"]["run"] for name, result in results.items()}
        found = {name: outcome(consortium, run) for name, run in runs.items()}
    return consortium, home, found


@pytest.fixture(scope="session")
def by_command(fresh, approve, short):
    """Both pipelines by `accord run`: {name: JSON}."""
    with fresh("by_command") as consortium:
        approve(consortium)
        return {name: _accord(short, consortium, "run", name) for name in PIPELINES}


@pytest.fixture(scope="session")
def simulated(fresh, short):
    """Both pipelines by `accord simulate`: {name: JSON}."""
    consortium = fresh("simulated")
    return {name: _accord(short, consortium, "simulate", name) for name in PIPELINES}


@pytest.fixture(scope="module")
def scheduled(fresh, approve, short, tmp_path_factory):
    """Nodes that can be halted, from fresh directories, and a real Airflow before them: (nodes, REST client)."""
    with KillableNodes(fresh("scheduled"), PARTIES) as nodes:
        approve(nodes.consortium)
        address = connection(nodes.consortium.home("north_bank"))
        home = AirflowHome(tmp_path_factory.mktemp("airflow"), address, dags=short / "dags", port=free_port())
        with Airflow(home) as airflow:
            yield nodes, airflow.rest


def _accord(short, consortium, command, name):
    pipeline = f"conf/pipelines/{name}.yaml"
    homes = str(consortium.root / "parties")
    done = subprocess.run(
        [str(Path(sys.executable).with_name("accord")), command, pipeline, "--homes", homes, "--json"],
        cwd=short, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
