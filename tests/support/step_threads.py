"""One step of a few parties in threads: the real context, keys, channel, door and ledger over memory."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from recorder import Recorder

from base.errors import AccordError, Cancelled
from components.registry import component
from crypto.node_keys import NodeKeys
from runtime.checkpoint import FileCheckpoint
from runtime.context import Services, StepContext
from runtime.execute import parse_params
from runtime.keys import PartyKeys
from runtime.randomness import Randomness
from runtime.spending import MemoryBudgets, Spending
from runtime.spill import Spill
from transport.channel import Channel
from transport.door import Door, PlanGuard
from transport.ledger import Ledger
from transport.ledger_store import MemoryLedgerStore
from transport.memory import MemoryExchange, MemoryInbox


@dataclass
class Watcher:
    metrics: dict = field(default_factory=dict)

    def metric(self, name, value, round_number):
        self.metrics[name] = value

    def progress(self, done, total, unit):
        pass


@dataclass
class Outcome:
    outputs: dict = field(default_factory=dict)  # party -> outputs
    errors: dict = field(default_factory=dict)  # party -> the error that it raised
    parcels: dict = field(default_factory=dict)  # party -> what left it
    metrics: dict = field(default_factory=dict)


class Threads:
    """Parties that keep their keys from step to step."""

    def __init__(self, folder):
        self.folder, self._nodes, self._secrets = folder, {}, {}
        self.privacy, self.budgets = {}, {}  # the accord's limits by data set; what each party's have spent

    def __call__(
        self, part, roles, inputs, params=None, *, run="run", step="step", attempt=1, seed=1, functions=None, specs=None
    ):  # fmt: skip
        """Run one step; `functions` (party -> function) puts another role function in place of the component's.

        `specs` are the feature specs at each node, by party and name.
        """
        part = component(part) if isinstance(part, str) else part
        parties = {party: role for role, members in roles.items() for party in members}
        roles = {role: tuple(sorted(members)) for role, members in roles.items()}
        for party in parties:
            self._nodes.setdefault(party, NodeKeys.generate())
        publics = {party: self._nodes[party].public for party in parties}
        table = part.table(params or {})
        exchange, guard = MemoryExchange(), PlanGuard(run, {step: (table, roles)})
        outcome, stop = Outcome(), []

        def one(party):
            keys = PartyKeys(party, self._nodes[party], publics, self.folder / party)
            watcher = Watcher(outcome.metrics.setdefault(party, {}))
            spending = Spending("test", self.privacy, self.budgets.setdefault(party, MemoryBudgets()))
            specs_here = (specs or {}).get(party, {}).__getitem__
            services = Services(keys, party.encode() * 8, None, specs_here, None, spending.charge)
            channel = Channel(
                party, parties[party], roles, run, step, attempt, table, carriers[party], ledgers[party],
                deadline_seconds=300, cancelled=lambda: stop[0] if stop else None,
            )  # fmt: skip
            spills = Spill(self.folder / party / "spill")
            ctx = StepContext(
                run=run, step=step, attempt=attempt, party=party, role=parties[party], roles=roles,
                inputs=inputs.get(party, {}), services=services,
                randomness=Randomness(seed, f"test/{step}", party.encode() * 8), channel=channel,
                checkpoint=FileCheckpoint(self.folder / party / "checkpoints", None), observer=watcher,
                spills=spills,
            )  # fmt: skip
            try:
                function = (functions or {}).get(party, part.roles[parties[party]])
                with spills:
                    outcome.outputs[party] = function(ctx, parse_params(part, params or {}, step))
            except Exception as error:
                outcome.errors[party] = error
                stop.append(Cancelled(f"the step failed at {party}"))
                if not isinstance(error, AccordError):
                    raise

        ledgers, carriers = {}, {}
        for party in parties:
            (self.folder / party).mkdir(exist_ok=True)
            signer = PartyKeys(party, self._nodes[party], publics, self.folder / party)
            ledgers[party] = Ledger(signer, MemoryLedgerStore())
            parcels = outcome.parcels.setdefault(party, [])
            carriers[party] = Recorder(exchange.join(Door(guard, ledgers[party], MemoryInbox())), parcels)
        with ThreadPoolExecutor(len(parties)) as pool:
            list(pool.map(one, parties))
        return outcome
