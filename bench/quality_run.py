"""One data set, shared out and split by seed, and every arm of a model on it, by the components and their secure sums.

    federated            the sum that the thresholds let out; a bank puts back into its copy what it had withheld
    one for all          the same with `complete: false`: nothing put back, one model for all banks
    unprotected          the sum of everything, no thresholds; `horizontal_ials` refuses that
    bank alone           the same algorithm on the bank's own people, nothing exchanged: the control
    bank alone, tuned    the same with settings of its own, where those of the sum are not its best (float64)
    federated, ε = 1     the same as *federated* with noise (`dp`): one person at one bank, δ in the parameters
    popularity           the bank's own most frequent items for everyone
    pooled               float64, all histories in one place (`bench.quality_pooled`)
    pooled, thresholded  float64 in one place, on the statistics behind *one for all*; NCF has none

All are judged by `evaluate_ranking` on the same candidates, two at a time: its control may be any model of the kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench import quality_ncf, quality_pooled
from bench.parties import run_step
from bench.quality_once import computed_once
from bench.sets import BANKS, banks
from components import (
    evaluate_ranking,
    horizontal_ease,
    horizontal_ials,
    horizontal_ncf,
    horizontal_slist,
    split_leave_one_out,
)
from components.contract import Arrays, Component, Outputs
from components.split_tables import catalogue_digest, histories
from models import ease, ranking, slist
from models.histories import Histories
from models.scoring import KINDS
from models.thresholds import enough_raters

ROLES = {"data_holder": BANKS, "aggregator": ("bureau",)}
COMPONENTS: Mapping[str, Component] = {
    "ease": horizontal_ease.COMPONENT, "slist": horizontal_slist.COMPONENT, "ials": horizontal_ials.COMPONENT,
    "ncf": horizontal_ncf.COMPONENT,
}  # fmt: skip
NCF = "ncf"  # trained in rounds: no statistics that a pooled model could be solved from
OFF = {"min_raters": 1, "min_pairs": 1, "complete": False}  # no thresholds
ONCE = ((ease, "statistics"), (ease, "solve"), (slist, "statistics"), (slist, "orders"), (slist, "solve"))
PLACES = 10
TUNED = "bank alone, tuned"
WITH_NOISE = "federated, ε = "
Figures = dict[str, float]
Models = Mapping[str, Arrays]  # by bank


@dataclass(frozen=True)
class Found:
    """What one kind of model did on one split."""

    arms: Mapping[str, Figures]  # by arm: {part}.hr10, .ndcg10, .full.hr10, .full.ndcg10; or {part}.rmse
    lists: float = 0.0  # share of people whose ordered top 10 is that of `pooled, thresholded`, ties apart
    lists_with_ties: float = 0.0  # the same, where an item of the same score in a place counts as another list
    split: Mapping[str, float] = field(default_factory=dict)  # people, items, ratings, test items that survive


class Trial:
    """A data set at three banks, split."""

    def __init__(self, data: str, seed: int) -> None:
        """Run `split_leave_one_out` at every bank."""
        inputs = {bank: {"tables": tables} for bank, tables in banks(data, seed).items()}
        done = run_step(split_leave_one_out.COMPONENT, {"data_holder": BANKS}, inputs, {}, seed=seed).outputs
        self._seed = seed
        self._ratings: dict[str, Mapping[str, pa.Table]] = {bank: _any(done[bank], "ratings") for bank in BANKS}
        self._histories = {bank: histories(tables) for bank, tables in self._ratings.items()}

    def counts(self, min_raters: int) -> dict[str, float]:
        """Return people, items, ratings, and the share of test items that some bank lets out."""
        every = list(self._histories.values())
        out = np.sum([enough_raters(h, min_raters).raters for h in every], axis=0) > 0
        test = np.concatenate([tables["test"]["item"].to_numpy() for tables in self._ratings.values()])
        parts = [tables[part].num_rows for tables in self._ratings.values() for part in ("train", "validation", "test")]
        return {
            "people": sum(h.users for h in every), "items": every[0].items, "ratings": sum(parts),
            "test items that survive": float(out[test].mean()),
        }  # fmt: skip

    def judge(
        self, kind: str, settings: Mapping[str, Any], pooled: Mapping[str, Any], alone: Mapping[str, Any],
        private: Mapping[str, Any] | None = None,
    ) -> Found:  # fmt: skip
        """Train every arm of this kind, and judge it.

        `pooled`, `alone`: settings of *pooled* and of *bank alone, tuned*, where they are others; no such arm for none.
        `private`: `dp` of the arms with noise, by their ε; none without.
        """
        with computed_once(ONCE):
            models = self._models(kind, settings, pooled, alone)
            for ε, dp in (private or {}).items():
                models[WITH_NOISE + ε] = _each(self._trained(COMPONENTS[kind], {**settings, "dp": dp}), "model")
        params = COMPONENTS[kind].params.model_validate(settings).model_dump()
        if kind == NCF:
            return Found(self._judged(kind, models), split=self.counts(params["min_raters_per_item"]))
        same = self._same(kind, models.get("one for all", models["federated"]), models["pooled, thresholded"])
        return Found(self._judged(kind, models), *same, self.counts(params["min_raters"]))

    def _models(
        self, kind: str, settings: Mapping[str, Any], pooled: Mapping[str, Any], alone: Mapping[str, Any]
    ) -> dict[str, Models]:
        part, own = COMPONENTS[kind], list(self._histories.values())
        protected = self._trained(part, settings)
        models = {"federated": _each(protected, "model"), "bank alone": _each(protected, "alone")}
        if "complete" in part.params.model_fields:
            models["one for all"] = _each(self._trained(part, {**settings, "complete": False}), "model")
        if "min_pairs" in part.params.model_fields:
            models["unprotected"] = _each(self._trained(part, {**settings, **OFF}), "model")
        digest, params = catalogue_digest(self._ratings[BANKS[0]]), part.params.model_validate(settings)
        fit = quality_ncf.fit if kind == NCF else partial(quality_pooled.fit, kind)
        fit = partial(fit, seed=self._seed, catalogue=digest)
        open_ = params.model_copy(update={**OFF, **pooled})
        for arm, given in (("pooled", open_), ("pooled, thresholded", params))[: 1 if kind == NCF else 2]:
            models[arm] = dict(zip(BANKS, fit(own, given), strict=True))
        if alone:
            given = params.model_copy(update={**OFF, **alone})
            models[TUNED] = {bank: fit([h], given)[0] for bank, h in self._histories.items()}
        return models

    def _trained(self, part: Component, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        inputs = {bank: {"ratings": tables} for bank, tables in self._ratings.items()}
        return run_step(part, ROLES, inputs, settings, seed=self._seed).outputs

    def _judged(self, kind: str, models: Mapping[str, Models]) -> dict[str, Figures]:
        found = dict[str, Figures]()
        for first, second in _pairs(list(models)):
            metrics = self._evaluated(kind, models[first], models[second])
            for arm, name in ((first, "federated"), (second, "alone"), ("popularity", "popularity")):
                found[arm] = {key.removeprefix(f"{name}."): value for key, value in metrics.items()
                              if key.startswith(f"{name}.")}  # fmt: skip
        return found

    def _evaluated(self, kind: str, model: Models, control: Models) -> Mapping[str, float]:
        inputs = {
            bank: {"ratings": self._ratings[bank], "model": model[bank], "alone": control[bank]} for bank in BANKS
        }
        done = run_step(evaluate_ranking.COMPONENT, ROLES, inputs, {"kind": kind, "at": PLACES}, seed=self._seed)
        return dict(_any(done.outputs[BANKS[0]], "metrics"))

    def _same(self, kind: str, model: Models, other: Models) -> tuple[float, float]:
        """Return the shares of people with the same list by both, ties apart and not."""
        same = [_same_lists(kind, h, model[bank], other[bank]) for bank, h in self._histories.items()]
        apart, strict = np.concatenate(same, axis=1).mean(axis=1)
        return float(apart), float(strict)


def _same_lists(kind: str, h: Histories, model: Arrays, other: Arrays) -> NDArray[np.bool_]:
    """Return who has the same ordered list by both (2, users): items of one score may change places, or may not."""
    found = []
    for users in ranking.blocks(np.zeros((1, h.users), np.int64), h.items):
        had = h.take(users).matrix().toarray() > 0
        ours, theirs = (np.where(had, -np.inf, KINDS[kind].scores(m, h, users)) for m in (model, other))
        a, b = (np.argsort(-scores, axis=1, kind="stable")[:, :PLACES] for scores in (ours, theirs))
        tied = np.take_along_axis(theirs, a, 1) == np.take_along_axis(theirs, b, 1)
        found.append([(tied | (a == b)).all(axis=1), (a == b).all(axis=1)])
    return np.concatenate(found, axis=1)


def _pairs(arms: Sequence[str]) -> list[tuple[str, str]]:
    """Return the arms two by two: those of one bank behind shared ones, the last with itself where they are odd."""
    own = [arm for arm in arms if arm.startswith("bank alone")]
    shared = [arm for arm in arms if arm not in own]
    first, rest = shared[: len(own)], shared[len(own) :]
    return [*zip(first, own, strict=True), *zip_longest(rest[::2], rest[1::2], fillvalue=shared[-1])]


def _each(outputs: Mapping[str, Any], name: str) -> Models:
    return {bank: _any(outputs[bank], name) for bank in BANKS}


def _any(outputs: Outputs, name: str) -> Any:
    return outputs[name]
