"""The results of `accord bench attacks` as tables: on the screen, and as a page of Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table

from base.machine import describe_machine
from bench.attacks_results import Results
from bench.attacks_table import ATTACKS, GROUPS
from bench.frame import Row

HEADS = ("attack", "counts", "weakened setting", "succeeds", "default setting", "gets", "by chance", "holds")
HOLDS = {True: "yes", False: "**NO**", None: "stated"}
INTRODUCTION = """\
# Attacks: what is read from sums and from rounds

Written by `accord bench attacks`, {machine}.
{data}: {people} people at three banks, a third each; mean ± deviation over seeds {seeds}.

Each attack runs twice: on a setting that was weakened on purpose, where it has to succeed, and on the default. *By
chance* is what guessing gives, or what the adversary has anyway without the attack. *Stated* marks what the default
does not stop: the figure is its price. The adversary is one of the banks, which follows the protocol and computes what
it can, or the aggregator, which sends what it likes. The same functions are tests on smaller data (`tests/attacks`);
the protocols are in [protocols.md](../protocols.md).
"""


def tables(results: Results) -> list[Table]:
    """Return one table for each group."""
    found = []
    for group, about in GROUPS.items():
        table = Table("attack", "counts", "weakened", "default", "by chance", title=about, box=None)
        for name in _of(results, group):
            figures = (_both(results, name, figure) for figure in ("weakened", "default", "chance"))
            table.add_row(name, ATTACKS[name].unit, *figures)
        found.append(table)
    return found


def page(results: Results, rows: Sequence[Row]) -> str:
    """Return the page."""
    about, met = describe_machine(), {row.case: row.note or HOLDS[row.met] for row in rows}
    machine = f"{about['date']}, {about['cpu']}, {about['cores']} cores"
    seeds = ", ".join(map(str, results.seeds))
    lines = [INTRODUCTION.format(data=results.origin, people=results.people, seeds=seeds, machine=machine)]
    for group, title in GROUPS.items():
        lines += [f"## {title}", "", _line(HEADS), _line(["---"] * len(HEADS))]
        lines += [_line((*_row(results, name), met[name])) for name in _of(results, group)]
        lines += [""]
    return "\n".join(lines)


def _of(results: Results, group: str) -> Iterator[str]:
    return (name for name in results.found if ATTACKS[name].group == group)


def _row(results: Results, name: str) -> tuple[str, ...]:
    attack, (weakened, default, chance) = ATTACKS[name], (
        _both(results, name, figure) for figure in ("weakened", "default", "chance")
    )  # fmt: skip
    return name, attack.unit, attack.weakened, weakened, attack.default, default, chance


def _both(results: Results, name: str, figure: str) -> str:
    mean, deviation = results.spread(name, figure)
    share = f"{mean:.3g} ± {deviation:.2g}" if deviation else f"{mean:.3g}"
    of, _ = results.spread(name, "of")
    return f"{share} ({mean * of:.0f} of {of:.0f})" if of and figure != "chance" else share


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
