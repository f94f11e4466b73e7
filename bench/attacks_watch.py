"""A training of `horizontal_mf` with every party's vector of every sum, as it is before anyone protects it.

An attack takes of them what its adversary has: the totals less the own part, or one party's part where the setting is
weakened by that. V follows from the shared start and the totals, as at every party.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from annotated_types import Ge
from numpy.typing import NDArray

from base.canonical import digest
from bench.attacks_crossing import ROLES, Watched
from bench.attacks_data import FOREIGN, World
from bench.parties import Lasting, run_step, streams
from components import horizontal_mf
from components.contract import Context
from components.horizontal_mf import HorizontalMfParams
from components.round_average import RoundAverage, Shared
from components.secure_sum import open_total
from components.split_tables import private_streams
from crypto.packing import Lanes
from models.histories import Counts
from models.row_average import exponent_for
from models.symmetric import Floats
from runtime.context import StepContext

VICTIM = FOREIGN[-1]
Bank = tuple[NDArray[Any], NDArray[Any], Floats]  # user, item, rating (n,)


class OpenParams(HorizontalMfParams):
    """The weakened setting may send rows of one person."""

    min_raters_per_item: Annotated[int, Ge(1)] = 1


DEFAULT: Mapping[str, Any] = {"rounds": 3}
# One gradient step a round as in FedMF, every row sent, in fine steps: nothing but the sum protects.
WEAK: Mapping[str, Any] = {
    "rounds": 3, "min_raters_per_item": 1, "local_epochs": 1, "batch_size": 10**6, "lane": 32
}  # fmt: skip


@dataclass
class Rounds:
    """What a training showed. Sum 0 holds the counts, sum t + 1 the values of training round t."""

    seed: int
    params: HorizontalMfParams
    items: int
    tables: Mapping[str, Mapping[str, pa.Table]]  # of each bank
    vectors: list[dict[str, Counts]] = field(default_factory=list)  # sum -> {party: its vector of integers}
    before: list[Floats] = field(default_factory=list)  # round -> V that everyone started from, rows of the round
    rows: list[Counts] = field(default_factory=list)  # round -> the rows that the round is about
    exponents: list[int] = field(default_factory=list)  # round -> the scale of its values

    def counts(self, parties: Iterable[str]) -> Counts:
        """Return Σ w over the parties, (I,)."""
        return np.asarray(np.sum([self.vectors[0][p][: self.items] for p in parties], axis=0))

    def change(self, t: int, parties: Sequence[str]) -> tuple[Floats, Counts]:
        """Return (Σ w·ΔV over `parties` (rows, k+1), Σ w (rows,)) of training round t = 0, 1, ..."""
        rows, before = self.rows[t], self.before[t]
        W, w = self.counts(self.vectors[0])[rows], self.counts(parties)[rows]
        values = np.sum([self.vectors[t + 1][p] for p in parties], axis=0)[: before.size].reshape(before.shape)
        return np.ldexp(values.astype(np.float64), -self.exponents[t]) * W[:, None], w

    def start(self, party: str, users: int, private: bool = True) -> Floats:
        """Return P_0 of a party: from its secret, or as the run seed alone would give it."""
        own = streams(self.seed, party)
        rng = private_streams(own.private, self.tables[party])("P") if private else own.shared(f"{party}/P")
        return rng.normal(0, self.params.start_deviation, (users, self.params.embedding_size))

    def replay(self) -> Rounds:
        """Follow the public state."""
        p, shape = self.params, (self.items, self.params.embedding_size)
        V = np.column_stack([np.zeros(self.items), streams(self.seed).shared("Q").normal(0, p.start_deviation, shape)])
        *W, N, _ = np.sum(list(self.vectors[0].values()), axis=0)
        limit = Lanes(p.lane, 0, len(self.vectors[0])).limit
        state = RoundAverage(Shared(V, np.empty(0)), np.array(W), np.zeros(self.items), 0, N, limit=limit)
        for t, vectors in enumerate(self.vectors[1:], start=1):
            state.rows = np.flatnonzero(state.W > 0)
            self.rows.append(state.rows)
            self.before.append(state.shared.V[state.rows].copy())
            self.exponents.append(exponent_for(state.largest[0], state.limit))
            state.take(np.sum(list(vectors.values()), axis=0), t)
        return self


def watch(
    banks: Mapping[str, Bank], items: int, params: Mapping[str, Any], seed: int = 1, *,
    private: Callable[[StepContext, str], np.random.Generator] | None = None, lasting: Lasting | None = None,
    run: str = "night-1", mean: float | None = None,
) -> Rounds:  # fmt: skip
    """Train, and return what was seen; `private` draws what should be private in another way.

    With `lasting` the nodes outlive the training, as between two nights.
    """
    part = horizontal_mf.COMPONENT
    if params.get("min_raters_per_item") == 1:
        part = part.__class__(**{**vars(part), "params": OpenParams})
    inputs, lock = _inputs(banks, items, mean), threading.Lock()
    tables = {bank: given["ratings"] for bank, given in inputs.items()}
    seen = Rounds(seed, part.params.model_validate(params), items, tables)  # type: ignore[arg-type]

    def watching(ctx: Context, *given: Any, **named: Any) -> Watched:
        def tell(values: Counts, lanes: Lanes, round_number: int, found: Counts) -> None:
            with lock:
                while len(seen.vectors) <= round_number:
                    seen.vectors.append({})
                seen.vectors[round_number][ctx.party] = lanes.quantise(values)

        return Watched(open_total(ctx, *given, **named), tell)

    own = private or StepContext.private_rng
    with patch.object(horizontal_mf, "open_total", watching), patch.object(StepContext, "private_rng", own):
        run_step(part, ROLES, inputs, params, seed=seed, run=run, lasting=lasting)
    return seen.replay()


def public(ctx: StepContext, name: str) -> np.random.Generator:
    """Draw what should be private from the run's seed."""
    return ctx.shared_rng(f"{ctx.party}/{_plain(name)}")


def without_rows(ctx: StepContext, name: str) -> np.random.Generator:
    """Draw from the party's secret and the run's seed alone, whatever the rows are."""
    return ctx.randomness.private(_plain(name))


def another_order(ctx: StepContext, name: str) -> np.random.Generator:
    """Draw the order of training anew, as on another night; the start stays, as with a warm start."""
    return ctx.randomness.private("P" if _plain(name) == "P" else f"another night, {name}")


def _plain(name: str) -> str:
    """Return the name of a stream without the rows that it is for (`split_tables.private_streams`)."""
    return name.partition(" over ")[0]


def banks_of(world: World) -> dict[str, Bank]:
    """Return the ratings of a world's banks."""
    return {bank: (h.user, h.item, world.ratings[bank]) for bank, h in world.banks.items()}


def mean_of(banks: Mapping[str, Bank]) -> float:
    """Return μ."""
    return float(np.mean(np.concatenate([rating for _, _, rating in banks.values()])))


def _inputs(banks: Mapping[str, Bank], items: int, mean: float | None) -> dict[str, dict[str, Any]]:
    catalogue = [f"{i:05}" for i in range(items)]
    statistics = {"mean": mean_of(banks) if mean is None else mean, "catalogue": digest(catalogue)}
    found = {}
    for bank, (user, item, rating) in banks.items():
        rows = pa.table({"user": user.astype(np.int32), "item": item.astype(np.int32), "rating": rating.astype("f4")})
        people = pa.table({"user_id": [str(u) for u in range(int(user.max()) + 1)]})
        tables = {"train": rows, "validation": rows[:0], "users": people, "items": pa.table({"item_id": catalogue})}
        found[bank] = {"ratings": tables, "statistics": statistics}
    return found
