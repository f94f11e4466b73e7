"""How good are the predicted ratings? RMSE over all data_holders from secure sums of squared errors; no row is pooled.

Every data_holder ends with the same metrics; the aggregator ends with nothing. Predictions are clipped to the range of
the party's training ratings. The one sum is bound to the shared part of the model, so parties that hold different
models get no metrics.

Arms: *federated* (the model), *mean* (μ for everyone), *biases* (μ + b_u + b_i that each party fits alone).

Adversary: as in `secure_sum`. Not protected: what the totals say. A party with fewer than `min_count` ratings in a
part stops the step before it sends anything.

    n_j, Σe²  ratings and squared errors of party j, for each part (validation, test) and arm
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import numpy as np
import pyarrow as pa
from annotated_types import Ge

from components.contract import Arrays, Component, Context, Outputs
from components.secure_sum import ADVERSARY, MIN_PARTIES, SumParams, add_once, open_total, sum_messages
from components.split_tables import bound_to
from crypto.packing import Lanes
from features.indexing import rating_columns
from models import mf
from models.metrics import root_mean, squared_error
from models.scoring import KINDS, whole

MESSAGES = sum_messages("number of ratings and sums of squared errors over all parties, for each part and arm")
PARTS = ("validation", "test")
ARMS = ("federated", "mean", "biases")


class EvaluateRatingsParams(SumParams):
    """How small a party may be, and the key."""

    min_count: Annotated[int, Ge(20)] = 100  # ratings of a part at each party


def data_holder(ctx: Context, params: EvaluateRatingsParams) -> Outputs:
    """Return {arm}.{part}.rmse and {part}.n over all parties."""
    ratings, model = ctx.inputs["ratings"], ctx.inputs["model"]
    # 1. Own squared errors, of enough rows to hide one.
    for part in PARTS:
        n = ratings[part].num_rows
        ctx.require(
            n >= params.min_count, f"too few {part} ratings", expected=params.min_count, found=n,
            remedy="give the part a larger share in the split",
        )  # fmt: skip
    sums = np.array([list(_sums(ratings, model, part)) for part in PARTS])  # (parts, 1 + arms)

    # 2. One protected sum, bound to the model that all must share.
    lanes = Lanes(lane=64, fraction=16, summands=len(ctx.parties("data_holder")))
    total = open_total(ctx, params)(sums, lanes, 0, bound_to(model, KINDS["mf"].shared), "squared errors")

    # 3. Everyone finishes alike.
    metrics: dict[str, float] = {}
    for part, (n, *squared) in zip(PARTS, total.reshape(sums.shape), strict=True):
        metrics[f"{part}.n"] = int(n)
        metrics |= {f"{arm}.{part}.rmse": root_mean(Σ, n) for arm, Σ in zip(ARMS, squared, strict=True)}
    for name, value in metrics.items():
        ctx.metric(name, value)
    return {"metrics": metrics}


def _sums(ratings: dict[str, pa.Table], model: Arrays, part: str) -> Iterator[float]:
    """Yield n, then Σe² of each arm."""
    train, held_out = _columns(ratings["train"]), _columns(ratings[part])
    shape = (len(model["b_user"]), len(model["b_item"]))
    mu, r = float(model["mu"]), held_out.rating
    biases = mf.fit_biases(train, mu, shape)
    predicted = (
        mf.predict(whole(model), held_out.user, held_out.item),
        np.full(len(r), mu),
        mf.predict(biases, held_out.user, held_out.item),
    )
    yield len(r)
    for r_hat in predicted:
        yield squared_error(r, np.clip(r_hat, train.rating.min(), train.rating.max()))


def _columns(table: pa.Table) -> mf.Ratings:
    user, item, rating = rating_columns(table)
    return mf.Ratings(user, item, rating.astype(np.float64))


COMPONENT = Component(
    name="evaluate_ratings",
    roles={"data_holder": data_holder, "aggregator": add_once},
    params=EvaluateRatingsParams,
    messages=MESSAGES,
    inputs={"ratings": "split ratings", "model": "this party's part of the model"},
    optional_inputs=("ratings", "model"),  # the aggregator has none
    outputs={"metrics": "RMSE by arm and part, and n of each part; the same document at every data_holder"},
    min_parties={"data_holder": MIN_PARTIES, "aggregator": 1},
    adversary=ADVERSARY + "Not protected: what the totals say.",
)
