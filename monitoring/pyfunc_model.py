"""The scoring wrapper of a registered model part: code by name, numbers as safetensors, nothing pickled.

MLflow runs this file when a part is loaded ("models from code"). The part of a bank scores its own customers; the part
of a feature_holder has no scores to give and says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import mlflow
import numpy as np
from safetensors.numpy import load_file


class ModelPart(mlflow.pyfunc.PythonModel):  # type: ignore[misc]
    """Scores (user, item) pairs of the part's own integer indices."""

    def load_context(self, context: Any) -> None:
        """Read the arrays of the part."""
        self.arrays = load_file(context.artifacts["part"])

    def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def]  # MLflow reads type hints
        """Return a score per row of `user`, `item`."""
        user, item = model_input["user"].to_numpy(), model_input["item"].to_numpy()
        scores = _from_items if "B" in self.arrays else _from_layers if "layers" in self.arrays else _from_factors
        return scores(self.arrays, user, item)


def _from_items(part: Mapping[str, np.ndarray], user: np.ndarray, item: np.ndarray) -> np.ndarray:
    """EASE and SLIST: the weights from the person's items to this one; SLIST counts recent items more."""
    δ = float(part.get("input_decay", np.inf))
    found = np.zeros(len(user))
    for n, (u, i) in enumerate(zip(user, item, strict=True)):
        own = part["history"][part["start"][u] : part["start"][u + 1]]
        found[n] = np.exp(-np.arange(len(own))[::-1] / δ) @ part["B"][own, i]
    return found


def _from_layers(part: Mapping[str, np.ndarray], user: np.ndarray, item: np.ndarray) -> np.ndarray:
    """GMF, MLP, NeuMF (He et al. 2017, eq. 8-12): before the last sigmoid, which changes no order."""
    k, embedding, *widths = part["form"].tolist()
    p, q, θ = part["P"][user], (part["V"] + part["V_own"])[item], part["layers"]
    a = np.hstack([p[:, k:], q[:, k:]])
    for n, m in pairwise([2 * embedding, *widths]):
        W, b, θ = np.split(θ, [m * n, m * n + m])
        a = np.maximum(a @ W.reshape(m, n).T + b, 0.0)
    return np.asarray(np.hstack([p[:, :k] * q[:, :k], a]) @ θ)


def _from_factors(part: Mapping[str, np.ndarray], user: np.ndarray, item: np.ndarray) -> np.ndarray:
    if "Q" not in part:
        raise ValueError("this party's part holds no item factors: it takes part in training, not in scoring")
    P, Q = part["P"][user], part["Q"][item]
    if "mu" not in part:  # iALS
        return np.asarray((P * (Q + part["Q_own"][item])).sum(1))
    if "s" in part:  # vertical: the first column of P and s is the user bias
        P = P + part["s"][user]
        return np.asarray(part["mu"] + part["b_item"][item] + P[:, 0] + (P[:, 1:] * Q).sum(1))
    # The party's own rows stand in for items that nobody shares; one of the two is 0 in every row.
    Q, b_item = Q + part["Q_own"][item], part["b_item"] + part["b_own"]
    return np.asarray(part["mu"] + b_item[item] + part["b_user"][user] + (P * Q).sum(1))


mlflow.models.set_model(ModelPart())
