"""Seconds and bytes of a `horizontal_mf` round: protected and in the clear, against the same loop in one process.

Three banks, 943 customers, 1,682 items, 100,000 generated ratings with a long tail; every thread on the same machine.
The first round, which makes the key and sums every row, does not count in the seconds; bytes are of the whole step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from base.canonical import digest
from bench.frame import Case
from bench.parties import Timed, open_sum, run_step
from components import horizontal_mf
from components.contract import Context, Outputs
from components.horizontal_mf import HorizontalMfParams
from crypto.packing import Lanes

BANKS = ("bank_a", "bank_b", "bank_c")
ROLES = {"data_holder": BANKS, "aggregator": ("bureau",)}
USERS, ITEMS, RATINGS = 943, 1682, 100_000
PARAMS = {"rounds": 3}


@contextmanager
def cases() -> Iterator[list[Case]]:
    """Yield the cases; bytes are those of the last run of the same arm."""
    inputs, last = _inputs(np.random.default_rng(1)), dict[str, Timed]()

    def arm(name: str, run: Callable[[], Timed]) -> Callable[[], float]:
        def seconds() -> float:
            last[name] = run()
            return last[name].seconds_of_a_round

        return seconds

    def protected(name: str) -> Callable[[], Timed]:
        params = {**PARAMS, "protection": name}
        return lambda: run_step(horizontal_mf.COMPONENT, ROLES, inputs, params)

    loop = arm("loop", lambda: run_step(horizontal_mf.COMPONENT, ROLES, inputs, PARAMS, _loop()))
    clear, secagg, paillier = (arm(name, protected(name)) for name in ("plain", "secagg", "paillier"))

    def sent(name: str) -> Callable[[], float]:
        return lambda: last[name].bytes / 2**20

    yield [
        Case("round, plain", "loop in one process", "s", clear, loop),
        Case("round, secagg", "plain", "s", secagg, clear),
        Case("round, paillier", "plain", "s", paillier, clear),
        Case("step of 3 rounds, secagg", "plain", "MiB", sent("secagg"), sent("plain")),
        Case("step of 3 rounds, paillier", "plain", "MiB", sent("paillier"), sent("plain")),
    ]


def _loop() -> dict[str, Callable[[Context, Any], Outputs]]:
    add = open_sum(len(BANKS))

    def bank(ctx: Context, params: HorizontalMfParams) -> Outputs:
        def total(
            values: np.ndarray, lanes: Lanes, round_number: int, bound: bytes, name: str = "vector"
        ) -> np.ndarray:
            q = np.ldexp(lanes.quantise(values, name).astype(np.float64), -lanes.fraction)
            return np.asarray(add(ctx.party, round_number, q))

        return horizontal_mf.train(ctx, params, horizontal_mf.load(ctx, params), total)

    return {"data_holder": bank, "aggregator": lambda ctx, params: {}}


def _inputs(rng: np.random.Generator) -> dict[str, Mapping[str, Any]]:
    """Return each bank's split ratings: popularity falls as 1 / (rank + 30), activity is log-normal."""
    popularity, activity = 1 / (np.arange(ITEMS) + 30.0), rng.lognormal(0, 1, USERS)
    weight = np.outer(activity / activity.sum(), popularity / popularity.sum()).ravel()
    pairs = rng.choice(weight.size, RATINGS, replace=False, p=weight)
    user, item = np.divmod(pairs, ITEMS)
    rating = rng.integers(1, 6, RATINGS)
    catalogue = [f"{i:04}" for i in range(ITEMS)]
    statistics = {"mean": float(rating.mean()), "catalogue": digest(catalogue)}
    found: dict[str, Mapping[str, Any]] = {}
    for n, bank in enumerate(BANKS):
        mine = user % len(BANKS) == n
        columns = (
            (user[mine] // len(BANKS)).astype(np.int32), item[mine].astype(np.int32), rating[mine].astype(np.float32)
        )  # fmt: skip
        people = pa.table({"user_id": [str(u) for u in range(USERS // len(BANKS) + 1)]})
        train = pa.table(dict(zip(("user", "item", "rating"), columns, strict=True)))
        tables = {"train": train, "users": people, "items": pa.table({"item_id": catalogue})}
        found[bank] = {"ratings": tables, "statistics": statistics}
    return found
