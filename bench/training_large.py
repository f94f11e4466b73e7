"""20 million ratings of 120,000 people at three banks, drawn from the marginals of ML-1M, on the cores of one machine.

How many ratings a person has, and which item a rating is of with which value, are drawn from ML-1M, each for itself. A
bank's largest resident size stands in the JSON file after every round: it may not grow with rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from bench.frame import Case
from bench.sets import BANKS
from bench.training_run import Job, Run, Share, Trainer, shared_out

USERS, RATINGS = 120_000, 20_000_000
PARAMS = {"embedding_size": 16, "rounds": 3, "local_epochs": 1}
GROWTH = 1.02  # of the resident size between two rounds that is allocation and no state
GB = 1e9


def drawn(users: int, ratings: int, like: Mapping[str, Share]) -> dict[str, Share]:
    """Return at most `ratings` ratings of `users` people, with the marginals of `like`."""
    rng = np.random.default_rng(1)
    activity = np.concatenate([np.bincount(share.user) for share in like.values()])
    item, rating = (np.concatenate([getattr(share, name) for share in like.values()]) for name in ("item", "rating"))
    items, found = next(iter(like.values())).items, dict[str, Share]()
    for bank in BANKS:
        people, most = users // len(BANKS), ratings // len(BANKS)
        each = rng.choice(activity, people)
        # A pair that is drawn again is left out, so more are drawn than are wanted.
        user = np.repeat(np.arange(people, dtype=np.int64), np.ceil(each * 1.35 * most / each.sum()).astype(np.int64))
        rows = rng.integers(0, len(item), len(user))
        _, first = np.unique(user * items + item[rows], return_index=True)
        kept = np.sort(rng.permutation(first)[:most])
        columns = user[kept].astype(np.int32), item[rows[kept]], rating[rows[kept]]
        found[bank] = Share(*columns, people, items)
    return found


@dataclass
class Large:
    """One training, made when it is first asked for."""

    trainer: Trainer
    users: int = USERS
    ratings: int = RATINGS
    header: dict[str, Any] = field(default_factory=dict)  # grows when it has run

    @cached_property
    def run(self) -> Run:
        """Return it."""
        run = self.trainer.train(self.job, "secagg")
        banks = {bank: {"users": share.users, "ratings": len(share.rating)} for bank, share in self.job.shares.items()}
        self.header["large"] = {"data": self.job.data, "banks": banks, "params": PARAMS, "run": run.document()}
        return run

    @cached_property
    def job(self) -> Job:
        """Return what is trained."""
        origin, like = shared_out("ml-1m")
        shares = drawn(self.users, self.ratings, like)
        name = f"{self.ratings / 1e6:g} million ratings"
        return Job(name, f"drawn from the marginals of {origin}", shares, PARAMS)

    def peak(self, after: int) -> float:
        """Return GB of the largest bank at the end of a round, from 1."""
        return max(sizes[after - 1] for sizes in self.run.memory.values()) / GB

    def rate(self, seconds: Callable[[Run], float]) -> float:
        """Return seconds for a million ratings and epoch."""
        ratings = sum(len(share.rating) for share in self.job.shares.values())
        return seconds(self.run) / (ratings / 1e6) / (PARAMS["rounds"] * PARAMS["local_epochs"])


def large(found: Large) -> Iterator[Case]:
    """Yield the cases."""
    name, last = f"{found.users:,} people, {found.ratings:,} ratings", PARAMS["rounds"]
    yield Case(f"{name}: memory of a bank after round {last}", "after round 1", "GB", lambda: found.peak(last),
               lambda: found.peak(1), f"<= {GROWTH}", once=True)  # fmt: skip
    for unit, seconds in (("s", lambda run: run.wall), ("CPU-s", lambda run: run.cpu_seconds)):
        yield Case(f"{name}: a million ratings and epoch", "", unit, partial(found.rate, seconds), None, once=True)
