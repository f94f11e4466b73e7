"""The frame of every benchmark: cases, interleaved repetitions, rows that a person and a machine can read.

Ratios are what carries over to another machine, so a case always stands beside its peer, measured in the same run, in
turn (A B A B ...), and its row gives the median of the paired ratios with their spread.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.table import Table

from base.machine import describe_machine


@dataclass(frozen=True)
class Row:
    """One line of a benchmark's table."""

    case: str
    peer: str
    ours: float  # median
    theirs: float  # median
    unit: str
    ratio: float  # median of ours / theirs, pair by pair
    spread: tuple[float, float]  # smallest and largest of those ratios
    target: str | None  # "<= 1.5", ">= 300"; None reports without judging
    met: bool | None


@dataclass(frozen=True)
class Case:
    """What is measured beside what; both functions return their figure in `unit`."""

    name: str
    peer: str
    unit: str
    ours: Callable[[], float]
    theirs: Callable[[], float]
    target: str | None = None


def measure(cases: Sequence[Case], repetitions: int, tell: Callable[[str, int, int], None]) -> list[Row]:
    """Run all cases in turn, `repetitions` times, after one warm-up round that does not count."""
    figures: dict[str, list[tuple[float, float]]] = {case.name: [] for case in cases}
    for turn in range(repetitions + 1):
        for case in cases:
            pair = case.ours(), case.theirs()
            if turn:
                figures[case.name].append(pair)
            tell(case.name, turn, repetitions)
    return [_row(case, figures[case.name]) for case in cases]


def write(name: str, rows: Sequence[Row], path: Path) -> None:
    """Write header and rows as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"benchmark": name, **describe_machine(), "rows": [asdict(row) for row in rows]}
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def show(name: str, rows: Sequence[Row]) -> Table:
    """Return the rows as a table for people."""
    table = Table("case", "peer", "ours", "theirs", "unit", "ratio", "spread", "target", "met", title=name, box=None)
    for r in rows:
        met = "" if r.met is None else "yes" if r.met else "NO"
        figures = (f"{r.ours:.4g}", f"{r.theirs:.4g}", r.unit, f"{r.ratio:.3g}", f"{r.spread[0]:.3g}-{r.spread[1]:.3g}")
        table.add_row(r.case, r.peer, *figures, r.target or "", met)
    return table


def _row(case: Case, pairs: Sequence[tuple[float, float]]) -> Row:
    ratios = [ours / theirs for ours, theirs in pairs]
    ratio = statistics.median(ratios)
    ours, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
    met = None if case.target is None else _holds(ratio, case.target)
    return Row(case.name, case.peer, ours, theirs, case.unit, ratio, (min(ratios), max(ratios)), case.target, met)


def _holds(ratio: float, target: str) -> bool:
    sign, bound = target.split()
    return ratio <= float(bound) if sign == "<=" else ratio >= float(bound)
