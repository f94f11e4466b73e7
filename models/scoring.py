"""Scores of items by the kind of model: one table, so that whoever ranks items need not know what made the scores.

`scores(model, h, users)` gives (len(users), I) for the arrays of a party's part of the model and the training histories
of its users; the higher, the sooner the item is shown. `shared` names the arrays that are the same at every party.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models import ease, ials, mf, ncf, slist
from models.histories import Counts, Histories

Floats = NDArray[np.float64]
Model = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Kind:
    """What a kind of model shares, and how it scores."""

    shared: tuple[str, ...]
    scores: Callable[[Model, Histories, Counts], Floats]


def whole(model: Model) -> mf.Factors:
    """Return a party's part of a `horizontal_mf` model with its own rows in the places that nobody shares."""
    Q, b_item = model["Q"] + model["Q_own"], model["b_item"] + model["b_own"]  # one of the two is 0 in every row
    return mf.Factors(float(model["mu"]), Q, b_item, model["P"], model["b_user"])


def _ease(model: Model, h: Histories, users: Counts) -> Floats:
    return ease.scores(model["B"], h, users)


def _slist(model: Model, h: Histories, users: Counts) -> Floats:
    return slist.scores(model["B"], h, users, float(model["input_decay"]))


def _ials(model: Model, h: Histories, users: Counts) -> Floats:
    return ials.scores(model["Q"] + model["Q_own"], model["P"], users)


def _mf(model: Model, h: Histories, users: Counts) -> Floats:
    m = whole(model)
    return np.asarray(m.mu + m.b_user[users, None] + m.b_item + m.P[users] @ m.Q.T)


def _ncf(model: Model, h: Histories, users: Counts) -> Floats:
    V = model["V"] + model["V_own"]  # one of the two is 0 in every row
    return ncf.scores(ncf.Model(ncf.Form.of(model["form"]), model["layers"], V, model["P"]), users)


KINDS: Mapping[str, Kind] = {
    "ease": Kind(("sum", "catalogue"), _ease),
    "slist": Kind(("sum", "input_decay", "catalogue"), _slist),
    "ials": Kind(("Q", "catalogue"), _ials),
    "ncf": Kind(("V", "layers", "form", "catalogue"), _ncf),
    "mf": Kind(("mu", "Q", "b_item", "catalogue"), _mf),
}
