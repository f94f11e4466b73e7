"""`accord erase`: what alignments keep for a peer goes, and with it what tests for a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from party_node.commands.common import (
    HOMES,
    HomeOption,
    HomesOption,
    JsonOption,
    PartyOption,
    console,
    find_home,
    require_accord,
    show,
    size,
)
from party_node.exit_codes import USAGE

KEPT = "keys made for it, and digests of signatures under its keys or for it"
COSTS = (
    "the next align_rsa signs all ids of both parties again, as the first one did; what the receiver asks for counts"
    " towards max_signatures = {} of the accord as before, and so does what it has had"
)
STAYS = (
    "ledgers, and what was counted: an erasure gives nobody a test back",
    "artefacts in store/ and models in MLflow of runs that were; secrets of a run that was interrupted, until it ends",
    "copies of the node's directory, and the data sets: a person's rows are yours to remove",
    "what the peer keeps: its operator runs the same command",
)


def erase(
    accord: Annotated[str, typer.Option("--accord", help="Name of the accord, for example demo.")],
    peer: Annotated[
        list[str] | None,
        typer.Option("--peer", help="For which peer; repeatable. Default: every one, as erasing a person asks."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Erase; without it, only say what would go.")] = False,
    party: PartyOption = None,
    home: HomeOption = None,
    homes: HomesOption = HOMES,
    as_json: JsonOption = False,
) -> None:
    """Erase what alignments keep at a node for a peer: RSA keys and signatures; the next run makes new ones."""
    from party_node import launch

    at = find_home(party, home, homes)
    require_accord(accord, at, "--accord")
    with launch.client(at, "operator") as node:
        answer = node.call("erase", {"accord": accord, "peers": peer or [], "confirmed": yes})
    if as_json:
        show({**answer, "erased": yes})
    else:
        _print(answer, erased=yes)
    if not yes and _anything(answer):
        typer.echo("nothing has been erased; to erase this, type the same line with --yes", err=True)
        raise typer.Exit(USAGE)


def _anything(answer: Mapping[str, Any]) -> bool:
    return any(kept["files"] for kept in answer["peers"].values())


def _print(answer: Mapping[str, Any], *, erased: bool) -> None:
    out = console()
    for peer, kept in answer["peers"].items():
        goes = f"{kept['files']} files, {size(kept['bytes'])}, {'erased' if erased else 'would go'}: {KEPT}"
        what = goes if kept["files"] else "nothing is kept"
        out.print(f"{answer['party']}, accord {answer['accord']}, for {peer}: {what}", markup=False, soft_wrap=True)
    if _anything(answer):
        out.print(f"  costs  {COSTS.format(answer['max_signatures'])}", markup=False, soft_wrap=True)
    for n, line in enumerate(STAYS):
        out.print(f"  {'' if n else 'stays':<7}{line}", markup=False, soft_wrap=True)
