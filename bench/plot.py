"""The picture of `accord bench crypto`: bars on a logarithmic axis, ours dark, with the spread of the repetitions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.crypto_tables import OURS, libraries
from bench.frame import Row, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANELS = (
    (("encrypt",), "encrypt, ops"),
    (("decrypt",), "decrypt, ops"),
    (("add",), "add, ops"),
    (("end to end", "pairwise masks"), "encrypt twice + add + decrypt, values"),
    (("X^T[[d]]",), "X^T[[d]] with int16 X, entries"),
    (("one-hot rows",), "one-hot rows"),
    (("curve PSI",), "PSI, ids a side"),
    (("RSA PSI",), "RSA PSI, ids a side"),
)
COLUMNS = 2
DARK, LIGHT = "#1f4e79", "#b7c9dc"


def picture(rows: Sequence[Row], path: Path) -> None:
    """Write one panel a table to `path` (PNG)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels = [(title, libraries(rows, names)) for names, title in PANELS]
    panels = [(title, found) for title, found in panels if found]
    height = -(-len(panels) // COLUMNS)
    figure = Figure(figsize=(12, 2.6 * height), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(height, COLUMNS, squeeze=False).ravel()
    for axes, (title, found) in zip(grid, panels, strict=False):
        _bars(axes, title, found)
    for axes in grid[len(panels) :]:
        axes.set_axis_off()
    figure.suptitle("Per CPU-second at 2048 bits, median of interleaved repetitions (logarithmic)")
    figure.savefig(path, dpi=130)


def _bars(axes: Axes, title: str, found: dict[str, tuple[float, tuple[float, float]]]) -> None:
    from matplotlib.ticker import NullFormatter

    names = list(found)
    medians = [found[name][0] for name in names]
    errors = [[m - found[n][1][0] for n, m in zip(names, medians, strict=True)],
              [found[n][1][1] - m for n, m in zip(names, medians, strict=True)]]  # fmt: skip
    colours = [DARK if name.startswith(OURS) else LIGHT for name in names]
    axes.barh(names, medians, xerr=errors, color=colours, ecolor="#555555", capsize=2)
    axes.set_xscale("log")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlim(min(medians) / 3, max(medians) * 3 * (max(medians) / min(medians)) ** 0.15)
    axes.invert_yaxis()
    axes.set_title(title, fontsize=10)
    axes.tick_params(labelsize=8)
    for i, median in enumerate(medians):
        axes.annotate(short(median), (found[names[i]][1][1], i), xytext=(5, 0), textcoords="offset points",
                      va="center", fontsize=8)  # fmt: skip
