"""The rows of `accord bench crypto` as the tables that a reader compares: one line a library, median and spread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.markup import escape
from rich.table import Table

from bench.frame import Row, short

OURS = "accord"
Bytes = Mapping[str, float]  # "case: library" -> bytes for each value or id


def tables(rows: Sequence[Row], sent: Bytes) -> list[Table]:
    """Return the tables; figures are per CPU-second."""
    return [
        _operations(rows),
        _rates(rows, sent, ("end to end", "pairwise masks"), "encrypt twice + add + decrypt: values", "phe", "value"),
        _rates(rows, sent, ("X^T[[d]]",), escape("X^T[[d]], int16: entries"), "phe", None),
        _rates(rows, sent, ("one-hot rows",), "one-hot rows (additions)", "phe", None),
        _rates(rows, sent, ("curve PSI",), "PSI: ids a side, both parties' CPU", "openmined-psi", "id"),
        _rates(rows, sent, ("RSA PSI",), "RSA PSI: ids a side, both parties' CPU", "pycryptodome", "id"),
    ]


def libraries(rows: Sequence[Row], names: Sequence[str]) -> dict[str, tuple[float, tuple[float, float]]]:
    """Return {library: (median, spread)} over the rows of the cases `names`, ours first."""
    found: dict[str, tuple[float, tuple[float, float]]] = {}
    for row in rows:
        if row.case in names:
            found.setdefault(OURS if row.case == names[0] else f"{OURS}, {row.case}", (row.ours, row.ours_spread))
    for row in rows:
        if row.case in names and row.theirs is not None and row.theirs_spread is not None:
            found[row.peer] = row.theirs, row.theirs_spread
    return found


def _operations(rows: Sequence[Row]) -> Table:
    names = ("encrypt", "decrypt", "add")
    columns = {name: libraries(rows, (name,)) for name in names}
    table = Table("Paillier, ops/s", *names, title="Paillier at 2048 bits, per CPU-second", box=None)
    for library in dict.fromkeys(each for column in columns.values() for each in column):
        table.add_row(library, *(_figure(columns[name].get(library)) for name in names))
    for row in rows:
        if row.case.startswith("encrypt, "):
            table.add_row(f"{OURS}, {row.case.removeprefix('encrypt, ')}", _figure((row.ours, row.ours_spread)))
    return table


def _rates(
    rows: Sequence[Row], sent: Bytes, names: Sequence[str], title: str, base: str, item: str | None
) -> Table:  # fmt: skip
    found = libraries(rows, names)
    heads = ["library", "per CPU-s", f"times {base}", *([f"bytes per {item}"] if item else [])]
    table = Table(*heads, title=title, box=None)
    unit = found.get(base, (None,))[0]
    for library, figure in found.items():
        size = f"{sent[key]:.3g}" if (key := f"{names[0]}: {library}") in sent else "not reported"
        times = f"{figure[0] / unit:.3g}" if unit else "-"
        table.add_row(library, _figure(figure), times, *([size] if item else []))
    return table


def _figure(figure: tuple[float, tuple[float, float]] | None) -> str:
    if figure is None:
        return "-"
    median, (low, high) = figure
    return f"{short(median)} ({short(low)}-{short(high)})"
