"""Builds an Airflow DAG from a pipeline's YAML: one task per step, the inputs are the dependencies.

A file in `dags/` is a loader of three lines and carries the name of its YAML, so a wrong YAML is the import error of
its own file and the other DAGs stay.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG, Param

from airflow_provider.operators import StepOperator
from pipelines.load import Pipeline, load

START = datetime(2020, 1, 1, tzinfo=UTC)  # before any run; there is no catch-up
RETRIES, RETRY_DELAY = 1, timedelta(seconds=10)


def build_dag(loader: str) -> DAG:
    """Return the DAG of `conf/pipelines/NAME.yaml` for the loader `dags/NAME.py`; `SpecError` with file, line, key."""
    path = Path(loader).resolve()
    return dag_of(load(path.parents[1] / "conf" / "pipelines" / f"{path.stem}.yaml"))


def dag_of(pipeline: Pipeline) -> DAG:
    """Return the DAG of a checked pipeline."""
    spec, file = pipeline.spec, Path(pipeline.name).name
    dag = DAG(
        spec.pipeline,
        description=spec.description,
        schedule=spec.schedule,
        start_date=START,
        catchup=False,
        max_active_runs=1,
        # Without a schedule nothing starts by itself, so a person's trigger need not wait for an unpause.
        is_paused_upon_creation=None if spec.schedule else False,
        tags=["accord", spec.accord],
        params={"seed": Param(spec.seed, type="integer", minimum=0, maximum=2**63 - 1)},
        default_args={"owner": spec.initiator, "retries": RETRIES, "retry_delay": RETRY_DELAY},
    )
    tasks = {
        name: StepOperator(
            task_id=name,
            dag=dag,
            pipeline=pipeline.text,
            file=file,
            step=name,
            deadline=timedelta(minutes=step.deadline_minutes),
            doc_md=f"component `{step.component}`",
        )
        for name, step in spec.steps.items()
    }
    for name, task in tasks.items():
        task.set_upstream([tasks[source] for source in spec.upstream(name)])
    return dag
