"""Statistics of pairs of items with noise: one person's all is one vector, and nothing is left out before the sum.

Under `dp` no bank leaves items or pairs out by its own counts: what is withheld would tell them. All leave, with noise,
and the noise is taken out of the total as far as its spectrum shows it (`models.spectral`), which looks at the noisy
total alone and so costs nothing. `min_raters` and `min_pairs` play no part, and no epoch binds the release: the budget
of the data set does.

With `complete` a bank takes the noisy statistics of the others, made as heavy as its own people's (clipping has made
them lighter), beside its own exact ones: that copy never leaves it.

Adversary, and what is not protected: `private_sum`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from components.contract import Context
from components.private_sum import Contribution, Privacy, PrivateTotal
from components.released_statistics import Own, PairParams, Statistics
from components.secure_sum import OpenTotal
from crypto.packing import Lanes
from models.spectral import without_noise, without_noise_of_any
from models.symmetric import Floats


@dataclass(frozen=True)
class Copy:
    """What a bank solves."""

    statistics: Statistics  # (G, ...), each (I, I)
    total: Floats  # of all, noisy, as it came
    share: float  # of what people add that is this bank's own, in (0, 1]


def noisy_statistics(
    ctx: Context, params: PairParams, privacy: Privacy, add: OpenTotal, own: Own, people: Iterable[Contribution],
    all_own: Statistics, lanes: Lanes, unpacked: Callable[[Floats], Statistics], size: int,
) -> Copy:  # fmt: skip
    """Return what a bank solves after one noisy sum of `people`, `size` values that `unpacked` makes matrices of."""
    private = PrivateTotal(ctx, params, privacy, add)
    found = private(people, size, lanes, 0, own.bound(), "noisy statistics")
    trace, exact = (float(np.trace(unpacked(vector)[0])) for vector in (found.total, found.exact))
    share = float(np.clip(exact / max(trace, exact, 1e-9), 1e-3, 1.0))
    weight = max(exact / max(float(np.trace(all_own[0])), 1.0), 1e-3)
    if not params.complete:
        return Copy(_clean(unpacked(found.total), found.deviation), found.total, share)
    parties = len(ctx.parties("data_holder"))
    others = _clean(unpacked(found.total - found.own), found.deviation * math.sqrt(1 - 1 / parties))
    return Copy(tuple(A + B / weight for A, B in zip(all_own, others, strict=True)), found.total, share)


def _clean(noisy: Statistics, deviation: float) -> Statistics:
    """Return (G, ...) without noise, by the form that each has: sums of squares, or sums of any products."""
    return tuple(
        without_noise(A, deviation) if np.array_equal(A, A.T) else without_noise_of_any(A, deviation) for A in noisy
    )
