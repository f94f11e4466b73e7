"""One Airflow task drives one step of a pipeline at the organisation's own node; node speaks to node by itself.

The idempotency key is dag/run/step/try. The node answers the same key with the same job, lets a new try take over a job
that still runs, and otherwise starts the next attempt; a cancel carries the key, so that a late one of an earlier try
cannot stop its successor.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseOperator, BaseOperatorLink
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from airflow_provider.hook import DEFAULT_CONN_ID, NodeHook
from airflow_provider.status import FINAL, Progress, airflow_error, failures
from airflow_provider.trigger import StepTrigger
from base.errors import AccordError, DeadlinePassed

if TYPE_CHECKING:
    from airflow.sdk import Context

INLINE_SECONDS = 2.0  # a step that ends within this time is not worth a deferral
INLINE_POLL_SECONDS = 0.2
JOB = "job"  # XCom key of the reference to the running job


class TrackingLink(BaseOperatorLink):  # type: ignore[misc]
    """The button that leads from a task to the party's own MLflow run."""

    name = "MLflow"

    def get_link(self, operator: StepOperator, *, ti_key: Any) -> str:
        """Return the address that the node gave; nothing when the party keeps its runs in a file."""
        address = str(operator.reference.get("links", {}).get("mlflow", ""))
        return address if address.startswith(("http://", "https://")) else ""


class StepOperator(BaseOperator):  # type: ignore[misc]
    """Submits a step, waits for it without holding a worker, and fails with the failing party's error.

    Its XCom holds references: run, job, attempt and the digests of the outputs that this party keeps.
    """

    operator_extra_links = (TrackingLink(),)

    def __init__(
        self,
        *,
        pipeline: str,
        file: str,
        step: str,
        deadline: timedelta,
        conn_id: str = DEFAULT_CONN_ID,
        **kwargs: Any,
    ) -> None:
        """Take the `pipeline`'s YAML text, its `file` name for errors, and how long the `step` may take in all."""
        # Airflow's own timeout skips `resume` and is checked every 15 s: it stands behind the trigger's deadline.
        super().__init__(**kwargs)
        self.pipeline, self.file, self.step = pipeline, file, step
        self.deadline, self.conn_id = deadline, conn_id
        self.reference: dict[str, Any] = {}

    def execute(self, context: Context) -> dict[str, Any]:
        """Submit the step, give a short one the time to end, then wait in the triggerer."""
        self.reference = self._submit(context)
        context["ti"].xcom_push(key=JOB, value=self.reference)
        self.log.info("Submitted", step=self.step, **{name: self.reference[name] for name in ("run", "attempt", "job")})
        status = self._inline()
        if status["state"] not in FINAL:
            self._wait()
        return self._finish(status)

    def resume(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Go on when the trigger has fired; the node, not the event, says how the step ended."""
        self.reference = context["ti"].xcom_pull(key=JOB, task_ids=self.task_id)
        if event["state"] == "overdue":
            self._overdue()
        status = self._status()
        if status["state"] not in FINAL:  # the node was lost for a while and is back
            self._wait()
        return self._finish(status)

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Stop the job before failing when Airflow itself ended the deferral."""
        if next_method == "__fail__":
            self.reference = context["ti"].xcom_pull(key=JOB, task_ids=self.task_id)
            self.on_kill()
        return super().resume_execution(next_method, next_kwargs, context)

    def on_kill(self) -> None:
        """Stop the job of this try; Airflow calls it when a running task is cleared, marked or timed out."""
        if self.reference:
            self._call("cancel", {name: self.reference[name] for name in ("job", "key")})

    def _submit(self, context: Context) -> dict[str, Any]:
        ti = context["ti"]
        run_key = f"{ti.dag_id}/{ti.run_id}"
        body = {
            "pipeline": self.pipeline,
            "file": self.file,
            "step": self.step,
            "key": f"{run_key}/{self.step}/{ti.try_number}",
            "run_key": run_key,
            "seed": context["params"]["seed"],
            "deadline_seconds": self.deadline.total_seconds(),
        }
        answer = self._call("submit", body)
        reference = {name: answer[name] for name in ("job", "run", "attempt")}
        until = time.time() + self.deadline.total_seconds()
        return {**reference, "key": body["key"], "deadline": until, "links": answer.get("links", {})}

    def _inline(self) -> dict[str, Any]:
        progress, until = Progress(), time.monotonic() + INLINE_SECONDS
        while True:
            status = self._status()
            for line in progress.lines(status):
                self.log.info(line)
            if status["state"] in FINAL or time.monotonic() > until:
                return status
            time.sleep(INLINE_POLL_SECONDS)

    def _status(self) -> dict[str, Any]:
        return self._call("status", {"job": self.reference["job"]})

    def _wait(self) -> NoReturn:
        job, key, until = (self.reference[name] for name in ("job", "key", "deadline"))
        pause = conf.getfloat("workers", "min_heartbeat_interval") + 0.5
        trigger = StepTrigger(self.conn_id, job, key, deadline=until, not_before=time.time() + pause)
        left = timedelta(seconds=max(0.0, until - time.time()) + 60)
        raise TaskDeferred(trigger=trigger, method_name=self.resume.__name__, timeout=left)

    def _finish(self, status: dict[str, Any]) -> dict[str, Any]:
        if status["state"] != "succeeded":
            first, *others = failures(status)
            for error in others:
                self.log.error(str(error))
            self._fail(first)
        return {**{name: self.reference[name] for name in ("run", "job", "attempt")}, "outputs": status["outputs"]}

    def _overdue(self) -> NoReturn:
        self.on_kill()
        error = DeadlinePassed(
            f"step {self.step} has not ended in time and was stopped",
            expected=f"an end within {self.deadline.total_seconds() / 60:g} minutes",
            where=f"{self.file}, steps.{self.step}",
            remedy="look in the log for the party that is slow, or raise the step's deadline_minutes",
        )
        raise AirflowFailException(str(error))  # as slow as before: another try would not help

    def _call(self, method: str, body: dict[str, Any]) -> dict[str, Any]:
        try:
            with NodeHook(self.conn_id).get_conn() as node:
                return node.call(method, body)
        except AccordError as error:
            self._fail(error)

    def _fail(self, error: AccordError) -> NoReturn:
        self.log.error(str(error))  # as people read it, above Airflow's traceback
        raise airflow_error(error) from error
