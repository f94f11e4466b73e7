"""What s gives the label_holder and what it shows, on MovieLens-100K: figures that the documentation may quote.

The exchange is run on its exact integers in the clear; tests/components/test_vertical_mf.py shows that encryption gives
the same. Halves as in the demo, three seeds.
"""

import gzip

import numpy as np
import pytest

from demo.draws import GROUPS, K, arms, features, halves, view
from demo.fetch import parse_official
from features.encoders import leverage

pytestmark = pytest.mark.data
SEEDS = (1, 2, 3)


@pytest.fixture(scope="module")
def raw(accord_data):
    def text(name):
        return gzip.decompress((accord_data / "ml-100k" / name).read_bytes()).decode("latin-1")

    return parse_official(text("u.data.gz"), text("u.user.gz"), text("u.item.gz"))


def test_customers_without_ratings_gain_and_warm_ones_do_not_lose(raw, record_testsuite_property):
    found = [arms(raw, seed) for seed in SEEDS]
    mean = {group: {arm: np.mean([run[group][arm] for run in found]) for arm in found[0][group]} for group in GROUPS}
    for group, figures in mean.items():
        record_testsuite_property(f"vertical {group}", {arm: round(float(x), 4) for arm, x in figures.items()})
    for run in found:
        assert run["cold_0"]["federated"] < run["cold_0"]["alone"] - 0.03
        assert run["warm"]["federated"] < run["warm"]["alone"]
    assert mean["cold_0"]["federated"] < min(0.92, mean["cold_0"]["alone"] - 0.08)
    for group in GROUPS:
        assert mean[group]["federated"] < mean[group]["alone"]
        assert mean[group]["federated"] < mean[group]["pooled"] + 0.01


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
        assert leverage(X) <= 0.5
        assert X.shape[1] >= 3 * (K + 1)
        nights = [view(train, X, seed, night)[1] for night in range(6)]
        tables.append([shown(np.hstack(nights[:n]), X, raw, seed) for n in (1, 3, 6)])
    one, three, six = np.mean(tables, axis=0)
    record_testsuite_property("vertical one view: R2, sex, age", one.round(3).tolist())
    record_testsuite_property("vertical six views: R2, sex, age", six.round(3).tolist())
    assert one[0] < 0.35
    assert six[0] > three[0] > one[0] + 0.05
    assert six[1] > 0.93 > one[1]
    assert 0.7 < one[1] < 0.9
    assert 0.7 < one[2] < 0.9
