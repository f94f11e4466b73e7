"""Statistics of pairs of items with noise: one person's all is one vector, and what is chosen is chosen after the sum.

Under `dp` no bank leaves anything out by its own counts: what is withheld would tell them. All pairs leave, with noise;
then everyone keeps of the total the items and pairs that stand out of the noise and of `min_raters` and `min_pairs`,
which looks at the noisy total alone and so costs nothing. No epoch binds the release, the budget of the data set does.

With `complete` a bank takes the noisy statistics of the others, made as heavy as its own people's (clipping has made
them lighter), beside its own exact ones: that copy never leaves it.

Adversary, and what is not protected: `private_sum`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from components.contract import Context
from components.private_sum import Contribution, Privacy, PrivateTotal
from components.released_statistics import Own, PairParams, Statistics
from components.secure_sum import Total
from crypto.packing import Lanes
from models.symmetric import Floats

STANDS_OUT = 3.0  # deviations of the noise: of what is kept less than 1 in 700 is noise alone


@dataclass(frozen=True)
class Copy:
    """What a bank solves."""

    statistics: Statistics  # (G, ...), each (I, I)
    total: Floats  # of all, noisy, as it came
    share: float  # of what people add that is this bank's own, in (0, 1]


def noisy_statistics(
    ctx: Context, params: PairParams, privacy: Privacy, add: Total, own: Own, people: Iterable[Contribution],
    all_own: Statistics, lanes: Lanes, unpacked: Callable[[Floats], Statistics], size: int,
) -> Copy:  # fmt: skip
    """Return what a bank solves after one noisy sum of `people`, `size` values that `unpacked` makes matrices of."""
    private = PrivateTotal(ctx, params, privacy, add)
    found = private(people, size, lanes, 0, own.bound(), "noisy statistics")
    trace, exact = (float(np.trace(unpacked(vector)[0])) for vector in (found.total, found.exact))
    share = float(np.clip(exact / max(trace, exact, 1e-9), 1e-3, 1.0))
    weight = max(exact / max(float(np.trace(all_own[0])), 1.0), 1e-3)
    kept = chosen(unpacked(found.total), found.deviation, params)
    ctx.metric("pairs", float(np.count_nonzero(kept[0])))
    if not params.complete:
        return Copy(kept, found.total, share)
    others = chosen(unpacked(found.total - found.own), found.deviation, params)
    return Copy(tuple(A + B / weight for A, B in zip(all_own, others, strict=True)), found.total, share)


def chosen(noisy: Statistics, deviation: float, params: PairParams) -> Statistics:
    """Return (G, ...) with 0 for the items and pairs that do not stand out; the others by G, and each for itself."""
    floor = STANDS_OUT * deviation
    G = noisy[0]
    kept = max(params.min_pairs, floor) <= G
    item = np.diag(G) >= max(params.min_raters, floor)
    np.fill_diagonal(kept, True)
    kept &= item[:, None] & item
    return tuple(np.where(kept & (abs(A) >= floor), A, 0.0) for A in noisy)
