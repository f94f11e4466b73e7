"""The picture of `accord bench quality`: HR@10 of each model, alone, federated and pooled, over seeds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bench.quality_results import MF, Results, Spread, over_seeds
from bench.quality_run import TUNED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = {"bank alone": "#b7c9dc", "federated": "#1f4e79", "unprotected": "#c98a4b", "pooled": "#999999"}
WIDTH = 0.2


def picture(results: Results, path: Path) -> None:
    """Write one panel a data set to `path` (PNG)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = list(results.document)
    figure = Figure(figsize=(4.6 * len(names), 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(1, len(names), squeeze=False).ravel()
    for axes, data in zip(grid, names, strict=True):
        _bars(axes, results, data)
    grid[0].set_ylabel("HR@10, 99 drawn others (cut below)")
    figure.legend(*grid[0].get_legend_handles_labels(), fontsize=8, loc="outside lower center", ncols=len(COLOURS))
    figure.savefig(path, dpi=130)


def _bars(axes: Axes, results: Results, data: str) -> None:
    lowest = 1.0
    models = [model for of, model in results.found if of == data and model != MF]
    for n, (arm, colour) in enumerate(COLOURS.items()):
        arms = [_arm(results, data, model, arm) for model in models]
        found = {place: of["test.hr10"] for place, of in enumerate(arms) if of is not None}
        means, deviations = ([f[name] for f in found.values()] for name in ("mean", "deviation"))
        places = [place + (n - 1.5) * WIDTH for place in found]
        bars = axes.bar(places, means, WIDTH, yerr=deviations, color=colour, label=arm, capsize=2, ecolor="#555555")
        axes.bar_label(bars, [f"{mean:.3f}" for mean in means], fontsize=6, padding=3)
        lowest = min(lowest, *means)
    axes.set_ylim(bottom=max(0.0, lowest - 0.15))
    axes.set_xticks(range(len(models)), [model.upper() for model in models])
    axes.set_title(data, fontsize=10)


def _arm(results: Results, data: str, model: str, arm: str) -> dict[str, Spread] | None:
    """Return the figures of an arm; the control is the tuned one, where there is one."""
    arms = over_seeds(results.found[data, model])
    return arms.get(TUNED, arms[arm]) if arm == "bank alone" else arms.get(arm)
