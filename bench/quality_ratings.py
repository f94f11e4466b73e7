"""RMSE of held-out ratings: `horizontal_mf` as it runs, beside each bank alone and all ratings in one place.

*Bank alone* and *pooled* are tuned on validation ratings, λ and the number of epochs (`demo.pooled`); *biases* and
*mean* are the baselines of `evaluate_ratings`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bench.parties import run_step
from bench.quality_run import ROLES, Figures
from bench.sets import BANKS, banks
from components import evaluate_ratings, fit_statistics, horizontal_mf, split_ratings
from components.contract import Component
from components.horizontal_mf import HorizontalMfParams
from demo.pooled import HELD_OUT, Arms, union
from models.metrics import root_mean

RATING = {"table": "ratings", "column": "rating"}


def judge_ratings(data: str, seed: int, settings: Mapping[str, Any]) -> dict[str, Figures]:
    """Return validation.rmse and test.rmse by arm, in units of the ratings."""
    tables = {bank: {"tables": found} for bank, found in banks(data, seed).items()}
    done = run_step(split_ratings.COMPONENT, {"data_holder": BANKS}, tables, {}, seed=seed).outputs
    ratings: dict[str, Any] = {bank: done[bank]["ratings"] for bank in BANKS}
    fitted = _step(fit_statistics.COMPONENT, tables, RATING, seed)
    inputs = {bank: {"ratings": ratings[bank], "statistics": fitted[bank]["statistics"]} for bank in BANKS}
    trained = _step(horizontal_mf.COMPONENT, inputs, settings, seed)
    inputs = {bank: {"ratings": ratings[bank], "model": trained[bank]["model"]} for bank in BANKS}
    metrics = _step(evaluate_ratings.COMPONENT, inputs, {}, seed)[BANKS[0]]["metrics"]
    found = {arm: {f"{part}.rmse": metrics[f"{arm}.{part}.rmse"] for part in HELD_OUT}
             for arm in ("federated", "biases", "mean")}  # fmt: skip
    return found | _others(ratings, HorizontalMfParams.model_validate(settings), seed)


def _others(ratings: Mapping[str, Any], params: HorizontalMfParams, seed: int) -> dict[str, Figures]:
    """Return the arms that no secure sum makes."""
    owners = {
        "bank alone": [Arms(ratings[bank], params, np.random.default_rng([seed, n])) for n, bank in enumerate(BANKS)],
        "pooled": [Arms(union([ratings[bank] for bank in BANKS]), params, np.random.default_rng([seed, len(BANKS)]))],
    }
    found = dict[str, Figures]()
    for arm, each in owners.items():
        models = [(owner, owner.tuned()) for owner in each]
        errors = {part: np.sum([owner.errors(m, part) for owner, m in models], axis=0) for part in HELD_OUT}
        found[arm] = {f"{part}.rmse": root_mean(*errors[part]) for part in HELD_OUT}
    return found


def _step(part: Component, inputs: Mapping[str, Any], params: Mapping[str, Any], seed: int) -> Mapping[str, Any]:
    return run_step(part, ROLES, inputs, params, seed=seed).outputs
