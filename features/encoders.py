"""From columns to features X (m, d): fitted at the feature_holder, by people who are aligned, never sent in clear.

What the label_holder sees later, s_u = Wᵀx_u, must not single anybody out: numeric columns are merged by rank to groups
of at least `size` people, categories of fewer people are dropped, and the largest leverage x_uᵀ(XᵀX)^-1 x_u of what
remains is bounded, else refused.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from base.errors import DataError

Floats = npt.NDArray[np.float64]
CLIP = 127 / 32  # standardised features cross as 8 bits, 5 of them after the point


@dataclass(frozen=True)
class RankGroups:
    """A numeric column merged by rank, then scaled: x of group g becomes `levels[g]`, within ±CLIP.

    A value belongs to the first group whose upper end is not below it; above all ends, to the last.
    """

    name: str
    uppers: tuple[float, ...]  # (g,) largest value of each group, ascending
    levels: tuple[float, ...]  # (g,) mean of the group's values, in deviations from the column's mean

    def apply(self, values: Floats) -> Floats:
        """Return the column of X for values (n,), also of people who were not there when it was fitted."""
        group = np.searchsorted(np.array(self.uppers), values, side="left")
        return np.array(self.levels)[np.minimum(group, len(self.uppers) - 1)]


@dataclass(frozen=True)
class OneHot:
    """The values of a category that at least `size` people share; everybody else has zeros."""

    name: str
    values: tuple[str, ...]

    def apply(self, values: npt.NDArray[np.object_]) -> Floats:
        """Return the columns of X, shape (n, values)."""
        return np.array(values[:, None] == np.array(self.values, dtype=object)[None, :], dtype=np.float64)


def fit_ranks(name: str, values: Floats, size: int) -> RankGroups | None:
    """Return the groups of a numeric column (m,), or None when they leave one level: the column says nothing.

    Equal values stay together; a rest smaller than `size` joins the group before it. NaN is refused.
    """
    if not np.isfinite(values).all():
        missing = int((~np.isfinite(values)).sum())
        raise DataError("a numeric feature is not a number", expected="finite", found=missing, where=f"column {name}")
    distinct, count = np.unique(values, return_counts=True)
    ends = _ends(count, size)
    if len(ends) < 2:
        return None
    bounds = [0, *(end + 1 for end in ends)]
    total = np.add.reduceat(distinct * count, bounds[:-1])
    people = np.add.reduceat(count, bounds[:-1])
    centres = total / people
    mean = total.sum() / people.sum()
    deviation = np.sqrt((people * (centres - mean) ** 2).sum() / people.sum())
    levels = np.clip((centres - mean) / deviation, -CLIP, CLIP)
    return RankGroups(name, tuple(distinct[ends].tolist()), tuple(levels.tolist()))


def fit_one_hot(name: str, values: npt.NDArray[np.object_], size: int) -> OneHot:
    """Return the values of a category that at least `size` people share, sorted; a null is nobody's value."""
    known = [value for value in values.tolist() if value is not None]
    distinct, count = np.unique(np.array(known, dtype=str), return_counts=True)
    return OneHot(name, tuple(distinct[count >= size].tolist()))


def names(encoder: RankGroups | OneHot) -> tuple[str, ...]:
    """Return the names of the columns of X that an encoder makes."""
    return (encoder.name,) if isinstance(encoder, RankGroups) else tuple(f"{encoder.name}={v}" for v in encoder.values)


def state(encoder: RankGroups | OneHot) -> dict[str, Any]:
    """Return a fitted encoder as JSON."""
    return {"encoder": type(encoder).__name__, **asdict(encoder)}


def leverage(X: Floats) -> float:
    """Return max_u x_uᵀ(XᵀX)^+ x_u, 0..1: the squared row norms of an orthonormal basis of X's columns.

    1 means that a combination of features singles a person out: s_u of that person is theirs alone.
    """
    U, σ, _ = np.linalg.svd(X, full_matrices=False)
    basis = U[:, σ > σ[0] * max(X.shape) * np.finfo(float).eps]
    return float((basis**2).sum(axis=1).max())


def require_leverage(X: Floats, limit: float, where: str) -> float:
    """Return the largest leverage; `DataError` when it is above `limit`."""
    found = leverage(X)
    if found > limit:
        raise DataError(
            "the features single a person out",
            expected=f"leverage of at most {limit}",
            found=f"{found:.3f} with {X.shape[1]} columns and {X.shape[0]} people",
            where=where,
            remedy="offer fewer columns or larger groups, or align more people",
        )
    return found


def _ends(count: npt.NDArray[np.int64], size: int) -> list[int]:
    """Return the position of the last distinct value of each group."""
    ends, people = [], 0
    for position, here in enumerate(count.tolist()):
        people += here
        if people >= size:
            ends.append(position)
            people = 0
    if people and ends:
        ends[-1] = len(count) - 1
    return ends
