"""`accord bench NAME --json FILE`: one frame for every benchmark."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from base.errors import SpecError
from party_node.commands.common import console

if TYPE_CHECKING:
    from bench.frame import Row, Suite

app = typer.Typer(add_completion=False)
# name -> module with `cases() -> list[Case]` or `Suite`, as a context manager; imported when it runs
BENCHMARKS = {
    "attacks": "bench.attacks", "crypto": "bench.crypto", "gossip": "bench.gossip", "psi": "bench.psi",
    "quality": "bench.quality", "training": "bench.training",
}  # fmt: skip
ALL = "all"
# What one benchmark alone takes.
OPTIONS = {
    "attacks": ("seed", "fast"), "psi": ("curve", "rsa"), "quality": ("data", "seed", "fast", "mf", "ncf", "resume"),
    "training": ("resume", "large"),
}  # fmt: skip


@app.command()
def bench(
    name: Annotated[str, typer.Argument(help=f"{', '.join(BENCHMARKS)}, or {ALL}.")],
    json_file: Annotated[Path | None, typer.Option("--json", help="Write header and rows to this file.")] = None,
    repetitions: Annotated[int, typer.Option(min=1, help="How often each pair is measured, in turn.")] = 5,
    curve: Annotated[
        list[int] | None, typer.Option(min=2, help="psi: ids a side on the curve; may be repeated.")
    ] = None,
    rsa: Annotated[
        list[int] | None, typer.Option(min=2, help="psi: ids a side with signatures; may be repeated.")
    ] = None,
    data: Annotated[
        list[str] | None, typer.Option(help="quality: ml-100k, lastfm-2k or ml-1m, below ACCORD_DATA; may be repeated.")
    ] = None,
    seed: Annotated[
        list[int] | None, typer.Option(min=0, help="attacks, quality: of a split; may be repeated.")
    ] = None,
    fast: Annotated[
        bool, typer.Option("--fast", help="attacks: one seed, fewer people; quality: ml-100k with one seed.")
    ] = False,
    mf: Annotated[bool, typer.Option("--mf", help="quality: ratings of ml-1m too.")] = False,
    ncf: Annotated[bool, typer.Option("--ncf", help="quality: NeuMF on ml-100k too.")] = False,
    resume: Annotated[
        list[Path] | None,
        typer.Option(help="quality, training: a JSON file of results that are not computed again; may be repeated."),
    ] = None,
    large: Annotated[bool, typer.Option("--large", help="training: 20 million ratings, and nothing else.")] = False,
) -> None:
    """Measure, interleaved with a peer in the same run, and print ratios with their spread."""
    from bench.frame import Suite, measure, show, write

    names = list(BENCHMARKS) if name == ALL else [name]
    if unknown := set(names) - set(BENCHMARKS):
        raise SpecError("no such benchmark", expected=", ".join([*BENCHMARKS, ALL]), found=", ".join(unknown))
    given = {"curve": curve, "rsa": rsa, "data": data, "seed": seed, "fast": fast, "mf": mf, "resume": resume}
    given |= {"ncf": ncf, "large": large}
    options = _options(names, {option: value for option, value in given.items() if value})
    rows, header = [], dict[str, Any]()
    out = console()

    def tell(case: str, turn: int, of: int, left: float) -> None:
        out.print(f"{turn}/{of}  {case}  (about {left:.0f} s to go)", markup=False, highlight=False)

    for each in names:
        with importlib.import_module(BENCHMARKS[each]).cases(**options[each]) as found:
            suite = found if isinstance(found, Suite) else Suite(found)
            for note in suite.notes:
                out.print(note, markup=False)
            measured = measure(suite.cases, repetitions, tell)
        for table in suite.tables(measured) if suite.tables else []:
            out.print(table)
        rows += measured
        header |= {"repetitions": repetitions, **suite.header}
        if json_file is not None:
            _beside(suite, measured, json_file.with_name(f"{each}.json") if name == ALL else json_file)
    out.print(show(name, rows))
    if json_file is not None:
        write(name, rows, json_file, header)


def _options(names: Sequence[str], given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return each benchmark's own options; `SpecError` for one that none of them takes."""
    taken = {name: {option: value for option, value in given.items() if option in OPTIONS.get(name, ())}
             for name in names}  # fmt: skip
    if unknown := set(given).difference(*taken.values()):
        of = {name for name, options in OPTIONS.items() if unknown & set(options)}
        found = ", ".join(f"--{option}" for option in sorted(unknown))
        raise SpecError("options of another benchmark", expected=", ".join(sorted(of)), found=found)
    return taken


def _beside(suite: Suite, rows: Sequence[Row], json_file: Path) -> None:
    """Write the picture and the page of a benchmark that has them."""
    json_file.parent.mkdir(parents=True, exist_ok=True)
    if suite.picture is not None:
        suite.picture(rows, json_file.with_suffix(".png"))
    if suite.page is not None:
        json_file.with_suffix(".md").write_text(suite.page(rows), encoding="utf-8")
