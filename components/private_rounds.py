"""Rounds of averaging with noise for whole people: user-level federated averaging of the item side (`user_updates`).

Round 0 sums how many people have each item, with noise: a person adds the same to each of its items, less where it has
more than `max_items`. Which rows are shared, their layers, and what sums are divided by follow from these noisy counts.
Then in every round each bank

    1. lets each person train E epochs from the V received, on the own ratings alone
    2. scales the person's change of each row by the row's layer, clips the whole change, and adds all people's
    3. adds its share of noise and sends ONE protected vector, bound to the model received
    4. moves V by the mean change, as everybody does

No row is withheld by a bank's own counts: what is withheld would tell them. All rounds, and the counts, share the ε of
the step, and each is charged before it leaves; a round that is done again is charged again.

Adversary, and what is not protected: `private_sum`. A person's own side, b_u and p_u, never leaves its bank.

    V  item side of the shared rows (rows, c)    W  people of each row, noisy (I,)    a  layer of each row (rows,)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Protocol

import numpy as np
from annotated_types import Ge, Gt
from pydantic import WithJsonSchema

from base.canonical import digest, digest_bytes
from components.averaging import AveragingParams
from components.contract import Arrays, Context
from components.private_sum import Contribution, Privacy, PrivateTotal
from components.round_average import Shared
from components.secure_sum import OpenTotal
from crypto.packing import Lanes
from models.user_updates import layers, of_each_user

LANE, BITS = 32, 16  # of a value; a clipped change is 2^BITS units long
STANDS_OUT = 3.0  # deviations of the noise in a count: rows with fewer people are not shared


ALIKE = ("early_stopping", "speed", "adapt", "warm_start")  # what rounds with noise do not have


class RoundsPrivacy(Privacy):
    """`Privacy` of all rounds of a training together."""

    max_items: Annotated[int, Ge(1)] = 100  # a person with more counts less for each
    layered: bool = True  # rows of many people get more noise, rows of few less
    step: Annotated[float, Gt(0)] = 1.0  # η_s: V moves by so many mean changes


RoundsDp = Annotated[RoundsPrivacy | None, WithJsonSchema(RoundsPrivacy.model_json_schema())]


class Learner(Protocol):
    """A party's model, as private rounds see it."""

    about: str  # digest of what must be alike at all parties

    @property
    def people(self) -> np.ndarray:
        """Return the person of each own rating, ascending (n,)."""

    @property
    def rated(self) -> np.ndarray:
        """Return the item of each rating, in that order (n,)."""

    def now(self) -> Shared:
        """Return the own V."""

    def counted(self, W: np.ndarray) -> None:
        """Learn which rows are shared: those with W > 0."""

    def take(self, shared: Shared, rows: np.ndarray) -> None:
        """Put these rows of V into the own model."""

    def changes(self) -> np.ndarray:
        """Let each person train alone from the own V; return ΔV of each rating (n, c). Own sides move, V does not."""

    def to_arrays(self) -> Arrays:
        """Return all that changes."""

    def restore(self, arrays: Arrays) -> None:
        """Take back what `to_arrays` gave."""


@dataclass
class _Rows:
    """The shared rows, from noisy counts alone."""

    W: np.ndarray  # (I,), 0 where not shared
    shared: np.ndarray  # which rows these are
    scale: np.ndarray  # a (rows,)

    @classmethod
    def of(cls, W: np.ndarray, layered: bool) -> _Rows:
        shared = np.flatnonzero(W > 0)
        return cls(W, shared, layers(W[shared]) if layered else np.ones(len(shared)))

    def place(self, item: np.ndarray) -> np.ndarray:
        """Return where each item stands among the shared rows, −1 for nowhere."""
        places = np.full(len(self.W), -1, np.int64)
        places[self.shared] = np.arange(len(self.shared))
        return np.asarray(places[item])


def train(ctx: Context, params: AveragingParams, privacy: RoundsPrivacy, learner: Learner, total: OpenTotal) -> None:
    """Train; the learner then holds the shared rows and this party's own side. `total` is opened as `paid`."""
    ctx.require(
        not any(wanted := [name for name in ALIKE if getattr(params, name)]) and params.row_share == 1,
        "rounds with noise are all alike",
        expected="row_share: 1, without " + ", ".join(ALIKE), found=", ".join(wanted) or "another row_share",
        remedy="leave them out: a loss or a speed that is told is a release of its own",
    )  # fmt: skip
    add, kept = PrivateTotal(ctx, params, privacy, total, params.rounds + 1), ctx.checkpoint.resume()
    W = _counts(ctx, params, privacy, learner, add) if kept is None else kept[1]["W"]
    if kept is not None:
        learner.restore({name: array for name, array in kept[1].items() if name != "W"})
    rows = _Rows.of(W, privacy.layered)
    learner.counted(np.ceil(W).astype(np.int64))
    for t in range(1 if kept is None else kept[0] + 1, params.rounds + 1):
        # 1. and 2. One change of each person.
        V = learner.now().V[rows.shared]
        people = of_each_user(learner.people, rows.place(learner.rated), learner.changes(), rows.scale)

        # 3. One protected vector, bound to the model received.
        bound = bytes.fromhex(digest([learner.about, digest_bytes(V.tobytes()), digest_bytes(W.tobytes())]))
        found = add(people, max(V.size, 1), _lanes(ctx, privacy), t, bound, "changes of people")

        # 4. The mean change, the layers taken back.
        mean = found.total[: V.size].reshape(V.shape) / (rows.scale * W[rows.shared])[:, None]
        learner.take(_spread(rows, learner.now().V, V + privacy.step * mean), rows.shared)
        ctx.checkpoint.save(t, {"W": W, **learner.to_arrays()})
        ctx.metric("shared_rows", float(len(rows.shared)), t)
        ctx.progress(t, params.rounds, "rounds")


def _counts(
    ctx: Context, params: AveragingParams, privacy: RoundsPrivacy, learner: Learner, add: PrivateTotal
) -> np.ndarray:
    """Return W (I,): noisy counts of people, 0 where they do not stand out."""
    items = len(learner.now().V)
    one = privacy.clip / privacy.max_items ** (0.5 if privacy.mechanism == "gaussian" else 1.0)
    ones = np.full((len(learner.rated), 1), one)
    people = (_once(person, one) for person in of_each_user(learner.people, learner.rated, ones, np.ones(items)))
    found = add(people, items, _lanes(ctx, privacy), 0, bytes.fromhex(learner.about), "counts of people")
    W, floor = found.total / one, STANDS_OUT * found.deviation / one
    return np.where(max(floor, params.min_raters_per_item) <= W, W, 0.0)


def _once(person: Contribution, one: float) -> Contribution:
    """Count an item once, however often a person has rated it."""
    place, values = person
    return place, np.minimum(values, one)


def _lanes(ctx: Context, privacy: RoundsPrivacy) -> Lanes:
    return Lanes(LANE, max(0, BITS - math.ceil(math.log2(privacy.clip))), len(ctx.parties("data_holder")))


def _spread(rows: _Rows, V: np.ndarray, moved: np.ndarray) -> Shared:
    found = V.copy()
    found[rows.shared] = moved
    return Shared(found, np.empty(0))
