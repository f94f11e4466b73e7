"""What a training is measured against: a bare loop in one process, a node's start, a sum over many parties.

loop    the same local epochs and averages of `horizontal_mf`, one bank after the other in numpy; nothing is sent
start   CPU of a real node (service and worker) until it is idle, without that of its imports
sum     CPU of the aggregator of one secure sum, parties as threads of this process over memory
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import yaml

from base.errors import StateError
from bench.parties import run_step
from bench.training_run import Job
from components import horizontal_mf, secure_sum
from components.contract import Context, Outputs
from components.horizontal_mf import HorizontalMfParams
from crypto.packing import Lanes
from models import mf
from models.row_average import portions, row_weights
from party_node import launch
from party_node.identity import provision
from runtime.party import Home

IMPORTS = "import party_node.node", "import party_node.worker"
SETTLED = 1.5  # seconds in which an idle node takes next to no CPU
IDLE = 0.05  # CPU seconds
VALUES = 55_506
LANES = 16, 6


def loop(job: Job) -> float:
    """Return seconds of all rounds of `job` in one process; starting factors and weights are there before."""
    p = HorizontalMfParams(**job.params)
    rng, mu = np.random.default_rng(1), job.mu
    items = next(iter(job.shares.values())).items
    V = np.column_stack([np.zeros(items), mf.start_factors(rng, items, p.embedding_size, p.start_deviation)])
    models, data, weights = [], [], []
    for share in job.shares.values():
        P = mf.start_factors(rng, share.users, p.embedding_size, p.start_deviation)
        models.append(mf.Factors(mu, V[:, 1:].copy(), V[:, 0].copy(), P, np.zeros(share.users)))
        data.append(mf.Ratings(share.user, share.item, share.rating.astype(np.float64)))
        weights.append(row_weights(share.user, share.item, items, p.min_raters_per_item))
    W = np.sum(weights, axis=0)
    start = time.perf_counter()
    for _ in range(p.rounds):
        total = np.zeros_like(V)
        for model, ratings, w in zip(models, data, weights, strict=True):
            model.Q[:], model.b_item[:] = V[:, 1:], V[:, 0]
            for _ in range(p.local_epochs):
                order = rng.permutation(len(ratings))
                mf.epoch(model, ratings, order, p.learning_rate, p.reg, None, p.batch_size)
            total += portions(w, W)[:, None] * (np.column_stack([model.b_item, model.Q]) - V)
        V = V + total
    return time.perf_counter() - start


def start_cpu(home: Home) -> float:
    """Return CPU seconds of a node's start beyond its imports."""
    imports = sum(_import_cpu(command) for command in IMPORTS)
    launched = launch.start(home)
    try:
        launch.wait_healthy(home, launched)
        return _idle_cpu(home) - imports
    finally:
        launch.stop([home])
        if launched is not None:
            launched.wait()


def lone_node(root: Path) -> Home:
    """Make the home of a node without peers that listens at a free port of the loopback."""
    party = "bank_a"
    provision(root / party, party, root / "ca")
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    conf = {
        "party": party, "listen": address, "advertise": address, "peers": {party: address}, "data_sets": {},
        "clients": {f"{party}.operator": "operator"}, "feature_specs": "feature_specs",
    }  # fmt: skip
    (root / party / "party.yaml").write_text(yaml.safe_dump(conf), encoding="utf-8")
    return Home(root / party)


def sum_cpu(parties: int, rounds: int = 4) -> float:
    """Return CPU seconds of the aggregator for one party and one sum of `VALUES` values, keys included."""
    roles = {"data_holder": tuple(f"bank_{n:02}" for n in range(parties)), "aggregator": ("bureau",)}
    values, used = np.random.default_rng(1).normal(0, 1, VALUES), list[float]()

    def bank(ctx: Context, params: HorizontalMfParams) -> Outputs:
        total = secure_sum.open_total(ctx, params)
        for t in range(rounds):
            total(values, Lanes(*LANES, summands=parties), t, bytes(32))
        return {}

    def aggregator(ctx: Context, params: HorizontalMfParams) -> Outputs:
        start = time.thread_time()
        secure_sum.relay(ctx, params, range(rounds))
        used.append(time.thread_time() - start)
        return {}

    inputs: dict[str, dict[str, Any]] = {}
    run_step(horizontal_mf.COMPONENT, roles, inputs, {}, {"data_holder": bank, "aggregator": aggregator})
    return used[0] / rounds / parties


def _import_cpu(command: str) -> float:
    process = psutil.Popen([sys.executable, "-c", f"{command}; input()"], stdin=subprocess.PIPE)
    try:
        return _settled([process])
    finally:
        process.kill()
        process.communicate()


def _idle_cpu(home: Home) -> float:
    node = launch.running(home)
    if node is None:
        raise StateError("the node that was measured has ended", where=str(home.root))
    workers = node.children(recursive=True)
    if not workers:
        raise StateError("the node that was measured has no worker", where=str(home.root))
    return _settled([node, *workers])


def _settled(processes: list[psutil.Process]) -> float:
    """Return the CPU seconds of some processes when they have become idle."""
    last = -1.0
    while (used := sum(sum(process.cpu_times()[:2]) for process in processes)) > last + IDLE:
        last = used
        time.sleep(SETTLED)
    return used
