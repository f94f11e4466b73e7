"""What s gives the label_holder and what it shows, on MovieLens-100K: figures that the documentation may quote.

The exchange is run on its exact integers in the clear; tests/components/test_vertical_mf.py shows that encryption gives
the same. Halves as in the demo, three seeds.
"""

import gzip

import numpy as np
import pytest

from components.encode_features import EncodeFeaturesParams
from components.vertical_mf import VerticalMfParams
from demo.data import share_out
from demo.fetch import parse_official
from features.encoders import fit_one_hot, fit_ranks, leverage
from models import vertical as mf
from models import vertical_fixed as fixed

pytestmark = pytest.mark.data
SEEDS = (1, 2, 3)
PARAMS, RIDGE = VerticalMfParams(), mf.Ridge()
K = PARAMS.embedding_size
GROUPS = {"warm": -1, "cold_0": 0, "cold_3": 3, "cold_10": 10}


@pytest.fixture(scope="module")
def raw(accord_data):
    def text(name):
        return gzip.decompress((accord_data / "ml-100k" / name).read_bytes()).decode("latin-1")

    return parse_official(text("u.data.gz"), text("u.user.gz"), text("u.item.gz"))


def halves(raw, seed):
    """Return (train, test, cold) of the bank's half and the bureau's ratings."""
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
    test = np.where(cold[user[order]] < 0, rng.random(len(order)) < 0.1, place >= cold[user[order]])
    parts = (order[~test], order[test], np.flatnonzero(~bank))
    return cold, *(mf.Ratings(user[rows], item[rows], value[rows], shape) for rows in parts)


def features(raw, behaviour, seed):
    """The bureau's columns as the component `encode_features` makes them: shares, factors, demographics."""
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


def view(train, X, seed):
    """Return the fit alone and what the label_holder decrypts, s in stars."""
    alone = mf.fit(train, K, RIDGE, PARAMS.sweeps, np.random.default_rng([seed, 6]))
    P = mf.user_factors(alone, train, np.zeros((len(X), K + 1)), PARAMS.reg_target).P
    P_hat, σ, _ = fixed.round_factors(P)
    X_hat, _ = fixed.round_features(X)
    noise = fixed.draw_noise(np.random.default_rng([seed, 7]), P.shape, PARAMS.scales)
    s = fixed.exchange_plain(P_hat, X_hat, fixed.round_map(X_hat, PARAMS.scales), noise)
    return alone, s / 2.0**PARAMS.scales.fraction * σ


def errors(model, s, test, cold):
    error = test.value - np.clip(mf.predict(model, s, test.user, test.item), 1, 5)
    return {group: np.sqrt(np.mean(error[cold[test.user] == kept] ** 2)) for group, kept in GROUPS.items()}


def arms(raw, seed):
    cold, train, test, behaviour = halves(raw, seed)
    X = features(raw, behaviour, seed)
    assert leverage(X) <= 0.5
    assert X.shape[1] >= 3 * (K + 1)
    alone, s = view(train, X, seed)
    s = mf.scaled(s, mf.calibrate(alone, train, s))
    federated = mf.refit(alone, train, s, mf.Ridge(user=PARAMS.reg_user_refit), PARAMS.refit_sweeps)
    pooled = mf.pooled(train, behaviour, K, RIDGE, PARAMS.sweeps, np.random.default_rng([seed, 6]))
    zero = np.zeros_like(s)
    models = {"alone": (alone, zero), "federated": (federated, s), "pooled": (pooled, zero)}
    return {arm: errors(*model, test, cold) for arm, model in models.items()}


def test_customers_without_ratings_gain_and_warm_ones_do_not_lose(raw, record_testsuite_property):
    found = [arms(raw, seed) for seed in SEEDS]
    mean = {arm: {g: np.mean([run[arm][g] for run in found]) for g in GROUPS} for arm in found[0]}
    for arm, figures in mean.items():
        record_testsuite_property(f"vertical {arm}", {group: round(float(x), 4) for group, x in figures.items()})
    for run in found:
        assert run["federated"]["cold_0"] < run["alone"]["cold_0"] - 0.03
        assert run["federated"]["warm"] < run["alone"]["warm"]
    assert mean["federated"]["cold_0"] < min(0.92, mean["alone"]["cold_0"] - 0.08)
    for group in GROUPS:
        assert mean["federated"][group] < mean["alone"][group]
        assert mean["federated"][group] < mean["pooled"][group] + 0.01


def auc(score, positive):
    rank = np.argsort(np.argsort(score))
    return (rank[positive].sum() - positive.sum() * (positive.sum() - 1) / 2) / (positive.sum() * (~positive).sum())


def shown(S, X, raw, seed):
    """What 120 known people teach about everybody else: (R² over all columns, AUC of sex, AUC of age under 25)."""
    known = np.zeros(len(X), bool)
    known[np.random.default_rng([seed, 8]).permutation(len(X))[:120]] = True
    A = np.column_stack([np.ones(len(X)), S / S.std(axis=0)])
    sex = np.array([person[2] == "M" for person in raw.people])
    young = np.array([person[1] < 25 for person in raw.people])
    goal = np.column_stack([(X - X.mean(0)) / X.std(0), sex, young])
    B = np.linalg.solve(A[known].T @ A[known] + np.eye(A.shape[1]), A[known].T @ goal[known])
    found, goal = (A @ B)[~known], goal[~known]
    r2 = 1 - ((goal - found)[:, :-2] ** 2).mean() / goal[:, :-2].var(axis=0).mean()
    return r2, auc(found[:, -2], sex[~known]), auc(found[:, -1], young[~known])


def test_what_120_known_people_tell_about_the_others(raw, record_testsuite_property):
    """Default: one view, `count_view` refuses the next. Weak: a fresh W every night shows more each time."""
    tables = []
    for seed in SEEDS:
        _, train, _, behaviour = halves(raw, seed)
        X = features(raw, behaviour, seed)
        nights = [view(train, X, [seed, night])[1] for night in range(6)]
        tables.append([shown(np.hstack(nights[:n]), X, raw, seed) for n in (1, 3, 6)])
    one, three, six = np.mean(tables, axis=0)
    record_testsuite_property("vertical one view: R2, sex, age", one.round(3).tolist())
    record_testsuite_property("vertical six views: R2, sex, age", six.round(3).tolist())
    assert one[0] < 0.35
    assert six[0] > three[0] > one[0] + 0.05
    assert six[1] > 0.93 > one[1]
    assert 0.7 < one[1] < 0.9
    assert 0.7 < one[2] < 0.9
