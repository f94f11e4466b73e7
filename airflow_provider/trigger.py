"""Waits in the triggerer for a step's end, so that a step of an hour holds no worker.

Its arguments lie in plain text in Airflow's database: a connection's name, a job, a key and two times, no secret. The
event carries one word; the operator asks the node itself how the job ended.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook
from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider.hook import NodeHook, open_client
from airflow_provider.status import FINAL, Progress
from base.errors import AccordError

if TYPE_CHECKING:
    from party_node.client import NodeClient

POLL_SECONDS = 1.0
PATIENCE_SECONDS = 60.0  # a node may restart meanwhile: its jobs go on


class StepTrigger(BaseTrigger):  # type: ignore[misc]
    """Fires once: with the final state, or `overdue` (deadline), or `lost` (the node does not answer)."""

    def __init__(self, conn_id: str, job: str, key: str, deadline: float, not_before: float) -> None:
        """Times are seconds since the epoch.

        `not_before`: after `defer()` the task's supervisor lingers for up to one heartbeat, and an event that fires
        meanwhile would resume the task under it (apache/airflow #72716, #71580).
        """
        super().__init__()
        self.conn_id, self.job, self.key = conn_id, job, key
        self.deadline, self.not_before = deadline, not_before
        # Flight calls block: they get a thread of their own, not one of the triggerer's shared pool.
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="accord-node")
        self._client: NodeClient | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what Airflow stores."""
        names = ("conn_id", "job", "key", "deadline", "not_before")
        return f"{type(self).__module__}.{type(self).__qualname__}", {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait for the end of the job and fire once."""
        await asyncio.sleep(self.not_before - time.time())
        yield TriggerEvent({"state": await self._outcome()})

    async def _outcome(self) -> str:
        progress, answered = Progress(), time.monotonic()
        while time.time() < self.deadline:
            try:
                status = await self._call("status", {"job": self.job})
            except AccordError as error:
                if not error.retryable or time.monotonic() - answered > PATIENCE_SECONDS:
                    return "lost"
                self.log.warning("The node does not answer; asking again. %s", error)
            else:
                answered = time.monotonic()
                for line in progress.lines(status):
                    self.log.info(line)
                if status["state"] in FINAL:
                    return str(status["state"])
            await asyncio.sleep(POLL_SECONDS)
        return "overdue"

    async def on_kill(self) -> None:
        """Stop the job, because a person cleared or marked the task; the key spares a newer attempt's job.

        Airflow calls this only while a triggerer holds the trigger. Otherwise the next try takes the job over, or the
        node ends it when nobody has watched it for `unwatched_minutes`.
        """
        self.log.info("Stopping job %s at the node", self.job)
        await self._call("cancel", {"job": self.job, "key": self.key})

    async def cleanup(self) -> None:
        """Give the thread back; the job goes on, because this runs at every exit, a triggerer's restart included."""
        if self._client is not None:
            self._pool.submit(self._client.close)
        self._pool.shutdown(wait=False)

    async def _call(self, method: str, body: dict[str, Any]) -> dict[str, Any]:
        if self._client is None:
            address = NodeHook(self.conn_id).address(await BaseHook.aget_connection(self.conn_id))
            self._client = await asyncio.wrap_future(self._pool.submit(open_client, address))
        return await asyncio.wrap_future(self._pool.submit(self._client.call, method, body))
