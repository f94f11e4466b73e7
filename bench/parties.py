"""One step of some parties in threads of this process: real channels, doors, ledgers and keys over memory."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from base.errors import AccordError, Cancelled, StateError
from components.contract import Component, Outputs, RoleFunction
from crypto.node_keys import NodeKeys
from runtime.checkpoint import FileCheckpoint
from runtime.context import Services, StepContext
from runtime.execute import parse_params
from runtime.keys import PartyKeys
from runtime.randomness import Randomness
from runtime.spill import Spill
from transport.chain import OUT
from transport.channel import Channel
from transport.door import Door, PlanGuard
from transport.ledger import Ledger
from transport.ledger_store import MemoryLedgerStore
from transport.memory import MemoryExchange, MemoryInbox

RUN, STEP = "bench", "train"


@dataclass(frozen=True)
class Done:
    """How many bytes left all parties, and what each ended with."""

    bytes: int
    outputs: Mapping[str, Outputs]  # by party


@dataclass(frozen=True)
class Lasting:
    """Nodes that outlive a step: their keys, and the folder of what they keep."""

    folder: Path
    nodes: dict[str, NodeKeys] = field(default_factory=dict)


class _Watch:
    def metric(self, name: str, value: float, round_number: int | None) -> None:
        """Not looked at."""

    def progress(self, done: int, total: int, unit: str) -> None:
        """Not looked at."""


def run_step(
    part: Component,
    roles: Mapping[str, tuple[str, ...]],
    inputs: Mapping[str, Mapping[str, Any]],
    params: Mapping[str, Any],
    functions: Mapping[str, RoleFunction] | None = None,
    seed: int = 1,
    run: str = RUN,
    lasting: Lasting | None = None,
) -> Done:
    """Run a step; `functions` (role -> function) put another role function in place of the component's.

    With `lasting` the parties' keys and what they keep outlive the step, as between runs of a node.
    """
    parties = {party: role for role, members in roles.items() for party in members}
    nodes = {} if lasting is None else lasting.nodes
    keys = {party: nodes.setdefault(party, NodeKeys.generate()) for party in parties}
    publics = {party: own.public for party, own in keys.items()}
    table = part.table(params)
    exchange, guard = MemoryExchange(), PlanGuard(run, {STEP: (table, roles)})
    stores, stop = {party: MemoryLedgerStore() for party in parties}, list[AccordError]()

    def prepare(party: str, folder: Path) -> Callable[[], Outputs]:
        own = PartyKeys(party, keys[party], publics, folder if lasting is None else lasting.folder / party)
        ledger = Ledger(own, stores[party])
        carrier = exchange.join(Door(guard, ledger, MemoryInbox()))
        role = parties[party]
        channel = Channel(
            party,
            role,
            roles,
            run,
            STEP,
            1,
            table,
            carrier,
            ledger,
            cancelled=lambda: stop[0] if stop else None,
        )
        ctx = StepContext(
            run=run, step=STEP, attempt=1, party=party, role=role, roles=roles, inputs=inputs.get(party, {}),
            services=Services(own, party.encode() * 8, *NO_SERVICES),
            randomness=streams(seed, party), channel=channel,
            checkpoint=FileCheckpoint(folder / "checkpoints"),
            observer=_Watch(), spills=Spill(folder / "spill"),
        )  # fmt: skip
        function = (functions or {}).get(role, part.roles[role])
        return lambda: _run(function, ctx, parse_params(part, params, STEP), stop)

    with ExitStack() as stack:
        folders = {party: Path(stack.enter_context(tempfile.TemporaryDirectory())) for party in parties}
        work = [prepare(party, folders[party]) for party in parties]
        pool = stack.enter_context(ThreadPoolExecutor(len(work)))
        futures = [pool.submit(each) for each in work]
        outputs = {party: future.result() for party, future in zip(parties, futures, strict=True)}
    sent = sum(e.statement.size for store in stores.values() for e in store.entries(run) if e.direction == OUT)
    return Done(sent, outputs)


def streams(seed: int, party: str = "") -> Randomness:
    """Return the streams of a step that ran with this seed; the shared ones are the same whatever the party."""
    return Randomness(seed, f"bench/{STEP}", party.encode() * 8)


def _run(function: RoleFunction, ctx: StepContext, params: Any, stop: list[AccordError]) -> Outputs:
    try:
        return function(ctx, params)
    except Exception:  # whatever it is, the others must not wait for this party
        stop.append(Cancelled(f"the step failed at {ctx.party}"))
        raise


def _absent(*_: object) -> Any:
    raise StateError("a benchmark has no Spark, no feature specs and no data sets")


def _uncounted(*_: object) -> None:
    """Public data sets have no budget to keep; what a release costs is the step's own `epsilon`."""


NO_SERVICES = (_absent, _absent, _absent, _uncounted)  # spark, spec, data, charge of `Services`
