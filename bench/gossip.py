"""Sums without an aggregator beside sums with one: bytes of all parties, and what loss costs push-sum."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np

from bench.crypto_meter import check
from bench.frame import Case
from bench.lossy_network import LossyNetwork
from bench.parties import run_step
from components.contract import Component, Context, Outputs
from components.secure_sum import SumParams, add_once, open_total, sum_messages
from crypto.packing import Lanes
from models.push_sum import Node

SIZE = 30_000  # values of a sum, in lanes of 16 bits
NODES, NEAR = 64, 1e-3
MIB = 2**20


def data_holder(ctx: Context, params: SumParams) -> Outputs:
    """Add a vector to those of the others, and return the sum."""
    lanes = Lanes(16, 4, len(ctx.parties("data_holder")))
    values = ctx.private_rng("values").integers(-lanes.limit, lanes.limit, SIZE)
    return {"sum": {"total": open_total(ctx, params)(values / 16, lanes, 0, bytes(32))}}


PART = Component(
    "sum", {"data_holder": data_holder, "aggregator": add_once}, SumParams, sum_messages("a sum of random numbers")
)


def traffic(parties: int, topology: str) -> float:
    """Return MiB that leave all parties together for one sum."""
    roster = tuple(f"bank_{i:02}" for i in range(parties))
    roles = {"data_holder": roster} | ({"aggregator": ("bureau",)} if topology == "aggregator" else {})
    done = run_step(PART, roles, {}, {"topology": topology})
    totals = {done.outputs[party]["sum"]["total"].tobytes() for party in roster}
    check(len(totals) == 1)
    return done.bytes / MIB


def steps(loss: float) -> float:
    """Return the steps of halves until every node is near the average; shares that get lost are sent again."""
    rng = np.random.default_rng(1)
    nodes = [Node(k, rng.integers(2**28, 2**29, 100) * (1 + k % 3)) for k in range(NODES)]
    network, taken = LossyNetwork(nodes, loss, 0.0, rng), 0
    before = network.mass()
    while network.worst() > NEAR:
        network.step()
        taken += 1
    check(bool((network.mass()[0] == before[0]).all()) and network.mass()[1] == before[1])
    return float(taken)


@contextmanager
def cases() -> Iterator[list[Case]]:
    """Yield what is measured."""
    lost, smooth = partial(steps, 0.2), partial(steps, 0.0)
    yield [
        *(Case(f"one sum, {n} parties, no aggregator", "with an aggregator", "MiB",
               partial(traffic, n, "gossip"), partial(traffic, n, "aggregator"), once=True) for n in (3, 6, 9, 12)),
        Case(f"push-sum of {NODES} nodes to {100 * NEAR:g} %, 20 % lost", "nothing lost", "steps", lost, smooth,
             once=True),
    ]  # fmt: skip
