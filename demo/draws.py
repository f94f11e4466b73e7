"""Vertical arms over many draws of the cold customers: which people are cold decides the level of an error.

A group of cold customers is 63 people of MovieLens-100K, so its RMSE moves by several hundredths from draw to draw
while the arms of one draw stay in order (docs/adr/0009). The exchange is computed on its exact integers in the clear,
which encryption does not change (tests/components/test_vertical_mf.py); halves and columns are made as in the pipeline.
"""

from __future__ import annotations

import numpy as np

from components.encode_features import EncodeFeaturesParams
from components.vertical_mf import VerticalMfParams
from demo.arms import Arms
from demo.data import share_out
from demo.fetch import Raw
from features.encoders import fit_one_hot, fit_ranks
from models import vertical as mf
from models import vertical_fixed as fixed

PARAMS, RIDGE = VerticalMfParams(), mf.Ridge()
K = PARAMS.embedding_size
DRAWS = 24
GROUPS = {"warm": -1, "cold_0": 0, "cold_3": 3, "cold_10": 10}  # training ratings that are left; -1 = all


def arms(raw: Raw, seed: int) -> Arms:
    """Return the RMSE of the label_holder alone, with s of the exchange, and of both owners' ratings pooled."""
    cold, train, test, behaviour = halves(raw, seed)
    alone, s = view(train, features(raw, behaviour, seed), seed)
    s = mf.scaled(s, mf.calibrate(alone, train, s))
    federated = mf.refit(alone, train, s, mf.Ridge(user=PARAMS.reg_user_refit), PARAMS.refit_sweeps)
    pooled = mf.pooled(train, behaviour, K, RIDGE, PARAMS.sweeps, np.random.default_rng([seed, 6]))
    zero = np.zeros_like(s)
    models = {"alone": (alone, zero), "federated": (federated, s), "pooled": (pooled, zero)}
    error = {arm: test.value - np.clip(mf.predict(*model, test.user, test.item), 1, 5) for arm, model in models.items()}
    return {
        group: {arm: float(np.sqrt(np.mean(e[cold[test.user] == kept] ** 2))) for arm, e in error.items()}
        for group, kept in GROUPS.items()
    }


def halves(raw: Raw, seed: int) -> tuple[np.ndarray, mf.Ratings, mf.Ratings, mf.Ratings]:
    """Return training ratings that each person keeps (U,), train and test of the bank's half, the bureau's ratings."""
    rng, half = np.random.default_rng(seed), share_out(raw, seed).half
    shape = (len(raw.people), len(raw.items))
    user, item, value = raw.ratings[:, 0] - 1, raw.ratings[:, 1] - 1, raw.ratings[:, 2]
    bank = half[item]
    count = np.bincount(user[bank], minlength=shape[0])
    cold = np.full(shape[0], -1)
    drawn = rng.permutation(np.flatnonzero(count > 10))[: round(0.2 * shape[0])]
    for n, kept in enumerate((0, 3, 10)):
        cold[drawn[n::3]] = kept
    order = np.lexsort((rng.random(len(user)), user))
    order = order[bank[order]]
    place = np.arange(len(order)) - np.searchsorted(user[order], user[order])
    held_out = np.where(cold[user[order]] < 0, rng.random(len(order)) < 0.1, place >= cold[user[order]])
    parts = (order[~held_out], order[held_out], np.flatnonzero(~bank))
    train, test, behaviour = (mf.Ratings(user[rows], item[rows], value[rows], shape) for rows in parts)
    return cold, train, test, behaviour


def features(raw: Raw, behaviour: mf.Ratings, seed: int) -> np.ndarray:
    """Return the bureau's columns (U, d) as `encode_features` makes them: shares, factors, demographics."""
    params = EncodeFeaturesParams()
    ridge = mf.Ridge(params.reg_user, params.reg_item, params.reg_bias)
    P = mf.fit(behaviour, params.factors, ridge, params.sweeps, np.random.default_rng([seed, 5])).P
    genres = np.zeros((behaviour.shape[0], 19))
    np.add.at(genres, behaviour.user, np.array([flags for _, _, flags in raw.items])[behaviour.item])
    genres /= np.maximum(np.bincount(behaviour.user, minlength=len(genres)), 1)[:, None]
    numbers = [np.array([person[1] for person in raw.people], float), *genres.T, *P.T]
    ranked = [(fit_ranks("column", x, params.group_size), x) for x in numbers]
    words = [np.array([person[n] for person in raw.people], dtype=object) for n in (2, 3)]
    hot = [fit_one_hot("column", x, params.group_size).apply(x) for x in words]
    return np.column_stack([encoder.apply(x) for encoder, x in ranked if encoder] + hot)


def view(train: mf.Ratings, X: np.ndarray, *seed: int) -> tuple[mf.Factors, np.ndarray]:
    """Return the fit alone and what the label_holder decrypts, s (U, k+1) in stars."""
    alone = mf.fit(train, K, RIDGE, PARAMS.sweeps, np.random.default_rng([*seed, 6]))
    P = mf.user_factors(alone, train, np.zeros((len(X), K + 1)), PARAMS.reg_target).P
    P_hat, σ, _ = fixed.round_factors(P)
    X_hat, _ = fixed.round_features(X)
    noise = fixed.draw_noise(np.random.default_rng([*seed, 7]), P.shape, PARAMS.scales)
    s = fixed.exchange_plain(P_hat, X_hat, fixed.round_map(X_hat, PARAMS.scales), noise)
    return alone, s / 2.0**PARAMS.scales.fraction * σ
