"""The results of `accord bench quality` as tables: on the screen, and as a page of Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from rich.table import Table

from base.machine import describe_machine
from bench.frame import Row, short
from bench.quality_results import EPSILONS, GATE, MF, OVER_SEEDS, Results, Spread, over_seeds
from bench.quality_run import WITH_NOISE

RANKING = {"hr10": "HR@10", "ndcg10": "NDCG@10", "full.hr10": "full HR@10", "full.ndcg10": "full NDCG@10"}
HEADS = ("model", "arm", *RANKING.values())
ORDER = (
    "popularity", "bank alone", "bank alone, tuned", "federated", "one for all",
    *(f"{WITH_NOISE}{ε}" for ε in EPSILONS), "unprotected", "pooled", "pooled, thresholded", "mean", "biases",
)  # fmt: skip
MET = {True: "yes", False: "**NO**", None: ""}
BARS = (
    "## Bars", "",
    "Mean over seeds. *Pooled* is not judged: it says what could be had at all on these splits. *Refused*: an arm that "
    "`evaluate_ranking` with `least_gain: 0` does not let through to registration, judged here on test items.", "",
)  # fmt: skip
TRIED = """\
## What was tried for more

On validation items of ml-100k, seeds 11 and 12, HR@10 in expectation over all draws of 99 candidates:

| model | bank alone, best λ | federated | own people counted half again, twice | other λ | pooled |
| --- | --- | --- | --- | --- | --- |
| ease | 0.6576 | 0.6806 | 0.6812, 0.6803 | 0.6793, 0.6803 (350, 700) | 0.6914 |
| slist | 0.7244 | 0.7417 | 0.7401 | 0.7323, 0.7442 (500, 1200) | 0.7584 |

Neither a mixture of the federated sum and the own one nor another λ gains more than the noise of two seeds; of SLIST
neither does α 0.3 (0.7431) or 0.7 (0.7325), an input decay of 5 (0.7338) or 12 (0.7407), or δ_past 3 (0.7439, where
pooled has 0.7601). All histories in one place gain 0.034 over a bank alone, with the bars at 0.025 and 0.035; the
thresholds hold back the rest.
"""
INTRODUCTION = """\
# Quality: alone, federated, pooled

Written by `accord bench quality`. Three banks, a third of the people each; mean ± deviation over seeds {seeds}.
{machine}.

Each person's newest item is the test (lastfm-2k has no times: a drawn one), the second newest is for validation. It is
ranked against 99 drawn items and against all (*full*), pool `clean`; a tie counts against it. SLIST uses the order of
ratings. Parameters were chosen on validation items; they stand in the JSON file with the figures of each seed.

| arm | what |
| --- | --- |
| popularity | the bank's own most frequent items |
| bank alone | the same algorithm on the bank's own people, **nothing exchanged**: the control |
| bank alone, tuned | the same with settings of its own, where they are better; gains are judged by it |
| federated | the sum that the thresholds let out; in its own copy a bank knows what it withheld itself (`complete`) |
| one for all | the same, nothing put back (`complete: false`) |
| federated, ε = … | with noise (`dp`): ε for one person at one bank, nothing thresholded; the gate's verdict below |
| unprotected | the sum of everything, **no thresholds**: histories can be read from it; iALS refuses it |
| pooled | float64, all histories in one place; iALS and NCF with the settings that are best there |
| pooled, thresholded | float64 in one place, the statistics behind *one for all* |
"""


def tables(results: Results) -> list[Table]:
    """Return one table for each data set."""
    found = []
    for data in results.document:
        table = Table(*HEADS, title=data, box=None)
        for line in _ranking(results, data):
            table.add_row(*line)
        found.append(table)
    return found


def page(results: Results, rows: Sequence[Row], seeds: Sequence[int]) -> str:
    """Return the page."""
    about = describe_machine()
    machine = f"{about['date']}, {about['cpu']}, {about['cores']} cores"
    lines = [INTRODUCTION.format(seeds=", ".join(map(str, seeds)), machine=machine)]
    for data in results.document:
        lines += [f"## {data}", "", *_split(results, data), *_markdown(HEADS, _ranking(results, data))]
        if (data, MF) in results.found:
            lines += ["Ratings, random by rating (`horizontal_mf`):", ""]
            lines += _markdown(("arm", "test RMSE", "validation RMSE"), _ratings(results, data))
    tried = [TRIED] if "ml-100k" in results.document else []
    judged = [(r.case, r.peer, short(r.ours), short(r.theirs or 0), _met(r)) for r in rows if r.unit == OVER_SEEDS]
    return "\n".join([*lines, *BARS, *_markdown(("what", "beside", "found", "needed", "met"), judged), *tried])


def _met(row: Row) -> str:
    """Return whether a bar is met; of an arm beside a bank alone, what the gate of `evaluate_ranking` says."""
    if row.case.endswith(GATE):
        return "passes" if row.ours >= (row.theirs or 0) else "refused"
    return MET[row.met]


def _split(results: Results, data: str) -> list[str]:
    """Return how large the data are, and which share of the test items each model can know."""
    splits = {model: [found.split for found in seeds.values()]
              for (of, model), seeds in results.found.items() if of == data and model != MF}  # fmt: skip
    if not splits:
        return []
    shares = [f"{statistics.mean(s['test items that survive'] for s in of):.1%} ({m})" for m, of in splits.items()]
    first = next(iter(splits.values()))[0]
    return [f"{first['people']:,} people, {first['items']:,} items, {first['ratings']:,} ratings. Test items that "
            f"survive the thresholds at some bank: {', '.join(shares)}.", ""]  # fmt: skip


def _ranking(results: Results, data: str) -> Iterator[tuple[str, ...]]:
    """Yield model, arm and the figures of the test items."""
    for (of, model), seeds in results.found.items():
        if of == data and model != MF:
            arms = over_seeds(seeds)
            for arm in sorted(arms, key=ORDER.index):
                yield (model, arm, *(_both(arms[arm][f"test.{name}"]) for name in RANKING))


def _ratings(results: Results, data: str) -> Iterator[tuple[str, ...]]:
    arms = over_seeds(results.found[data, MF])
    for arm in sorted(arms, key=ORDER.index):
        yield (arm, *(_both(arms[arm][f"{part}.rmse"]) for part in ("test", "validation")))


def _both(found: Spread) -> str:
    return f"{found['mean']:.4f} ± {found['deviation']:.4f}"


def _markdown(heads: Sequence[str], rows: Iterator[tuple[str, ...]] | Sequence[tuple[str, ...]]) -> list[str]:
    lines = [heads, ["---"] * len(heads), *rows]
    return [*(f"| {' | '.join(line)} |" for line in lines), ""]
