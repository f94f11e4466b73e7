"""Sums with noise of every party: differentially private for one person at one party, paid for before anything leaves.

Parameter `dp` of a step that sums. Everything that one person adds to a sum is ONE vector; it is clipped to norm `clip`
(as integers in units of the lanes, `crypto.noise.clip_rows`), the clipped vectors are added, and each party adds its
own discrete noise before the sum (`crypto.noise`); the scale is the smallest that keeps all sums of the step within
`epsilon` at `delta` (`crypto.budget`). The release is charged to the data set's budget first, stored by the node, over
all accords: a round that is done again has fresh noise and is charged again, also when the first one never left.

    alone    protection plain: every party's own noise is enough by itself, σ; the aggregator may read each part
    on top   secagg, paillier: σ_j² = σ²/(n − 1 − c), enough beside the parties' that do not tell what they drew; with
             `topology: gossip` n is the smallest neighbourhood, whose sum is read

Adversary: semi-honest; who reads the total, and `colluders` more data_holders that tell their noise. Under paillier
also the aggregator, as long as it helps none of them (`paillier_sum`). Laplace noise is not shared: σ at every party.
NOT protected: a person at two parties (ε adds up), what is chosen after looking at the data (thresholds, `clip`), what
is summed elsewhere without `dp`, and how many people were clipped, which is this party's own metric.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Gt, Le, Lt
from pydantic import StringConstraints, WithJsonSchema

from components.contract import Context, Params
from components.secure_sum import OpenTotal, SumParams, fewest
from crypto.budget import NORMS, Release, calibrate
from crypto.noise import clip_rows, discrete_gaussian, discrete_laplace, honest_shares
from crypto.packing import Lanes

TAIL = 16  # P(|noise| > TAIL·σ + 1) <= 2·e^−128
Contribution = tuple[np.ndarray, np.ndarray]  # of one person: places in the vector, each once, and values there
_SAMPLERS = {"gaussian": discrete_gaussian, "laplace": discrete_laplace}


class Privacy(Params):
    """What a step may tell about one person at one party, and who pays."""

    epsilon: Annotated[float, Gt(0), Le(100)]  # of all sums of the step together
    delta: Annotated[float, Gt(0), Lt(1)]  # well below 1/people
    clip: Annotated[float, Gt(0)]  # largest norm of all that one person adds to a sum: ‖·‖₂, for laplace ‖·‖₁
    data_set: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,63}$")]  # whose budget pays, by the accord
    mechanism: Literal["gaussian", "laplace"] = "gaussian"
    colluders: Annotated[int, Ge(0)] = 0  # data_holders that tell the reader of a total what noise they drew


Dp = Annotated[Privacy | None, WithJsonSchema(Privacy.model_json_schema())]  # None: no noise


@dataclass(frozen=True)
class Noisy:
    """A noisy total, flat."""

    total: np.ndarray  # float64
    own: np.ndarray  # what this party added, its noise included; zeros where it was late (`on_dropout: continue`)
    exact: np.ndarray  # the same without noise: it stays here
    deviation: float  # of the noise in the total


class PrivateTotal:
    """A data_holder's side of the noisy sums of one step."""

    def __init__(self, ctx: Context, params: SumParams, privacy: Privacy, total: OpenTotal, sums: int = 1) -> None:
        """Add by `total`, as often as `sums`; `CryptoError` where colluders leave no share of noise."""
        self._ctx, self._privacy, self._total, self._sums = ctx, privacy, total, sums
        shared = privacy.mechanism == "gaussian" and params.protection != "plain"
        self._shares = honest_shares(fewest(ctx, params), privacy.colluders) if shared else 1

    def release(self, size: int, fraction: int) -> Release:
        """Return what one sum of `size` values costs, with the noise that keeps all sums within ε."""
        mechanism, bound = self._privacy.mechanism, math.ldexp(self._privacy.clip, fraction)
        asked = Release(mechanism, 1, bound, NORMS[mechanism], size, self._shares, self._sums)
        found = calibrate(asked, self._privacy.epsilon, self._privacy.delta)
        return Release(mechanism, found.scale, bound, NORMS[mechanism], size, self._shares)

    def __call__(
        self, people: Iterable[Contribution], size: int, lanes: Lanes, round_number: int, bound: bytes, name: str
    ) -> Noisy:
        """Return Σ over all parties' people, clipped and with noise; the same `total` at every data_holder.

        `people` are this party's, one contribution each: who comes twice is two persons to the accounting. `bound` as
        in `Total`. Raises `ConsentError` when the budget does not allow it: nothing has left then.
        """
        # 1. One vector of each person, within the bound.
        release = self.release(size, lanes.fraction)
        exact = self._added(people, size, lanes.fraction)
        self._require_room(release, lanes)

        # 2. Paid for, then drawn, then sent.
        self._ctx.charge(self._privacy.data_set, release, name)
        noisy = exact + _SAMPLERS[release.mechanism](release.scale, size)
        kept, saturated = np.clip(noisy, -lanes.limit, lanes.limit), np.count_nonzero(np.abs(noisy) > lanes.limit)
        self._ctx.metric("saturated", float(saturated), round_number)
        own = np.ldexp(kept.astype(np.float64), -lanes.fraction)
        total = self._total(own, lanes, round_number, bound, name).astype(np.float64)
        own = own if self._total.contributed else np.zeros_like(own)
        return Noisy(total, own, np.ldexp(exact.astype(np.float64), -lanes.fraction), self.deviation(release, lanes))

    def deviation(self, release: Release, lanes: Lanes) -> float:
        """Return the standard deviation of the noise in a total, in values."""
        one = release.scale * (math.sqrt(2) if release.mechanism == "laplace" else 1)
        return math.ldexp(one * math.sqrt(len(self._ctx.parties("data_holder"))), -lanes.fraction)

    def _added(self, people: Iterable[Contribution], size: int, fraction: int) -> np.ndarray:
        """Return the sum of the clipped vectors in units of the lanes, (size,) int64."""
        exact, clipped, norm = np.zeros(size, np.int64), 0, NORMS[self._privacy.mechanism]
        for place, values in people:
            q, outside = clip_rows(values[None], self._privacy.clip, fraction, norm, "a contribution")
            exact[place] += q[0]
            clipped += outside
        self._ctx.metric("clipped", float(clipped))
        return exact

    def _require_room(self, release: Release, lanes: Lanes) -> None:
        """Refuse lanes that the noise alone would fill: half of each is left to it, whatever the data are."""
        need = TAIL * release.scale + 1
        self._ctx.require(
            2 * need <= lanes.limit, "lanes have no room for the noise", expected=f"{2 * need} units or more",
            found=lanes.limit, remedy="wider lanes, fewer fraction bits, a smaller clip, or a larger epsilon",
        )  # fmt: skip
