"""The main job from raw files to reports: data, four nodes, both DAGs under Airflow, what the parties then know.

    raw files -> consortium (keys, accord, nodes, approvals) -> DAG runs -> reports of all parties -> arms -> MLflow

Only the harness sees all raw files, and only for the pooled arms; a node never does.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from demo.airflow_home import AirflowHome
from demo.arms import compare, track
from demo.consortium import PARTIES, ROOT, Consortium
from demo.dag_run import run_dags
from demo.data import prepare, read
from demo.fetch import Raw
from pipelines.load import load
from pipelines.spec import PipelineSpec
from runtime.party import Home

PIPELINES = ("horizontal_mf", "vertical_mf")
SEED = 20261130  # of the raw files: who is whose customer, and the dirt
CACHE = ROOT / "var" / "cache" / "download"
STATE = ("node.db", "node.db-wal", "node.db-shm", "store", "inbox", "secrets", "mlflow.db", "mlflow", "logs")
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Demo:
    """Where the demo lives and what it runs on."""

    root: Path = ROOT / "var" / "demo"
    source: str = "movielens"
    pipelines: Sequence[str] = PIPELINES

    @property
    def consortium(self) -> Consortium:
        """The four organisations; ACCORD_PORT moves their nodes to other ports."""
        base = os.environ.get("ACCORD_PORT")
        return Consortium(self.root, ports={p: int(base) + n for n, p in enumerate(PARTIES)} if base else None)

    def file(self, pipeline: str) -> Path:
        """Return the YAML of a pipeline."""
        return ROOT / "conf" / "pipelines" / f"{pipeline}.yaml"

    def specs(self) -> dict[str, PipelineSpec]:
        """Return the pipelines by name."""
        return {pipeline: load(self.file(pipeline)).spec for pipeline in self.pipelines}

    def prepare(self, tell: Tell) -> dict[str, Any]:
        """Write the raw files and lay out the organisations afresh; keys stay, so the model digest can be compared."""
        consortium = self.consortium
        if all((consortium.directory(party) / "party.yaml").exists() for party in consortium.parties):
            consortium.stop()  # an earlier demo may have left its nodes running
        for party in consortium.parties:
            forget(consortium.directory(party))
        tell(f"raw files of four parties ({self.source})")
        manifest = prepare(self.source, self.root / "parties", SEED, CACHE)
        tell("keys, certificates and the signed accord")
        consortium.lay_out()
        consortium.sign()
        return manifest

    def raw(self) -> Raw:
        """Return the raw data before they are shared out."""
        return read(self.source, CACHE, SEED)

    def airflow(self) -> AirflowHome:
        """Return north_bank's Airflow, which drives north_bank's node alone."""
        home = self.consortium.home("north_bank")
        return AirflowHome(self.root / "airflow", connection(home))

    def run(self, tell: Tell) -> dict[str, Any]:
        """Run the DAGs on started and approved nodes; return {pipeline: report}."""
        consortium = self.consortium
        for pipeline in self.pipelines:
            consortium.approve(self.file(pipeline))
        airflow = self.airflow()
        airflow.prepare(fresh=True)
        began = time.monotonic()
        results = run_dags(airflow, self.pipelines, lambda line: tell_step(line, tell))
        tell(f"both DAGs are done after {time.monotonic() - began:.0f} s")
        return {pipeline: self.report(pipeline, result["tasks"]) for pipeline, result in results.items()}

    def report(self, pipeline: str, tasks: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Return what every party knows of a run, merged into one document."""
        run = next(iter(tasks.values()))["xcom"]["run"]
        spec = self.specs()[pipeline]
        found = {party: self._ask(party, run) for party in spec.parties}
        initiator = found[spec.initiator]
        return {
            "run": run,
            "status": "succeeded" if initiator["state"] == "closed" else initiator["state"],
            "aligned": initiator["steps"]["align"]["rows"] if "align" in initiator["steps"] else None,
            "seconds": {step: entry["seconds"] for step, entry in initiator["steps"].items()},
            "task_seconds": {step: task["seconds"] for step, task in tasks.items()},
            "rows": {step: entry["rows"] for step, entry in initiator["steps"].items()},
            "metrics": initiator["metrics"],
            "model": {party: report["model"] for party, report in found.items()},
            "outputs": {
                party: {step: entry["outputs"] for step, entry in report["steps"].items()}
                for party, report in found.items()
            },
            "messages": _messages(found),
            "ledger": {party: report["ledger"] for party, report in found.items()},
            "mlflow": {party: report["mlflow"] for party, report in found.items()},
            "audit": self._audit(initiator["party"], run),
        }

    def add_arms(self, reports: Mapping[str, dict[str, Any]]) -> None:
        """Add the arms to the reports, computed on the raw files with all nodes at rest, and write them to MLflow."""
        for pipeline, spec in self.specs().items():
            report = reports[pipeline]
            report["arms"] = compare(self.consortium, spec, report["metrics"])
            report["arms_mlflow"] = track(self.root / "harness", pipeline, report["run"], report["arms"])

    def _ask(self, party: str, run: str) -> dict[str, Any]:
        with self.consortium.client(party, "operator") as client:
            return dict(client.call("report", {"run": run}))

    def _audit(self, party: str, run: str) -> dict[str, Any]:
        with self.consortium.client(party, "operator") as client:
            return dict(client.call("audit", {"run": run}))


def connection(home: Home) -> dict[str, Any]:
    """Return the Airflow connection of a party's own node: host, port and paths, no key."""
    host, port = home.conf.advertise.rsplit(":", 1)
    certificate = home.path("keys", "clients", f"{home.party}.airflow.crt")
    files = {"ca": home.path("keys", "ca.crt"), "cert": certificate, "key": certificate.with_suffix(".key")}
    extra = {"party": home.party, **{name: str(path) for name, path in files.items()}}
    return {"host": host, "port": int(port), "extra": extra}


def forget(directory: Path) -> None:
    """Remove what a node has done; its keys and its configuration stay."""
    for name in STATE:
        path = directory / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _messages(reports: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return every message kind once, as its sender recorded it."""
    rows = [row for party, report in reports.items() for row in report["messages"] if row["sender"] == party]
    return sorted(rows, key=lambda row: (row["step"], row["name"], row["sender"], row["receiver"]))


def tell_step(line: Mapping[str, Any], tell: Tell) -> None:
    """Say that a step has been submitted, and of which pipeline: two may run one after the other."""
    if line.get("event") == "Submitted":
        tell(f"{line['pipeline']}: step {line['step']}, attempt {line['attempt']}")
