"""Quality of what banks with different customers train together, on public data: every arm, three seeds, one command.

Leave-one-out ranking on the pool `clean` (`models.ranking`), against 99 drawn candidates and against the whole pool,
with the arms of `bench.quality_run`; ratings with those of `bench.quality_ratings`. A seed draws who banks where, ties
in time, the candidates, and the order of lastfm-2k, which has no times. The mean over seeds is what meets a bar.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from base.errors import SpecError
from bench.frame import Case, Suite
from bench.quality_page import page, tables
from bench.quality_picture import picture
from bench.quality_results import CLIPS, EPSILONS, GATE, MF, OVER_SEEDS, SETTINGS, Earlier, Figure, Results
from bench.quality_run import NCF, TUNED, WITH_NOISE, Found
from bench.sets import SETS

SEEDS = (1, 2, 3)
# Without thresholds iALS is refused by its component; pooled is what it would be, to fixed point.
BARS = (  # data, model, arm, figure of the test part, bar
    ("ml-100k", "slist", "federated", "hr10", 0.68),
    ("ml-100k", "slist", "federated", "ndcg10", 0.42),
    ("ml-100k", "ease", "federated", "hr10", 0.64),
    ("ml-100k", MF, "federated", "rmse", 0.913),
    ("lastfm-2k", "ials", "pooled", "hr10", 0.83),
    ("lastfm-2k", "ials", "pooled", "ndcg10", 0.59),
    ("ml-1m", "slist", "federated", "hr10", 0.74),
    ("ml-1m", "slist", "federated", "ndcg10", 0.53),
    ("ml-1m", MF, "federated", "rmse", 0.856),
)
GAINS = {("ml-100k", "slist"): 0.035, ("ml-100k", "ease"): 0.025}  # HR@10 of federated less a bank alone's
SECONDS = {
    "ml-100k": 10.0,
    "lastfm-2k": 40.0,
    "ml-1m": 150.0,
}  # of a model on a split, about
SLOWER = {MF: 6, NCF: 6}
NAMES = {"hr10": "HR@10", "ndcg10": "NDCG@10", "rmse": "RMSE"}
Models = Sequence[tuple[str, str]]  # data, model


@contextmanager
def cases(
    data: Sequence[str] = tuple(SETS), seed: Sequence[int] = SEEDS, fast: bool = False, mf: bool = False,
    ncf: bool = False, resume: Sequence[Path] = (),
) -> Iterator[Suite]:  # fmt: skip
    """Yield a case for each data set, seed and model, then the bars.

    `fast`: ml-100k with the first seed alone, without ratings. `mf`: ratings of ml-1m too, a quarter of an hour a seed.
    `ncf`: NeuMF on ml-100k, a minute a seed.
    `resume`: JSON files of earlier runs; what they hold with the same parameters is not computed again.
    """
    if unknown := set(data) - set(SETS):
        raise SpecError("no such data set", expected=", ".join(SETS), found=", ".join(unknown))
    data, seed = (("ml-100k",), seed[:1]) if fast else (data, seed)
    earlier = Earlier(resume)
    results = Results(earlier)
    models = [(d, m) for d in data for m in SETTINGS[d]
              if {MF: not fast and (mf or d == "ml-100k"), NCF: ncf}.get(m, True)]  # fmt: skip
    header = {"quality": {"seeds": [*seed], "resumed from": earlier.dates, "data": results.document}}
    yield Suite(
        [*_trials(results, models, seed), *_bars(results, models), *_controls(results, models)], header,
        tables=lambda _: tables(results), picture=lambda _, path: picture(results, path),
        page=lambda rows: page(results, rows, seed),
    )  # fmt: skip


def _trials(results: Results, models: Models, seeds: Sequence[int]) -> Iterator[Case]:
    for data in dict.fromkeys(data for data, _ in models):
        for seed in seeds:
            for model in (m for d, m in models if d == data):
                yield _trial(results, data, model, seed)


def _trial(results: Results, data: str, model: str, seed: int) -> Case:
    figure, unit = ("test.rmse", "RMSE") if model == MF else ("test.hr10", "HR@10")

    def of(arm: str) -> float:
        return results.of(data, model, seed).arms[arm][figure]

    name, size = f"{data} {model}, seed {seed}", SECONDS[data] * SLOWER.get(model, 1)
    return Case(name, "bank alone", unit, lambda: of("federated"), lambda: of("bank alone"), once=True, size=size)


def _bars(results: Results, models: Models) -> Iterator[Case]:
    for data, model, arm, name, bar in BARS:
        if (data, model) in models:
            beside, target = (f"bar {bar:g}", _always(bar)), "<= 1" if model == MF else ">= 1"
            yield _gate(results, (data, model), f"{arm} {NAMES[name]}", _test(arm, name), beside, target)
            if arm != "pooled":
                yield _gate(results, (data, model), f"pooled {NAMES[name]}", _test("pooled", name), beside, None)
    for key, bar in GAINS.items():
        if key in models:
            beside = f"bar {bar:g}", _always(bar)
            yield _gate(results, key, "gain in HR@10 over bank alone", _gain("federated"), beside)
            yield _gate(results, key, "gain in HR@10 of pooled", _gain("pooled"), beside, None)


def _controls(results: Results, models: Models) -> Iterator[Case]:
    """Yield what is asked of every model: not to lose to a bank alone, and the lists of the pooled model."""
    for key in (key for key in models if key[1] != MF):
        alone = "bank alone", _alone
        yield _gate(results, key, f"federated {GATE}", _test("federated", "hr10"), alone)
        for ε in EPSILONS if key in CLIPS else ():
            yield _gate(results, key, f"ε = {ε} {GATE}", _test(f"{WITH_NOISE}{ε}", "hr10"), alone, None)
        if key[1] != NCF:
            yield _gate(results, key, "people with the pooled model's list", _lists, ("all", _always(1.0)))


def _gate(
    results: Results, key: tuple[str, str], what: str, figure: Figure, beside: tuple[str, Figure],
    target: str | None = ">= 1",
) -> Case:  # fmt: skip
    (data, model), (peer, other) = key, beside
    ours, theirs = (lambda f=f: results.mean(data, model, f) for f in (figure, other))
    return Case(f"{data} {model}: {what}", peer, OVER_SEEDS, ours, theirs, target, once=True, size=0.01)


def _test(arm: str, name: str) -> Figure:
    return lambda found: found.arms[arm][f"test.{name}"]


def _gain(arm: str) -> Figure:
    return lambda found: _test(arm, "hr10")(found) - _alone(found)


def _alone(found: Found) -> float:
    """Return HR@10 of the control that a gain is judged by: tuned, where its settings are its own."""
    return found.arms.get(TUNED, found.arms["bank alone"])["test.hr10"]


def _lists(found: Found) -> float:
    return found.lists


def _always(value: float) -> Figure:
    return lambda found: value
