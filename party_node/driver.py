"""Run a pipeline step by step through its initiator's node, as Airflow does: submit, watch, next."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from base.errors import AccordError, from_wire
from party_node.client import NodeClient

ENDED = ("succeeded", "failed", "cancelled")
POLL_SECONDS = 0.25
Watch = Callable[[Mapping[str, Any]], None]


def run_steps(
    client: NodeClient, text: str, file: str, steps: list[str], run_key: str, *, seed: int | None, watch: Watch
) -> str:
    """Run the steps in order and return the run; steps of `run_key` that have succeeded are not run again.

    The pipeline has to be the one that the run of `run_key` began with, as has a seed that is given. Raises the error
    of the step that failed. `watch` hears every status; an interruption cancels the step.
    """
    run = ""
    tried = f"{time.time_ns():x}"
    for step in steps:
        key = f"{run_key}/{step}/{tried}"
        body = {"pipeline": text, "file": file, "step": step, "key": key, "run_key": run_key, "seed": seed}
        status = client.call("submit", {**body, "same_pipeline": True})
        run = status["run"]
        try:
            while status["state"] not in ENDED:
                watch(status)
                time.sleep(POLL_SECONDS)
                status = client.call("status", {"job": status["job"]})
        except BaseException:
            _cancel(client, status["job"], key)
            raise
        watch(status)
        if status["state"] != "succeeded":
            raise from_wire(status["error"])
    return run


def _cancel(client: NodeClient, job: str, key: str) -> None:
    """Ask the node to stop the step; when it cannot be asked, its lease on the job ends it."""
    try:
        client.call("cancel", {"job": job, "key": key}, seconds=5.0)
    except AccordError as error:
        error.add_note("the step could not be cancelled; the node stops it when nobody watches it")
        raise
