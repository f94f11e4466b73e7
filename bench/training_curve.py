"""The compression of `accord bench training` as a page of Markdown, and as a picture: RMSE over MB."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from base.machine import describe_machine
from bench.frame import Row, short
from bench.training_compression import DENSE, MB, PLANS, UNTIL, Curves, Plan, rmse

COLOURS = ("#999999", "#c98a4b", "#1f4e79", "#4a7fb5", "#7fa9d0", "#b7c9dc", "#b5651d")
MET = {True: "yes", False: "**NO**", None: ""}
HEADS = ("what", "beside", "found", "theirs", "unit", "ratio", "target", "met")
ARM_HEADS = ("arm", "test RMSE", "validation RMSE", "MB a round", "of float32, all items", "of float32, same rows")
INTRODUCTION = """\
# Training: protection, compression, slow parties

Written by `accord bench training`. Three banks and an aggregator, each a process with mutual TLS; compression and slow
banks with sums in the open, since protection changes no bit. {machine}. What else ran on the machine is in the times.

## Compression

Mean ± deviation over seeds ({seeds}; ml-1m the first alone), {rounds} rounds. Bytes are of all banks, both ways.
*All items* is what frameworks send of a layer; *the same rows* leaves out items with too few people behind them,
which never leave a bank.
"""


def page(curves: Curves) -> Callable[[Sequence[Row]], str]:
    """Return what makes the page."""
    return lambda rows: "\n".join(_lines(curves, rows))


def picture(curves: Curves, path: Path, plan: Plan = PLANS[0]) -> None:
    """Write mean test RMSE over MB to `path` (PNG)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for arm, colour in zip(plan.arms, COLOURS, strict=True):
        found = curves.all(plan, arm)
        mean = [statistics.mean(each) for each in zip(*(curve.rmse["test"] for curve in found), strict=True)]
        axes.plot([b / MB for b in found[0].bytes], mean, color=colour, label=arm)
    axes.axhline(UNTIL, color="#555555", linewidth=0.6, linestyle=":")
    axes.set_xscale("log")
    axes.set_ylim(top=0.96)
    axes.set_xlabel("MB of all banks, both ways")
    axes.set_ylabel("test RMSE, mean over seeds")
    axes.set_title(plan.data, fontsize=10)
    axes.legend(fontsize=7)
    figure.savefig(path, dpi=130)


def _lines(curves: Curves, rows: Sequence[Row]) -> Iterator[str]:
    about, first = describe_machine(), PLANS[0]
    machine = f"{about['date']}, {about['cpu']}, {about['cores']} cores"
    yield INTRODUCTION.format(
        machine=machine, seeds=", ".join(map(str, first.seeds)), rounds=" and ".join(str(plan.rounds) for plan in PLANS)
    )
    for plan in PLANS:
        yield f"### {plan.data}\n"
        yield from _table(ARM_HEADS, [_arm(curves, plan, arm) for arm in plan.arms])
    yield "## All figures\n"
    yield from _table(HEADS, [_row(row) for row in rows])


def _arm(curves: Curves, plan: Plan, arm: str) -> tuple[str, ...]:
    found = curves.all(plan, arm)
    errors = (_both([rmse(curve, part) for curve in found]) for part in ("test", "validation"))
    a_round = statistics.mean(curve.a_round for curve in found)
    shares = (statistics.mean(curve.a_round / curve.dense[of] for curve in found) for of in ("all", "shared"))
    return (f"**{arm}**" if arm == DENSE else arm, *errors, short(a_round / MB), *(f"{share:.1%}" for share in shares))


def _both(found: Sequence[float]) -> str:
    return f"{statistics.mean(found):.4f}" + (f" ± {statistics.stdev(found):.4f}" if len(found) > 1 else "")


def _row(r: Row) -> tuple[str, ...]:
    theirs, ratio = ("" if x is None else short(x) for x in (r.theirs, r.ratio))
    return r.case, r.peer, short(r.ours), r.note or theirs, r.unit, ratio, r.target or "", MET[r.met]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for line in (heads, ["---"] * len(heads), *rows):
        yield f"| {' | '.join(line)} |"
    yield ""
