"""Count, mean and deviation of one numeric column over all data_holders, and one catalogue, without pooling a row.

Every data_holder ends with the same statistics; the aggregator ends with nothing. A sum exists only when every
data_holder's sorted item ids have the same digest.

Moments are added as in Chan, Golub and LeVeque (1983), eq. 1.1, in one secure sum (`secure_sum`).

Adversary: as in `secure_sum`. Not protected: what n, Σr and Σr² over all parties say, unless `dp` (`private_sum`).

    n_j  rows of party j    Σr, Σr²  its moments, in units of the column, to 2^−16    μ, σ  result
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
import pyarrow as pa
from annotated_types import Ge

from base.canonical import digest
from components.contract import Component, Context, Outputs
from components.private_sum import Dp, Privacy, PrivateTotal
from components.secure_sum import ADVERSARY, MIN_PARTIES, SumParams, add_once, open_total, sum_messages
from crypto.packing import Lanes

STANDS_OUT = 10.0  # deviations of the noise: fewer rows would say nothing about a mean
MESSAGES = sum_messages("n, Σr and Σr² over all parties, and that all hold one catalogue")


class FitStatisticsParams(SumParams):
    """Which column, how small a party may be, and the key."""

    table: str  # name of the table of interactions
    column: str  # numeric, no nulls
    catalogue: str = "catalogue"  # the table whose item_id must be the same at every party
    min_count: Annotated[int, Ge(20)] = 100  # rows; a party with fewer stops the step before it sends anything
    dp: Dp = None  # noise for whole people, paid by a budget: then n, too, is a noisy sum of clipped people
    person: str = "user_id"  # the column of `table` that says whose a row is, for `dp`


def data_holder(ctx: Context, params: FitStatisticsParams) -> Outputs:
    """Return the joint statistics: n, mean, deviation (of the population), digest of the catalogue."""
    # 1. Own moments, of enough rows to hide one.
    table, catalogue = ctx.inputs["tables"][params.table], _catalogue(ctx.inputs["tables"][params.catalogue])
    r = table[params.column].to_numpy().astype(np.float64)  # (n_j,)
    if params.dp is not None:
        return _document(_noisy(ctx, params, params.dp, table[params.person], r, bytes.fromhex(catalogue)), catalogue)
    ctx.require(len(r) >= params.min_count, "too few rows", expected=params.min_count, found=len(r))

    # 2. One protected sum, bound to the catalogue.
    lanes = Lanes(lane=64, fraction=16, summands=len(ctx.parties("data_holder")))
    moments = np.array([len(r), r.sum(), (r**2).sum()])
    Σ = open_total(ctx, params)(moments, lanes, 0, bytes.fromhex(catalogue), name="moments")

    return _document(Σ, catalogue)


def _noisy(
    ctx: Context, params: FitStatisticsParams, privacy: Privacy, person: pa.ChunkedArray, r: np.ndarray, bound: bytes
) -> np.ndarray:
    """2. with noise: each person's moments are clipped together, so that they keep their proportions."""
    _, whose = np.unique(person.to_numpy(), return_inverse=True)
    moments = np.array([np.bincount(whose, r**power) for power in range(3)]).T  # (people, 3)
    lanes, every = Lanes(lane=64, fraction=8, summands=len(ctx.parties("data_holder"))), np.arange(3)
    add = PrivateTotal(ctx, params, privacy, open_total(ctx, params, paid=True))
    found = add(((every, own) for own in moments), 3, lanes, 0, bound, "moments")
    least = max(params.min_count, STANDS_OUT * found.deviation)
    ctx.require(
        found.total[0] >= least, "too few rows for so much noise", expected=f"{least:.0f} clipped rows or more",
        found=f"{found.total[0]:.0f}, noise included", remedy="a smaller clip, a larger epsilon, or more people",
    )  # fmt: skip
    return found.total


def _document(Σ: np.ndarray, catalogue: str) -> Outputs:
    # 3. Everyone finishes alike.
    n, μ = int(Σ[0]), float(Σ[1] / Σ[0])
    σ = float(np.sqrt(max(Σ[2] / Σ[0] - μ**2, 0.0)))
    return {"statistics": {"n": n, "mean": μ, "deviation": σ, "catalogue": catalogue}}


def _catalogue(table: pa.Table) -> str:
    return digest(sorted(set(table["item_id"].to_pylist())))


COMPONENT = Component(
    name="fit_statistics",
    roles={"data_holder": data_holder, "aggregator": add_once},
    params=FitStatisticsParams,
    messages=MESSAGES,
    inputs={"tables": "validated tables"},
    outputs={"statistics": "n, mean, deviation and catalogue digest, the same document at every data_holder"},
    optional_inputs=("tables",),  # the aggregator has none
    min_parties={"data_holder": MIN_PARTIES, "aggregator": 1},
    adversary=ADVERSARY + "Not protected: what the totals say.",
)
