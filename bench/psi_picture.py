"""The runs of `accord bench psi` as a table, and as a picture over the number of ids."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.table import Table

from bench.frame import short
from bench.psi_run import Run

COLOURS = {"align_ecdh": "#1f4e79", "align_rsa": "#b5651d"}
HEADS = ("component", "ids a side", "night", "clock s", "CPU s", "ids/CPU-s", "CPU s/million", "peak MB", "bytes/id")


def tables(runs: Sequence[Run]) -> list[Table]:
    """Return one table: a line for each size, medians where it was measured several times."""
    table = Table(*HEADS, title="Whole alignments: CPU of both parties, memory (PSS) of the larger", box=None)
    for component, n, night in dict.fromkeys((run.component, run.ids, run.night) for run in runs):
        found = [run for run in runs if (run.component, run.ids, run.night) == (component, n, night)]
        cpu = _median(found, lambda run: run.cpu_seconds)
        figures = (
            _median(found, lambda run: run.wall), cpu, n / cpu, cpu / n * 1e6,
            _median(found, lambda run: run.memory) / 1e6, _median(found, lambda run: run.bytes / run.ids),
        )  # fmt: skip
        table.add_row(component, f"{n:,}", str(night), *map(short, figures))
    return [table]


def picture(runs: Sequence[Run], path: Path) -> None:
    """Write ids a CPU-second and peak memory over n to `path` (PNG); first nights only."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    rate, memory = figure.subplots(1, 2)
    for component, colour in COLOURS.items():
        first = [run for run in runs if run.component == component and run.night == 1]
        sizes = sorted({run.ids for run in first})
        for axes, value in ((rate, lambda r: r.ids / r.cpu_seconds), (memory, lambda r: r.memory / 1e6)):
            medians = [_median([run for run in first if run.ids == n], value) for n in sizes]
            axes.plot(sizes, medians, "o-", color=colour, label=component)
            for n, y in zip(sizes, medians, strict=True):
                axes.annotate(short(y), (n, y), xytext=(0, 6), textcoords="offset points", ha="center", fontsize=8)
    memory.axhline(2000, color="#999999", linestyle="--", linewidth=1, label="limit")
    for axes, title in ((rate, "ids a side per CPU-second of both parties"), (memory, "peak memory of a party, MB")):
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.margins(x=0.12, y=0.25)
        axes.set_xlabel("ids a side")
        axes.set_title(title, fontsize=10)
        axes.grid(which="major", color="#dddddd")
        axes.legend(fontsize=8)
    figure.savefig(path, dpi=130)


def _median(runs: Sequence[Run], value: Callable[[Run], float]) -> float:
    return statistics.median(map(value, runs))
