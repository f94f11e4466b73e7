"""What `accord bench quality` found, by data set, model and seed, and its summary over seeds."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.quality_ratings import judge_ratings
from bench.quality_run import COMPONENTS, NCF, TUNED, WITH_NOISE, Found, Trial
from components import horizontal_mf
from components.contract import Component

MF = "mf"
OVER_SEEDS = "mean over seeds"  # unit of the rows that are judged
GATE = "HR@10, or it is refused"  # how rows end that say whether an arm loses to a bank alone
# With 16 bits after the point, one person in a thousand has another list of iALS.
IALS = {"second_moments": True, "lane": 64, "fraction": 32}
# Found on validation items (seed 11); what is not named is the component's default.
SETTINGS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "ml-100k": {
        "ease": {"reg": 500.0}, "slist": {"reg": 800.0}, "ials": IALS, NCF: {"rounds": 12},
        MF: {"rounds": 20},
    },
    "lastfm-2k": {"ease": {"reg": 100.0}, "ials": {**IALS, "unobserved": 0.1}},
    "ml-1m": {
        "ease": {"reg": 1000.0}, "slist": {"reg": 1000.0},
        "ials": {**IALS, "embedding_size": 32, "min_raters": 128, "reg": 0.003, "sweeps": 4},
        MF: {"rounds": 10, "embedding_size": 32, "reg": 0.06, "start_deviation": 0.1, "local_epochs": 4},
    },
}  # fmt: skip
# Where other settings are better without thresholds or for a bank alone, the control has them too: it loses to none of
# its own settings.
POOLED: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("ml-100k", "ials"): {"embedding_size": 32}, ("lastfm-2k", "ials"): {"embedding_size": 64},
    ("ml-1m", "ials"): {"embedding_size": 32}, ("ml-100k", NCF): {"rounds": 10, "batch_size": 1024},
}  # fmt: skip
ALONE: Mapping[tuple[str, str], Mapping[str, Any]] = {
    **POOLED, ("lastfm-2k", "ials"): {"embedding_size": 32}, ("ml-100k", "slist"): {"reg": 600.0},
    ("ml-100k", NCF): {"rounds": 8},
}  # fmt: skip
# Noise for one person at one bank; `clip`, found on validation items, bounds the norm of all that the person adds.
CLIPS: Mapping[tuple[str, str], float] = {("ml-100k", "ease"): 50.0}
DELTA, EPSILONS = 1e-5, (1, 3, 8)
Figure = Callable[[Found], float]
Spread = dict[str, float]  # mean, deviation


class Results:
    """Each result is computed when it is first asked for; `document` is what the JSON file holds of all."""

    def __init__(self, earlier: Earlier | None = None) -> None:
        """Nothing yet; what `earlier` files hold is not computed again."""
        self._earlier = earlier or Earlier([])
        self.found = dict[tuple[str, str], dict[int, Found]]()  # (data, model) -> seed
        self.document: dict[str, Any] = {}
        self._split: tuple[tuple[str, int], Trial] | None = None

    def of(self, data: str, model: str, seed: int) -> Found:
        """Return what a model did on a split."""
        seeds = self.found.setdefault((data, model), {})
        if seed not in seeds:
            seeds[seed] = self._earlier.found(data, model, seed) or self._judge(data, model, seed)
            self.document.setdefault(data, {})[model] = _document(data, model, seeds)
        return seeds[seed]

    def mean(self, data: str, model: str, figure: Figure) -> float:
        """Return the mean over the seeds that ran."""
        return statistics.mean(figure(found) for found in self.found[data, model].values())

    def _judge(self, data: str, model: str, seed: int) -> Found:
        settings = SETTINGS[data][model]
        if model == MF:
            return Found(judge_ratings(data, seed, settings))
        if self._split is None or self._split[0] != (data, seed):
            self._split = (data, seed), Trial(data, seed)
        return self._split[1].judge(model, settings, *_others(data, model), _private(data, model))


def over_seeds(seeds: Mapping[int, Found]) -> dict[str, dict[str, Spread]]:
    """Return mean and deviation of every figure, by arm."""
    every = list(seeds.values())
    return {
        arm: {name: _spread([found.arms[arm][name] for found in every]) for name in figures}
        for arm, figures in every[0].arms.items()
    }


class Earlier:
    """What JSON files of earlier runs hold: runs of some data sets or seeds, put together by a last one."""

    def __init__(self, files: Sequence[Path]) -> None:
        """Read them."""
        self._documents = [json.loads(file.read_text(encoding="utf-8")) for file in files]
        self.dates = [document["date"] for document in self._documents]

    def found(self, data: str, model: str, seed: int) -> Found | None:
        """Return the result of a model on a split where one of them has it, with the parameters of today.

        A parameter that is new since then has its default: that leaves what it is about as it was.
        """
        today, defaults = _parameters(data, model), _part(model).params().model_dump(mode="json")
        for document in self._documents:
            entry = document["quality"]["data"].get(data, {}).get(model)
            if entry and defaults | entry["parameters"] == today and str(seed) in entry["by seed"]:
                return Found(**entry["by seed"][str(seed)])
        return None


def _part(model: str) -> Component:
    return horizontal_mf.COMPONENT if model == MF else COMPONENTS[model]


def _parameters(data: str, model: str) -> dict[str, Any]:
    params = _part(model).params.model_validate(SETTINGS[data][model]).model_dump(mode="json")
    for arm, others in zip(("pooled", TUNED), _others(data, model), strict=True):
        params |= {f"{arm}: {name}": value for name, value in others.items()}
    return params | {f"{WITH_NOISE}{ε}: dp": dp for ε, dp in _private(data, model).items()}


def _others(data: str, model: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    return POOLED.get((data, model), {}), ALONE.get((data, model), {})


def _private(data: str, model: str) -> dict[str, dict[str, Any]]:
    if (data, model) not in CLIPS:
        return {}
    dp = {"delta": DELTA, "clip": CLIPS[data, model], "data_set": "ratings"}
    return {str(ε): {"epsilon": float(ε), **dp} for ε in EPSILONS}


def _document(data: str, model: str, seeds: Mapping[int, Found]) -> dict[str, Any]:
    by_seed = {str(seed): asdict(found) for seed, found in seeds.items()}
    return {"parameters": _parameters(data, model), "over seeds": over_seeds(seeds), "by seed": by_seed}


def _spread(figures: list[float]) -> Spread:
    return {"mean": statistics.mean(figures), "deviation": statistics.stdev(figures) if len(figures) > 1 else 0.0}
