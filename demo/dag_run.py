"""Runs DAGs to their end in one process, without a scheduler: `python -m demo.dag_run dags/NAME.py ...`.

`run_dags` starts it as a process of its own in the environment of an `AirflowHome`, so that whoever asks stays free of
Airflow; one process for all DAGs, because Airflow's start takes longer than most steps. Standard output is JSON, one
object to a line: Airflow's log, and after each DAG `{"result": {...}}` or `{"error": {...}}`.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from base.errors import AccordError, SpecError, StateError, from_wire
from demo.airflow_home import ROOT, AirflowHome

Watch = Callable[[dict[str, Any]], None]


def run_dags(home: AirflowHome, names: Sequence[str], watch: Watch) -> dict[str, dict[str, Any]]:
    """Run the DAGs one after another and return {name: {run_key, tasks: {task: {state, seconds, xcom}}}}.

    `watch` gets each line that the provider logs: {pipeline, event, logger, timestamp, ...}; a submitted step is
    {event: "Submitted", step, run, attempt, job}. The whole log is in `dag_run.log` of the home. Raises the first
    DAG's error.
    """
    command = [sys.executable, "-m", "demo.dag_run", *(str(home.dags / f"{name}.py") for name in names)]
    with (
        open(home.home / "dag_run.log", "w") as log,
        subprocess.Popen(
            command, env=home.environment(), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process,
    ):
        try:
            results = _read(process, names, log.write, watch)
        finally:
            _end(process)
    if len(results) < len(names):
        raise StateError(
            "the process that runs the DAGs ended early", found=process.returncode, where=f"{home.home}/dag_run.log"
        )
    return dict(zip(names, results, strict=True))


def _read(
    process: subprocess.Popen[str], names: Sequence[str], keep: Callable[[str], Any], watch: Watch
) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = []
    for line in process.stdout or ():
        keep(line)
        document = _json(line)
        if "error" in document and "logger" not in document:
            raise from_wire(document["error"])
        if "result" in document:
            results.append(document["result"])
        elif "airflow_provider." in document.get("logger", ""):
            watch({"pipeline": names[len(results)], **document})
    return results


def _end(process: subprocess.Popen[str]) -> None:
    """Stop a process that still runs; Airflow's handler of the signal cancels the step at the node first."""
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()


def _json(line: str) -> dict[str, Any]:
    if not line.startswith("{"):  # a library's plain line
        return {}
    return dict(json.loads(line))


def run(loader: str) -> dict[str, Any]:
    """Run the one DAG of a file in this process; every task of it has succeeded."""
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=loader)
    for file, error in bag.import_errors.items():
        raise SpecError("the DAG cannot be read", found=error, where=file)
    (dag,) = bag.dags.values()
    now = datetime.now(UTC)
    # Outside its dates a DAG runs nothing and calls that a success.
    if not (dag.start_date or now) <= now <= (dag.end_date or now):
        raise SpecError("the DAG's dates do not hold today", expected=dag.start_date, found=now, where=dag.dag_id)
    done = dag.test(logical_date=now)
    tasks = {ti.task_id: _task(ti) for ti in done.get_task_instances()}
    bad = {name: tasks.get(name, {}).get("state", "never started") for name in dag.task_ids}
    bad = {name: state for name, state in bad.items() if state != "success"}
    if bad:
        raise StateError("tasks of the DAG have not succeeded", expected="success", found=bad, where=dag.dag_id)
    return {"run_key": f"{dag.dag_id}/{done.run_id}", "tasks": tasks}


def _task(ti: Any) -> dict[str, Any]:
    seconds = (ti.end_date - ti.start_date).total_seconds() if ti.end_date else None
    return {"state": str(ti.state), "seconds": seconds, "xcom": ti.xcom_pull(task_ids=ti.task_id)}


def _lines(loaders: Sequence[str]) -> Iterator[dict[str, Any]]:
    for loader in loaders:
        try:
            yield {"result": run(loader)}
        except AccordError as error:
            yield {"error": error.to_wire()}
            return


if __name__ == "__main__":
    gc.disable()  # more than half of Airflow's start is collection that finds nothing; the process lives for minutes
    for answer in _lines(sys.argv[1:]):
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    os._exit(0)  # taking Airflow apart would take seconds; nothing of it is needed any more
