"""`accord bench NAME --json FILE`: one frame for every benchmark."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated

import typer

from base.errors import SpecError
from party_node.commands.common import console

app = typer.Typer(add_completion=False)
# name -> module with `cases() -> list[Case]` as a context manager; imported when it runs
BENCHMARKS = {"round": "bench.round"}
ALL = "all"


@app.command()
def bench(
    name: Annotated[str, typer.Argument(help=f"{', '.join(BENCHMARKS)}, or {ALL}.")],
    json_file: Annotated[Path | None, typer.Option("--json", help="Write header and rows to this file.")] = None,
    repetitions: Annotated[int, typer.Option(min=1, help="How often each pair is measured, in turn.")] = 5,
) -> None:
    """Measure, interleaved with a peer in the same run, and print ratios with their spread."""
    from bench.frame import measure, show, write

    names = list(BENCHMARKS) if name == ALL else [name]
    if unknown := set(names) - set(BENCHMARKS):
        raise SpecError("no such benchmark", expected=", ".join([*BENCHMARKS, ALL]), found=", ".join(unknown))
    rows = []
    out = console()
    for each in names:
        with importlib.import_module(BENCHMARKS[each]).cases() as cases:
            rows += measure(cases, repetitions, lambda case, turn, of: out.print(f"{case}: {turn}/{of}", markup=False))
    out.print(show(name, rows))
    if json_file is not None:
        write(name, rows, json_file)
