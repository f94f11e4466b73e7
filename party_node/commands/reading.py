"""`accord check`, `accord messages`, `accord catalogue`: what a pipeline or a component says."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from party_node.commands.common import HOMES, HomesOption, JsonOption, console, show


def check(
    pipelines: Annotated[list[Path] | None, typer.Argument(help="Pipelines; default conf/pipelines/*.yaml.")] = None,
    homes: HomesOption = HOMES,
) -> None:
    """Check pipelines to the last parameter, and against the signed accord where the initiator's copy lies here."""
    from pipelines.accord import read_accord
    from pipelines.load import load

    for path in pipelines or sorted(Path("conf/pipelines").glob("*.yaml")):
        loaded = load(path)
        spec = loaded.spec
        copy = homes / spec.initiator / "accords" / f"{spec.accord}.json"
        if copy.exists():
            read_accord(copy).admit(spec, loaded.at)
        note = "" if copy.exists() else f"; not checked against accord {spec.accord}: {copy} is not here"
        console().print(f"{path}: {len(spec.steps)} steps, {len(spec.parties)} parties, good{note}", markup=False)


def messages(
    what: Annotated[
        str | None, typer.Argument(help="A component or a pipeline's YAML; default: every component.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print what crosses a border, how it is protected and what it reveals."""
    from rich.table import Table

    from base.errors import SpecError
    from components.registry import catalogue
    from pipelines.load import load

    known = catalogue()
    names = list(known)
    if what is not None and what.endswith((".yaml", ".yml")):
        names = list(dict.fromkeys(step.component for step in load(what).spec.steps.values()))
    elif what is not None:
        if what not in known:
            raise SpecError("unknown component", expected=", ".join(known), found=what)
        names = [what]
    if as_json:
        show({name: known[name]["messages"] for name in names})
        return
    out = console()
    for name in names:
        table = Table(
            "message", "from", "to", "protection", "what the receiver learns", title=name, title_justify="left"
        )
        for m in known[name]["messages"]:
            table.add_row(m["name"], m["from"], m["to"], m["protection"], m["reveals"])
        out.print(table if known[name]["messages"] else f"{name}: nothing leaves the party")
        out.print(known[name]["adversary"] + "\n", markup=False, style="dim")


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
