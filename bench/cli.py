"""`accord bench NAME --json FILE`: one frame for every benchmark."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated, Any

import typer

from base.errors import SpecError
from party_node.commands.common import console

app = typer.Typer(add_completion=False)
# name -> module with `cases() -> list[Case]` or `Suite`, as a context manager; imported when it runs
BENCHMARKS = {"round": "bench.round", "crypto": "bench.crypto", "psi": "bench.psi"}
ALL = "all"


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
) -> None:
    """Measure, interleaved with a peer in the same run, and print ratios with their spread."""
    from bench.frame import Suite, measure, show, write

    names = list(BENCHMARKS) if name == ALL else [name]
    if unknown := set(names) - set(BENCHMARKS):
        raise SpecError("no such benchmark", expected=", ".join([*BENCHMARKS, ALL]), found=", ".join(unknown))
    sizes = {option: tuple(found) for option, found in (("curve", curve), ("rsa", rsa)) if found}
    if sizes and name != "psi":
        raise SpecError("sizes of psi are given to another benchmark", expected="psi", found=name)
    rows, header = [], dict[str, Any]()
    out = console()

    def tell(case: str, turn: int, of: int, left: float) -> None:
        out.print(f"{turn}/{of}  {case}  (about {left:.0f} s to go)", markup=False, highlight=False)

    for each in names:
        with importlib.import_module(BENCHMARKS[each]).cases(**sizes) as found:
            suite = found if isinstance(found, Suite) else Suite(found)
            for note in suite.notes:
                out.print(note, markup=False)
            measured = measure(suite.cases, repetitions, tell)
        for table in suite.tables(measured) if suite.tables else []:
            out.print(table)
        rows += measured
        header |= {"repetitions": repetitions, **suite.header}
        if json_file is not None and suite.picture is not None:
            json_file.parent.mkdir(parents=True, exist_ok=True)
            png = json_file.with_name(f"{each}.png") if name == ALL else json_file.with_suffix(".png")
            suite.picture(measured, png)
    out.print(show(name, rows))
    if json_file is not None:
        write(name, rows, json_file, header)
