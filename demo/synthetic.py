"""Generated people, items and ratings for machines that may not fetch MovieLens. Nothing in them is measured.

Ratings have the structure that a recommender looks for, so that training makes sense (symbols as in `models`):

    r_ui = round(μ + b_u + b_i + p_u·q_i + noise), clipped to 1..5, rank K

An item's q_i and b_i lean on its genres, a person's p_u and b_u on age, sex and occupation, and people rate what is
popular and what they like. So demographics tell a little about a new customer and behaviour elsewhere a lot, as in
real data.
"""

from __future__ import annotations

import numpy as np

from demo.fetch import GENRES, Raw

PEOPLE, ITEMS, K = 600, 500, 6
MU, NOISE = 3.5, 0.75
OCCUPATIONS = (
    "administrator", "artist", "doctor", "educator", "engineer", "entertainment", "executive", "healthcare", "lawyer",
    "librarian", "marketing", "other", "programmer", "retired", "scientist", "student", "technician", "writer",
)  # fmt: skip
START = 874_000_000  # 1997-09-11, UTC


def generate(seed: int) -> Raw:
    """Return the data set of this seed: 600 people, 500 items, about 50,000 ratings."""
    rng = np.random.default_rng([seed, 0x5EED])
    flags = _genres(rng)
    people, traits = _people(rng)
    q = flags @ rng.normal(0, 0.45, (len(GENRES), K)) + rng.normal(0, 0.3, (ITEMS, K))
    p = traits @ rng.normal(0, 0.15, (traits.shape[1], K)) + rng.normal(0, 0.4, (PEOPLE, K))
    b_user = rng.normal(0, 0.4, PEOPLE)
    b_item = rng.normal(0, 0.4, ITEMS)
    score = MU + b_user[:, None] + b_item[None, :] + p @ q.T  # (people, items)
    popularity = rng.permutation(-0.9 * np.log(np.arange(1, ITEMS + 1)))
    pairs = [_choose(rng, popularity + 0.8 * (score[u] - MU)) for u in range(PEOPLE)]
    users = np.repeat(np.arange(PEOPLE), [len(chosen) for chosen in pairs])
    items = np.concatenate(pairs)
    ratings = np.clip(np.rint(score[users, items] + rng.normal(0, NOISE, len(users))), 1, 5).astype(np.int64)
    times = START + rng.integers(0, 180 * 86_400, len(users))
    rows = np.column_stack([users + 1, items + 1, ratings, times]).astype(np.int64)
    catalogue = [(i + 1, f"Generated item {i + 1}", tuple(int(flag) for flag in flags[i])) for i in range(ITEMS)]
    return Raw(rows[rng.permutation(len(rows))], people, catalogue)


def _genres(rng: np.random.Generator) -> np.ndarray:
    """Return (items, genres) flags: one to three genres an item, some much more frequent than others."""
    weight = 1.0 / np.arange(1, len(GENRES)) ** 0.7
    flags = np.zeros((ITEMS, len(GENRES)), dtype=np.int64)
    for i in range(ITEMS):
        chosen = rng.choice(len(weight), rng.integers(1, 4), replace=False, p=weight / weight.sum())
        flags[i, 1 + chosen] = 1  # 0 is "unknown"
    return flags


def _people(rng: np.random.Generator) -> tuple[list[tuple[int, int, str, str, str]], np.ndarray]:
    """Return the rows of people and their traits (people, 2 + occupations)."""
    age = np.clip(rng.gamma(9, 3.7, PEOPLE).astype(np.int64), 10, 80)
    male = rng.random(PEOPLE) < 0.7
    job = rng.choice(len(OCCUPATIONS), PEOPLE)
    rows = [
        (u + 1, int(age[u]), "M" if male[u] else "F", OCCUPATIONS[job[u]], f"{rng.integers(100_000):05d}")
        for u in range(PEOPLE)
    ]
    return rows, np.column_stack([(age - age.mean()) / age.std(), male - 0.5, np.eye(len(OCCUPATIONS))[job]])


def _choose(rng: np.random.Generator, log_weight: np.ndarray) -> np.ndarray:
    """Draw a person's items without repetition (Gumbel top-n): 20 to 250 of them."""
    n = int(np.clip(rng.lognormal(4.2, 0.65), 20, 250))
    return np.argsort(-(log_weight + rng.gumbel(size=len(log_weight))), kind="stable")[:n]
