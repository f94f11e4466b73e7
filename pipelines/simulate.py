"""A whole pipeline in one process: the same role functions, each party in a thread, messages in memory.

Consent, message tables, ledgers, keys and encryption are the real ones; only the network and the processes are absent.
The parties' secrets come from their home directories, so a simulation ends with the same model digest as their nodes.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from base.errors import AccordError, Cancelled, SpecError
from components.registry import component
from features import spark as spark_session
from pipelines.accord import SignedAccord
from pipelines.plan import plan_guard
from pipelines.spec import PipelineSpec
from runtime.artifacts import Ref, Store
from runtime.context import Observer, Services
from runtime.execute import StepTask, execute, parse_params
from runtime.party import Home
from runtime.services import party_keys, services
from runtime.spending import MemoryBudgets, Spending
from transport.channel import Carrier, Channel
from transport.door import Door
from transport.ledger import Ledger
from transport.ledger_store import MemoryLedgerStore
from transport.memory import MemoryExchange, MemoryInbox


class Exchange(Protocol):
    """Joins the doors of the parties: in memory by default; a test joins them over mutual TLS."""

    def join(self, door: Door) -> Carrier:
        """Add a party by its door and return its carrier."""


@dataclass
class Party:
    """One party of a simulation."""

    home: Home
    services: Services
    store: Store
    ledger: Ledger
    carrier: Carrier


@dataclass
class Simulation:
    """What a simulation leaves: outputs by step and party, seconds by step, ledgers, and what was observed."""

    run: str  # new for each simulation: a node's key store remembers the rounds of a run
    parties: Mapping[str, Party]
    outputs: dict[str, dict[str, dict[str, Ref]]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    metrics: dict[str, dict[str, list[tuple[str, float, int | None]]]] = field(default_factory=dict)

    def artefact(self, step: str, output: str, party: str) -> Any:
        """Return an output of a step at a party."""
        return self.parties[party].store.load(self.outputs[step][party][output])

    @property
    def model_digest(self) -> str | None:
        """Digest of the registered model, the same at every party that signed the manifest."""
        for step in self.outputs.values():
            for party, refs in step.items():
                if "manifest" in refs:
                    return str(self.parties[party].store.load(refs["manifest"])["model"])
        return None


class _Recorder(Observer):
    def __init__(self, points: list[tuple[str, float, int | None]], progress: Callable[[int, int, str], None]) -> None:
        self._points, self._progress = points, progress

    def metric(self, name: str, value: float, round_number: int | None) -> None:
        self._points.append((name, value, round_number))

    def progress(self, done: int, total: int, unit: str) -> None:
        self._progress(done, total, unit)


def simulate(
    spec: PipelineSpec,
    accord: SignedAccord,
    homes: Mapping[str, Home],
    store_root: Path,
    *,
    seed: int | None = None,
    until: str | None = None,
    exchange: Exchange | None = None,
    progress: Callable[[str, str, int, int, str], None] = lambda step, party, done, total, unit: None,
) -> Simulation:
    """Run the steps in order (to `until`, included) and return what they left."""
    if until is not None and until not in spec.steps:
        raise SpecError("unknown step", expected=", ".join(spec.steps), found=until, remedy="correct --until")
    accord.verify(datetime.now(UTC).date())
    accord.admit(spec)
    for name, step in spec.steps.items():
        parse_params(component(step.component), step.params, f"step {name}")
    run_seed = spec.seed if seed is None else seed
    spark = homes[spec.initiator].conf.spark
    run = f"simulation-{secrets.token_hex(8)}"
    simulation = Simulation(
        run,
        _parties(
            run, spec, accord, homes, store_root,
            lambda: spark_session.session(spark.master, spark.options), exchange or MemoryExchange(),
        ),
    )  # fmt: skip
    for name in spec.steps:
        started = time.monotonic()
        simulation.outputs[name] = _step(spec, name, run_seed, simulation, progress)
        simulation.seconds[name] = time.monotonic() - started
        if name == until:
            break
    return simulation


def _parties(
    run: str,
    spec: PipelineSpec,
    accord: SignedAccord,
    homes: Mapping[str, Home],
    root: Path,
    spark: Callable[[], Any],
    exchange: Exchange,
) -> dict[str, Party]:
    guard = plan_guard(run, spec)
    peers = {party: terms.keys for party, terms in accord.terms.parties.items()}
    found = {}
    for party in spec.parties:
        keys = party_keys(homes[party], peers, spec.accord)
        ledger = Ledger(keys, MemoryLedgerStore())
        carrier = exchange.join(Door(guard, ledger, MemoryInbox()))
        entries = {k: v.model_dump(mode="json") for k, v in accord.terms.parties[party].data_sets.items()}
        limits = accord.terms.model_dump(mode="json")["privacy"]
        spending = Spending(spec.accord, limits, MemoryBudgets())  # nothing leaves: it costs the parties nothing
        offered = services(homes[party], keys, entries, spark, spending.charge)
        found[party] = Party(homes[party], offered, Store(root / party), ledger, carrier)
    return found


def _step(
    spec: PipelineSpec, name: str, seed: int, simulation: Simulation, progress: Callable[..., None]
) -> dict[str, dict[str, Ref]]:
    step = spec.steps[name]
    part = component(step.component)
    roles = spec.step_roles(name)
    stop: list[AccordError] = []

    def one(party: str, role: str) -> dict[str, Ref]:
        at = simulation.parties[party]
        task = StepTask(
            run=simulation.run, pipeline=spec.pipeline, step=name, attempt=1, seed=seed, component=step.component,
            params=step.params, inputs=step.inputs, roles=roles, party=party,
        )  # fmt: skip
        channel = Channel(
            party, role, roles, simulation.run, name, 1, part.table(step.params), at.carrier, at.ledger,
            deadline_seconds=step.deadline_minutes * 60, cancelled=lambda: stop[0] if stop else None,
        )  # fmt: skip
        points = simulation.metrics.setdefault(name, {}).setdefault(party, [])
        watcher = _Recorder(points, lambda done, total, unit: progress(name, party, done, total, unit))
        return execute(task, at.store, at.services, channel, watcher)

    members = [(party, role) for role, parties in roles.items() for party in parties]
    with ThreadPoolExecutor(len(members)) as pool:
        futures = {party: pool.submit(one, party, role) for party, role in members}
        done, _ = wait(futures.values(), return_when=FIRST_EXCEPTION)
        failed = next((f for f in done if f.exception() is not None), None)
        if failed is not None:
            culprit = next(party for party, f in futures.items() if f is failed)
            stop.append(Cancelled(f"the step failed at {culprit}"))
            error = failed.exception()
            if isinstance(error, AccordError) and error.party is None:
                error.party = culprit
            assert error is not None
            raise error
    return {party: future.result() for party, future in futures.items()}
