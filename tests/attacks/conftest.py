"""Attacks see what an adversary sees; here that is every party's vector of every round, before anyone protects it."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest

from base.canonical import digest
from components import horizontal_mf
from components.averaging import train
from components.contract import require
from components.round_average import RoundAverage, Shared
from crypto.packing import Lanes
from models.row_average import exponent_for
from runtime.randomness import Randomness


@dataclass
class Rounds:
    """What horizontal training showed: models (party -> arrays) and per round what went in and came out."""

    seed: int
    params: horizontal_mf.HorizontalMfParams
    items: int
    models: dict = field(default_factory=dict)
    vectors: list = field(default_factory=list)  # sum -> {party: its vector of integers}; the first are the counts
    before: list = field(default_factory=list)  # round -> V that everyone started from, rows of the round
    rows: list = field(default_factory=list)  # round -> the rows that the round is about
    exponents: list = field(default_factory=list)  # round -> the scale of its values

    @property
    def lanes(self):
        return Lanes(self.params.lane, 0, len(self.models))

    def change(self, t, parties):
        """Return (Σ w·ΔV over `parties` (rows, k+1), Σ w (rows,)) of training round t = 0, 1, ..."""
        rows, before = self.rows[t], self.before[t]
        W, w = (sum(self.vectors[0][p] for p in some)[: self.items][rows] for some in (self.models, parties))
        values = sum(self.vectors[t + 1][p] for p in parties)[: before.size].reshape(before.shape)
        return np.ldexp(values.astype(float), -self.exponents[t]) * W[:, None], w

    def start(self, party, users, private=True):
        """Return P_0 of a party: from its secret, or as the run seed alone would give it."""
        streams = Randomness(self.seed, "attack/train", party.encode() * 8)
        rng = streams.private("P") if private else streams.shared(f"{party}/P")
        return rng.normal(0, self.params.start_deviation, (users, self.params.embedding_size))

    def replay(self):
        """Follow the public state as every key holder can: from the shared start and the totals."""
        streams = Randomness(self.seed, "attack/train", b"")
        shape = (self.items, self.params.embedding_size)
        V = np.column_stack([np.zeros(self.items), streams.shared("Q").normal(0, self.params.start_deviation, shape)])
        *W, N, _ = sum(self.vectors[0].values())
        state = RoundAverage(Shared(V, np.empty(0)), np.array(W), np.zeros(self.items), 0, N, self.lanes.limit)
        for t, vectors in enumerate(self.vectors[1:], start=1):
            state.rows = np.flatnonzero(state.W > 0)
            self.rows.append(state.rows)
            self.before.append(state.shared.V[state.rows].copy())
            self.exponents.append(exponent_for(state.largest[0], state.limit))
            state.take(sum(vectors.values()), t)


class _Context:
    """A context without a channel: `averaging.train` gets its total from the harness."""

    def __init__(self, party, parties, inputs, seed, shared_start):
        self.party, self.inputs, self.checkpoint, self._parties = party, inputs, self, parties
        self._streams, self._shared_start = Randomness(seed, "attack/train", party.encode() * 8), shared_start

    def parties(self, role):
        return self._parties

    @property
    def keys(self):
        return self

    def get(self, name):
        return None

    def put(self, name, data):
        pass

    def resume(self):
        return None

    def save(self, round_number, state):
        pass

    def shared_rng(self, name):
        return self._streams.shared(name)

    def private_rng(self, name):
        return self._streams.shared(f"{self.party}/{name}") if self._shared_start else self._streams.private(name)

    def metric(self, name, value, round_number=None):
        pass

    def progress(self, done, total, unit):
        pass

    def require(self, condition, what, *, expected, found, remedy=""):
        require(condition, what, expected=expected, found=found, where=self.party)


@pytest.fixture(scope="session")
def watched():
    """`watched(banks, items, params, seed)` trains (user, item, rating) of each bank in the open and returns `Rounds`.

    `shared_start` draws what should be private from the run seed instead.
    """

    def run(banks, items, params, seed=1, shared_start=False):
        parties = tuple(sorted(banks))
        seen, barrier, lock = Rounds(seed, params, items), threading.Barrier(len(parties)), threading.Lock()
        catalogue = [f"{i:05}" for i in range(items)]
        mean = float(np.mean(np.concatenate([rating for _, _, rating in banks.values()])))
        statistics = {"mean": mean, "catalogue": digest(catalogue)}

        def one(party):
            user, item, rating = banks[party]
            rows = {"user": user.astype(np.int32), "item": item.astype(np.int32), "rating": rating.astype(np.float32)}
            people = pa.table({"user_id": [str(u) for u in range(int(user.max()) + 1)]})
            tables = {
                "train": pa.table(rows),
                "validation": pa.table(rows).slice(0, 0),
                "users": people,
                "items": pa.table({"item_id": catalogue}),
            }
            ctx = _Context(party, parties, {"ratings": tables, "statistics": statistics}, seed, shared_start)

            def total(values, lanes, t, bound, name):
                with lock:
                    while len(seen.vectors) <= t:
                        seen.vectors.append({})
                    seen.vectors[t][party] = lanes.quantise(values)
                barrier.wait(timeout=120)
                return sum(seen.vectors[t][p] for p in parties)

            try:
                learner = horizontal_mf.Learner(ctx, params)
                train(ctx, params, learner, total)
                seen.models[party] = learner.part()
            except threading.BrokenBarrierError:
                return  # another party has failed, and its error is the one to see
            except Exception:
                barrier.abort()  # or the others would wait
                raise

        with ThreadPoolExecutor(len(parties)) as pool:
            list(pool.map(one, parties))
        seen.replay()
        return seen

    return run


@pytest.fixture(scope="session")
def movielens(accord_data):
    """MovieLens-100K as (user, item, rating), users and items from 0."""
    rows = np.loadtxt(accord_data / "ml-100k" / "u.data.gz", dtype=int)
    return rows[:, 0] - 1, rows[:, 1] - 1, rows[:, 2].astype(float)


@pytest.fixture(scope="session")
def three_banks(movielens):
    """MovieLens-100K as the ratings of three banks: {party: (user of that bank from 0, item, rating)}."""
    user, item, rating = movielens
    bank = np.random.default_rng(7).permutation(np.arange(user.max() + 1) % 3)
    found = {}
    for n, party in enumerate(("east", "north", "south")):
        mine = bank[user] == n
        own = np.unique(user[mine])
        found[party] = (np.searchsorted(own, user[mine]), item[mine], rating[mine])
    return found
