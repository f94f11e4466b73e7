"""`accord check`, `accord messages`, `accord catalogue`: what a pipeline or a component says."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from party_node.commands.common import (
    HOMES,
    PIPELINES,
    HomesOption,
    JsonOption,
    console,
    load_pipeline,
    near_accord,
    show,
)


def check(
    pipelines: Annotated[list[Path] | None, typer.Argument(help="Pipelines; default conf/pipelines/*.yaml.")] = None,
    homes: HomesOption = HOMES,
) -> None:
    """Check pipelines to the last parameter, and against accord and feature specs where the initiator's lie here."""
    from features.spec import load_all
    from pipelines.accord import read_accord
    from pipelines.columns import require_fit
    from runtime.party import Home

    for path in pipelines or sorted(PIPELINES.glob("*.yaml")):
        loaded = load_pipeline(path)
        spec = loaded.spec
        home = homes / spec.initiator
        copy = home / "accords" / f"{spec.accord}.json"
        if copy.exists():
            specs = load_all(Home(home).specs_directory) if (home / "party.yaml").exists() else {}
            accord = read_accord(copy)
            accord.admit(spec, loaded.at)
            require_fit(loaded, accord, specs)
        note = "" if copy.exists() else f"; not checked against accord {spec.accord}: {copy} is not here"
        if not copy.exists() and (home / "party.yaml").exists() and (near := near_accord(spec.accord, Home(home))):
            note += f"; {near}"
        console().print(f"{path}: {len(spec.steps)} steps, {len(spec.parties)} parties, good{note}", markup=False)


def messages(
    what: Annotated[
        str | None,
        typer.Argument(
            help="A component's name, or the path of a pipeline's YAML; default: every component. A name alone is"
            " always a component, also where a pipeline has the same name."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print what crosses a border, how it is protected and what it reveals."""
    from rich.table import Table

    from components.registry import catalogue

    known = catalogue()
    names = _named(what, list(known))
    if as_json:
        show({name: known[name]["messages"] for name in names})
        return
    out = console()
    for name in names:
        table = Table(title=name, title_justify="left")
        for column in ("message", "from", "to", "protection"):
            table.add_column(column, no_wrap=True)  # a narrow terminal breaks the words of the last, and cuts no name
        table.add_column("what the receiver learns", overflow="fold")
        for m in known[name]["messages"]:
            table.add_row(m["name"], m["from"], m["to"], m["protection"], m["reveals"])
        out.print(table if known[name]["messages"] else f"{name}: nothing leaves the party")
        out.print(known[name]["adversary"] + "\n", markup=False, style="dim")
    if what in known and (PIPELINES / f"{what}.yaml").exists():
        same = f"{what} is a component and a pipeline; this is the component. The pipeline's messages:"
        out.print(f"{same} accord messages {PIPELINES / what}.yaml", markup=False, soft_wrap=True)


def _named(what: str | None, known: list[str]) -> list[str]:
    """Return the components that are asked for; `SpecError` for a name that none has."""
    from base.errors import SpecError

    if what is None:
        return known
    if what.endswith((".yaml", ".yml")):
        return list(dict.fromkeys(step.component for step in load_pipeline(Path(what)).spec.steps.values()))
    if what not in known:
        meant = PIPELINES / f"{what}.yaml"
        remedy = f"it is a pipeline: accord messages {meant}" if meant.exists() else None
        raise SpecError("unknown component", expected=", ".join(known), found=what, remedy=remedy)
    return [what]


def catalogue(
    check_only: Annotated[bool, typer.Option("--check", help="Only say whether the files are true.")] = False,
) -> None:
    """Write components/catalogue.json and docs/messages.md from the components."""
    import components
    from base.errors import SpecError
    from base.files import write_whole
    from party_node import catalogue as made

    entries = made.describe_all()
    root = Path(components.__file__).parent
    files = {
        root / "catalogue.json": made.as_json(entries),
        root.parent / "docs" / "messages.md": made.as_markdown(entries),
    }
    for path, text in files.items():
        true = path.exists() and path.read_text(encoding="utf-8") == text
        if check_only and not true:
            raise SpecError(
                "a generated file is not what the components say", where=str(path), remedy="accord catalogue"
            )
        if not true:
            write_whole(path, text.encode())
        console().print(f"{path.name}: {'true' if true else 'written'}", markup=False)
