"""The frame of every benchmark: cases, interleaved repetitions, rows that a person and a machine can read.

Ratios are what carries over to another machine, so a case always stands beside its peer, measured in the same run, in
turn (A B A B ...), and its row gives the median of the paired ratios with their spread. Cases that name the same
function share its figure within a turn (A B C A B C ...). A case without a peer reports its own figure alone.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from base.errors import AccordError
from base.machine import describe_machine

Figure = Callable[[], float]
Tell = Callable[[str, int, int, float], None]  # case, turn, of, seconds that remain


class Unmeasured(AccordError):
    """A peer gave no figure; its row says why."""


@dataclass(frozen=True)
class Row:
    """One line of a benchmark's table."""

    case: str
    peer: str
    ours: float  # median
    theirs: float | None  # median; None without a peer
    unit: str
    ratio: float | None  # median of ours / theirs, pair by pair
    spread: tuple[float, float] | None  # smallest and largest of those ratios
    target: str | None  # "<= 1.5", ">= 300"; None reports without judging
    met: bool | None
    ours_spread: tuple[float, float]
    theirs_spread: tuple[float, float] | None
    note: str | None = None  # why there is no figure of the peer


@dataclass(frozen=True)
class Case:
    """What is measured beside what; both functions return their figure in `unit`."""

    name: str
    peer: str
    unit: str
    ours: Figure
    theirs: Figure | None
    target: str | None = None
    once: bool = False  # takes minutes: measured in the first turn alone, which is no warm-up for it
    size: float = 1.0  # how long it takes beside the others, as a guess before it has run


@dataclass(frozen=True)
class Suite:
    """Cases with what else is to be said: `header` goes into the JSON file and may grow while cases run."""

    cases: Sequence[Case]
    header: dict[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()
    tables: Callable[[Sequence[Row]], list[Table]] | None = None
    picture: Callable[[Sequence[Row], Path], None] | None = None
    page: Callable[[Sequence[Row]], str] | None = None  # in Markdown, beside the JSON file


def measure(cases: Sequence[Case], repetitions: int, tell: Tell) -> list[Row]:
    """Run all cases in turn, `repetitions` times, after one warm-up round that counts for those alone that run once."""
    figures: list[list[tuple[float, float | None]]] = [[] for _ in cases]
    reasons: dict[int, str] = {}
    left = _Left([1 if case.once else repetitions + 1 for case in cases], [case.size for case in cases])
    for turn in range(repetitions + 1):
        seen: dict[Figure, float] = {}
        for i, case in enumerate(cases):
            if case.once and turn:
                continue
            start = time.monotonic()
            try:
                theirs = None if case.theirs is None or i in reasons else _once(case.theirs, seen)
            except Unmeasured as error:  # listed in the case's row
                theirs, reasons[i] = None, " ".join(part for part in (error.what, error.found) if part)
            pair = _once(case.ours, seen), theirs
            if turn or case.once:
                figures[i].append(pair)
            seconds = left.after(i, time.monotonic() - start)
            tell(f"{case.name} | {case.peer}" if case.peer else case.name, turn, repetitions, seconds)
    return [_row(case, figures[i], reasons.get(i)) for i, case in enumerate(cases)]


def write(name: str, rows: Sequence[Row], path: Path, header: Mapping[str, Any] | None = None) -> None:
    """Write header and rows as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"benchmark": name, **describe_machine(), **(header or {}), "rows": [asdict(row) for row in rows]}
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def show(name: str, rows: Sequence[Row]) -> Table:
    """Return the rows as a table for people."""
    table = Table("case", "peer", "ours", "theirs", "unit", "ratio", "spread", "target", "met", title=name, box=None)
    for column in table.columns:
        column.overflow = "fold"  # a narrow screen cuts no figure
    for r in rows:
        met = "" if r.met is None else "yes" if r.met else "NO"
        theirs = r.note or ("" if r.theirs is None else short(r.theirs))
        ratio, spread = "", ""
        if r.ratio is not None and r.spread is not None:
            ratio, spread = f"{r.ratio:.3g}", f"{r.spread[0]:.3g}-{r.spread[1]:.3g}"
        table.add_row(escape(r.case), r.peer, short(r.ours), escape(theirs), r.unit, ratio, spread, r.target or "", met)
    return table


def short(x: float) -> str:
    """Return three or four digits of a figure, as a person reads it."""
    if abs(x) >= 1e6:
        return f"{x / 1e6:.3g}M"
    return f"{x / 1e3:.3g}k" if abs(x) >= 1e4 else f"{x:.4g}"


class _Left:
    """How long the rest takes: each case as long as the last time, one that never ran as the others by its size."""

    def __init__(self, times: list[int], sizes: list[float]) -> None:
        self._times, self._sizes, self._last = times, sizes, dict[int, float]()

    def after(self, i: int, seconds: float) -> float:
        """Return the seconds that remain after case i has taken `seconds`."""
        self._times[i] -= 1
        self._last[i] = seconds
        rate = sum(self._last.values()) / sum(self._sizes[k] for k in self._last)
        return sum(n * self._last.get(k, rate * self._sizes[k]) for k, n in enumerate(self._times))


def _once(figure: Figure, seen: dict[Figure, float]) -> float:
    if figure not in seen:
        seen[figure] = figure()
    return seen[figure]


def _row(case: Case, pairs: Sequence[tuple[float, float | None]], note: str | None) -> Row:
    ours = [a for a, _ in pairs]
    theirs = [b for _, b in pairs if b is not None]
    if note is not None or not theirs:
        nothing = (None, case.unit, None, None, case.target, None, _spread(ours), None, note)
        return Row(case.name, case.peer, statistics.median(ours), *nothing)
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    ratio = statistics.median(ratios)
    return Row(
        case.name, case.peer, statistics.median(ours), statistics.median(theirs), case.unit, ratio, _spread(ratios),
        case.target, None if case.target is None else _holds(ratio, case.target), _spread(ours), _spread(theirs),
    )  # fmt: skip


def _spread(figures: Sequence[float]) -> tuple[float, float]:
    return min(figures), max(figures)


def _holds(ratio: float, target: str) -> bool:
    sign, bound = target.split()
    return ratio <= float(bound) if sign == "<=" else ratio >= float(bound)
