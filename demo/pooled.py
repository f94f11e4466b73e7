"""The arms that federation is measured against, on raw files that only the demo's harness sees; a node never does.

    horizontal   pooled (all banks' ratings as one owner could train them), pooled_biases, alone (each its own), mean
    vertical     pooled (the bank's and the bureau's raw ratings of the same people, `models.vertical.pooled`)

What is tuned (λ, epochs) is tuned on validation ratings; predictions are clipped to the range of the training ratings.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from components import evaluate_cold, split_cold, split_ratings
from components.horizontal_mf import HorizontalMfParams
from components.vertical_mf import VerticalMfParams
from demo.raw_split import HarnessContext, Tables, alignment, clean_tables
from features.indexing import positions, rating_columns
from models import mf, vertical
from models.metrics import root_mean, squared_error
from pipelines.spec import PipelineSpec

REGS = (0.06, 0.10, 0.12, 0.15)  # λ that tuning tries
MAX_EPOCHS, EVERY, PATIENCE = 100, 5, 2
HELD_OUT = ("validation", "test")


def horizontal(parties: Path, spec: PipelineSpec, seed: int | None = None) -> dict[str, float]:
    """Return {arm}.{part}.rmse on the raw files below `parties`/<bank>, for a run seed (default: the pipeline's)."""
    seed = spec.seed if seed is None else seed
    banks: list[Tables] = []
    for bank in spec.roles["data_holder"]:
        tables = clean_tables(parties / bank, ("ratings", "catalogue"))
        step = HarnessContext(spec, "split", seed, inputs={"tables": tables})
        banks.append(step.run(split_ratings.COMPONENT, "data_holder")["ratings"])
    params = HorizontalMfParams.model_validate(dict(spec.steps["train"].params))
    own = [Arms(bank, params, np.random.default_rng([seed, j])) for j, bank in enumerate(banks)]
    whole = Arms(union(banks), params, np.random.default_rng([seed, len(banks)]))
    nothing, shape = np.zeros((whole.shape[1], 0)), whole.shape
    models = {
        "pooled": whole.tuned(),
        "pooled_biases": mf.fit_biases(whole.train, whole.mu, shape),
        "mean": mf.Factors(whole.mu, nothing, np.zeros(shape[1]), np.zeros((shape[0], 0)), np.zeros(shape[0])),
    }
    found = {f"{arm}.{part}.rmse": root_mean(*whole.errors(m, part)) for arm, m in models.items() for part in HELD_OUT}
    alone = [(arms, arms.tuned()) for arms in own]
    for part in HELD_OUT:
        squared, n = np.sum([arms.errors(model, part) for arms, model in alone], axis=0)
        found[f"alone.{part}.rmse"] = root_mean(squared, n)
    return found


def cold(parties: Path, spec: PipelineSpec, secret: bytes, seed: int | None = None) -> dict[str, float]:
    """Return pooled.{group}.rmse of the vertical pipeline; `secret` is the receiver's, who draws the order."""
    seed = spec.seed if seed is None else seed
    (bank,), (bureau,) = spec.roles["label_holder"], spec.roles["feature_holder"]
    mine = clean_tables(parties / bank, ("half_ratings", "catalogue"))
    theirs = clean_tables(parties / bureau, ("people", "behaviour"))
    aligned = alignment(HarnessContext(spec, "align", seed, secret), mine["half_ratings"], theirs["people"])
    step = HarnessContext(spec, "split", seed, secret, {"tables": mine, "alignment": aligned})
    ratings: Tables = step.run(split_cold.COMPONENT, "label_holder")["ratings"]
    params = VerticalMfParams.model_validate(dict(spec.steps["train"].params))
    model = _fit_both(ratings, theirs["behaviour"], params, np.random.default_rng(seed))

    # The component's own evaluation, with the pooled model in the place of the federated one.
    arrays = {"mu": np.array(model.μ), "Q": model.Q, "b_item": model.b, "P": model.P, "s": np.zeros_like(model.P)}
    arrays |= {"Q_alone": model.Q, "b_alone": model.b, "P_alone": model.P}
    judge = HarnessContext(spec, "evaluate", seed, inputs={"ratings": ratings, "model": arrays})
    metrics = judge.run(evaluate_cold.COMPONENT, "label_holder")["metrics"]
    return {n.replace("federated", "pooled"): x for n, x in metrics.items() if n.startswith("federated.")}


class Arms:
    """One owner of ratings: its training, validation and test rows, and the models that it can fit."""

    def __init__(self, tables: Tables, params: HorizontalMfParams, rng: np.random.Generator) -> None:
        """Take split tables with the forms of `split_ratings`."""
        self.parts = {part: _columns(tables[part]) for part in ("train", *HELD_OUT)}
        self.train = self.parts["train"]
        self.mu = float(self.train.rating.mean())
        self.shape = (tables["users"].num_rows, tables["items"].num_rows)
        self.params, self._rng = params, rng

    def tuned(self) -> mf.Factors:
        """Return the fit with the best validation RMSE over λ and the number of epochs; the rest is as in the run."""
        return min((self._stopped(λ) for λ in REGS), key=lambda found: found[0])[1]

    def errors(self, model: mf.Factors, part: str) -> tuple[float, int]:
        """Return (Σe², n) of a part."""
        held_out, r = self.parts[part], self.train.rating
        r_hat = mf.predict(model, held_out.user, held_out.item)
        return squared_error(held_out.rating, np.clip(r_hat, r.min(), r.max())), len(held_out)

    def _stopped(self, λ: float) -> tuple[float, mf.Factors]:
        """Return (validation Σe², fit) of the best epoch; training ends when `PATIENCE` looks bring nothing better."""
        best, waited = (np.inf, mf.Factors(0.0, *[np.empty(0)] * 4)), 0
        for fit in self._epochs(λ):
            squared = self.errors(fit, "validation")[0]
            best, waited = ((squared, fit.copy()), 0) if squared < best[0] else (best, waited + 1)
            if waited == PATIENCE:
                break
        return best

    def _epochs(self, λ: float) -> Iterator[mf.Factors]:
        (users, items), p = self.shape, self.params
        Q = mf.start_factors(self._rng, items, p.embedding_size, p.start_deviation)
        P = mf.start_factors(self._rng, users, p.embedding_size, p.start_deviation)
        model = mf.Factors(self.mu, Q, np.zeros(items), P, np.zeros(users))
        for n in range(1, MAX_EPOCHS + 1):
            order = self._rng.permutation(len(self.train))
            mf.epoch(model, self.train, order, p.learning_rate, λ, batch_size=p.batch_size)
            if n % EVERY == 0:
                yield model


def _columns(table: pa.Table) -> mf.Ratings:
    user, item, rating = rating_columns(table)
    return mf.Ratings(user, item, rating.astype(np.float64))


def union(banks: list[Tables]) -> Tables:
    """Return the tables of all banks as one owner's: other customers, the same items."""
    first = np.cumsum([0, *(bank["users"].num_rows for bank in banks)])
    joined = {"users": pa.concat_tables([bank["users"] for bank in banks]), "items": banks[0]["items"]}
    for part in ("train", *HELD_OUT):
        shifted = [
            bank[part].set_column(0, "user", pa.array((bank[part]["user"].to_numpy() + n).astype(np.int32)))
            for bank, n in zip(banks, first[:-1], strict=True)
        ]
        joined[part] = pa.concat_tables(shifted)
    return joined


def _fit_both(
    ratings: Tables, behaviour: pa.Table, params: VerticalMfParams, rng: np.random.Generator
) -> vertical.Factors:
    users, items = ratings["users"]["user_id"].combine_chunks(), ratings["items"]["item_id"].combine_chunks()
    shape = (len(users), len(items))
    u, i = positions(behaviour["user_id"], users), positions(behaviour["item_id"], items)
    known = (u >= 0) & (i >= 0)  # the bureau knows people whom the bank does not
    other = vertical.Ratings(u[known], i[known], behaviour["rating"].to_numpy()[known], shape)
    ridge = vertical.Ridge(params.reg_user, params.reg_item, params.reg_bias)
    mine = vertical.Ratings(*rating_columns(ratings["train"]), shape)
    return vertical.pooled(mine, other, params.embedding_size, ridge, params.sweeps, rng)
