"""Histories small enough for loops, in Hypothesis and by hand."""

import numpy as np
from hypothesis import strategies as st

from models.histories import Histories


def histories(lists, items):
    """Return the histories of people given as lists of items, oldest first."""
    user = np.repeat(np.arange(len(lists)), [len(one) for one in lists]).astype(np.int32)
    return Histories(user, np.array([i for one in lists for i in one], np.int32), len(lists), items)


def as_lists(h):
    """Return the items of each person, oldest first: the inverse of `histories`."""
    return [[int(i) for u, i in zip(h.user, h.item, strict=True) if u == user] for user in range(h.users)]


def together(banks):
    """Return the histories of all banks' people, one bank after the other."""
    return histories([one for h in banks for one in as_lists(h)], banks[0].items)


@st.composite
def bank_histories(draw, max_banks=3, max_users=6):
    """One to three banks with the same items and other people; a bank may have nobody, a person nothing."""
    items = draw(st.integers(1, 5))
    history = st.lists(st.integers(0, items - 1), unique=True, max_size=items)
    banks = draw(st.lists(st.lists(history, max_size=max_users), min_size=1, max_size=max_banks))
    return [histories(lists, items) for lists in banks]


def constrained_least_squares(A, target, reg, weight=None):
    """Return argmin_B Σ_r weight_r ‖target_r − (AB)_r‖² + reg·‖B‖² with diag(B) = 0, one column after the other."""
    n = A.shape[1]
    root = np.ones(len(A)) if weight is None else np.sqrt(weight)
    B = np.zeros((n, n))
    for j in range(n):
        rest = [i for i in range(n) if i != j]
        left = np.vstack([root[:, None] * A[:, rest], np.sqrt(reg) * np.eye(n)[:, rest]])
        right = np.concatenate([root * target[:, j], np.zeros(n)])
        B[rest, j] = np.linalg.lstsq(left, right, rcond=None)[0]
    return B
