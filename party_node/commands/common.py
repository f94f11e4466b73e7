"""What the commands share: where a node's directory is, and how things are printed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from pipelines.load import Pipeline
    from runtime.party import Home

HOMES = Path("var/demo/parties")
PIPELINES = Path("conf/pipelines")
ANY_WIDTH = 100_000  # columns of a file or a pipe: it has no edge, and what is cut there is lost
PartyOption = Annotated[
    str | None, typer.Option("--party", help="The organisation: its node directory is HOMES/PARTY.")
]
HomeOption = Annotated[Path | None, typer.Option("--home", help="The node's directory itself.")]
HomesOption = Annotated[
    Path, typer.Option("--homes", envvar="ACCORD_HOMES", help="Where the directories of several nodes lie.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document for machines.")]


def find_home(party: str | None, home: Path | None, homes: Path) -> Home:
    """Return the node directory that the options name; a wrong usage of the command when none does."""
    from runtime.party import Home

    if home is None and party is None:
        raise typer.BadParameter("which node? Add --party NAME or --home DIRECTORY", param_hint="--party")
    return Home(home if home is not None else homes / str(party))


def load_pipeline(path: Path) -> Pipeline:
    """Read and check a pipeline's file; `SpecError` for a mere name shows the path that may be meant."""
    from base.errors import SpecError
    from base.near import did_you_mean
    from pipelines.load import load

    if not path.exists():
        meant, near = PIPELINES / f"{path.stem}.yaml", [str(file) for file in path.parent.glob("*.yaml")]
        remedy = f"name the file: {meant}" if meant.exists() and meant != path else did_you_mean(str(path), near)
        raise SpecError(
            "there is no such pipeline file",
            expected=f"the path of a pipeline's YAML, from {Path.cwd()}",
            found="no file",
            where=str(path),
            remedy=remedy or f"name a file that is there: ls {PIPELINES}",
        )
    return load(path)


def near_accord(name: str, home: Home) -> str | None:
    """Return which of the node's accords may be meant; read here, as a node tells no peer what else it has signed."""
    from base.near import did_you_mean

    return did_you_mean(name, sorted(path.stem for path in home.path("accords").glob("*.json")))


def require_accord(name: str, home: Home, where: str) -> None:
    """Raise `ConsentError`, with the name that may be meant, unless the node keeps a copy of the accord."""
    from base.errors import ConsentError

    if not home.path("accords", f"{name}.json").exists():
        known = sorted(path.stem for path in home.path("accords").glob("*.json"))
        raise ConsentError(
            "this party keeps no such accord",
            expected=", ".join(known) or "an accord: none is signed here",
            found=name,
            where=where,
            remedy=near_accord(name, home)
            or f"correct the name, or sign it: accord sign TERMS.yaml --party {home.party}",
            party=home.party,
        )


def console() -> Console:
    """Return where people read; markup in what others wrote is not interpreted."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else ANY_WIDTH)


def show(document: Any) -> None:
    """Print a JSON document to standard output."""
    typer.echo(json.dumps(document, indent=2, sort_keys=True))


def size(number: float | None) -> str:
    """Return bytes as people read them."""
    if number is None:
        return "-"
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000 or unit == "GB":
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    raise AssertionError
