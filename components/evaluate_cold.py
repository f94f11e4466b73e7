"""Does the other party's knowledge help? RMSE of the arms alone and federated for warm and for cold customers.

The label_holder ends with the metrics; nothing is sent. Predictions are clipped to the range of the training ratings.
A group of fewer than `min_people` people with test ratings is refused by name, so that no metric is about a few.

    groups    all, warm, cold (every cold customer), cold_0, cold_3, ... (by how many training ratings were kept)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import numpy as np
from annotated_types import Ge

from components.contract import Component, Context, Outputs, Params
from features.indexing import rating_columns
from models.metrics import rmse
from models.vertical import Factors, predict


class EvaluateColdParams(Params):
    """Who is too few."""

    min_people: Annotated[int, Ge(10)] = 20  # people with test ratings in a group


def label_holder(ctx: Context, params: EvaluateColdParams) -> Outputs:
    """Return {arm}.{group}.rmse, and n and people of each group."""
    ratings, model = ctx.inputs["ratings"], ctx.inputs["model"]
    user, item, rating = rating_columns(ratings["test"])
    scale = ratings["train"]["rating"].to_numpy()
    arms = {arm: np.clip(r, scale.min(), scale.max()) for arm, r in _predictions(model, user, item)}

    metrics: dict[str, float] = {}
    for group, rows in _groups(ratings["people"]["cold"].to_numpy()[user]):
        people = len(np.unique(user[rows]))
        ctx.require(
            people >= params.min_people, f"people in group {group}",
            expected=f"at least {params.min_people}", found=people,
            remedy="keep more customers cold, or leave the group out of the split",
        )  # fmt: skip
        metrics |= {f"{arm}.{group}.rmse": rmse(rating[rows], r[rows]) for arm, r in arms.items()}
        metrics |= {f"{group}.n": int(rows.sum()), f"{group}.people": people}
    for name, value in metrics.items():
        ctx.metric(name, value)
    return {"metrics": metrics}


def _predictions(model: dict[str, np.ndarray], user: np.ndarray, item: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    μ = float(model["mu"])
    alone = Factors(μ, model["b_alone"], model["Q_alone"], model["P_alone"])
    yield "alone", predict(alone, np.zeros_like(alone.P), user, item)
    yield "federated", predict(Factors(μ, model["b_item"], model["Q"], model["P"]), model["s"], user, item)


def _groups(cold: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Yield each group's name and which test ratings belong to it; `cold` is -1 for warm customers."""
    yield "all", np.ones(len(cold), bool)
    yield "warm", cold < 0
    yield "cold", cold >= 0
    for kept in np.unique(cold[cold >= 0]):
        yield f"cold_{kept}", cold == kept


COMPONENT = Component(
    name="evaluate_cold",
    roles={"label_holder": label_holder},
    params=EvaluateColdParams,
    inputs={
        "ratings": "split ratings with the list of cold customers",
        "model": "the label_holder's part of the model",
    },
    outputs={"metrics": "RMSE by arm and group, with n and people of each group"},
    min_parties={"label_holder": 1},
    adversary="Nothing is sent. Metrics of groups below a minimum size are refused.",
)
