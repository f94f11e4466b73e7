"""`accord`: the command line of an organisation.

Commands import what they need when they run, so that `accord --help` is there at once. Other packages add command
groups through the entry-point group `accord.commands` (demo, bench).
"""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperGroup

from base.errors import AccordError, EnvironmentMissing
from party_node.commands import audit, budget, consent, doctor, erasure, identity, node, reading, run
from party_node.exit_codes import exit_code
from party_node.names import foreign

HELP = """Federated recommenders for organisations that may not pool their data.

**New here?** `make demo` runs everything on real data. By hand, with the four demo nodes:

1. `accord doctor` says what this machine lacks.

2. `accord run conf/pipelines/horizontal_mf.yaml` runs a pipeline through its initiator's node.

3. `accord messages conf/pipelines/horizontal_mf.yaml` prints what crosses a border, and what it reveals.

4. `accord audit verify RUN --party bureau` proves afterwards what did.

A node of your own: `provision` (or `csr`), `sign`, `node start`, `approve`. Exit codes: docs/exit_codes.md.
"""


class _Group(TyperGroup):
    """Adds the command groups of other packages, each imported when it is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *sorted(_others())]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        found = super().get_command(ctx, cmd_name)
        if found is None and cmd_name in (others := _others()):
            return typer.main.get_command(others[cmd_name].load())
        return found


def _others() -> dict[str, importlib.metadata.EntryPoint]:
    return {entry.name: entry for entry in importlib.metadata.entry_points(group="accord.commands")}


app = typer.Typer(
    cls=_Group,
    help=HELP,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    add_completion=False,
)
COMMANDS: dict[str, tuple[Callable[..., None], ...]] = {
    "Pipelines": (run.run, run.simulate, reading.check, reading.messages),
    "Consent": (consent.sign, consent.approve, budget.budget),
    "A node": (identity.provision, identity.csr, identity.sign_csr, doctor.doctor, erasure.erase),
    "Development": (reading.catalogue,),
}
for panel, commands in COMMANDS.items():
    for command in commands:
        app.command(rich_help_panel=panel)(command)
app.add_typer(node.app, name="node", rich_help_panel="A node")
app.add_typer(audit.app, name="audit", rich_help_panel="Consent")


def main() -> None:
    """Run the command line; an error is printed as a person reads it and decides the exit code."""
    try:
        _check_names()
        app()
    except AccordError as error:
        typer.echo(str(error), err=True)
        sys.exit(exit_code(error))
    except KeyboardInterrupt as error:
        typer.echo("stopped", err=True)
        sys.exit(exit_code(error))


def _check_names() -> None:
    """Refuse to start when another distribution provides one of our top-level packages."""
    if others := foreign():
        remedy = "install Accord in an environment of its own; see accord doctor"
        raise EnvironmentMissing(
            "another distribution provides a package of ours", found=", ".join(others), remedy=remedy
        )
