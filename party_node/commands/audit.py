"""`accord audit verify`: prove a ledger, and reconcile it with every other party's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from party_node.commands.common import HOMES, HomeOption, HomesOption, JsonOption, PartyOption, console, find_home, show

app = typer.Typer(help="Prove what left and came: ledgers of a run.", no_args_is_help=True)


@app.command()
def verify(
    run: Annotated[str, typer.Argument(help="A run, as `accord run` names it.")],
    party: PartyOption = None,
    home: HomeOption = None,
    homes: HomesOption = HOMES,
    as_json: JsonOption = False,
) -> None:
    """Verify this party's chain and every other party's, and compare both ends with each other and with the plan."""
    from base.errors import CryptoError
    from party_node import launch

    at = find_home(party, home, homes)
    with launch.client(at, "operator") as node:
        answer = node.call("audit", {"run": run})
    if as_json:
        show(answer)
    else:
        _print(answer)
    unclean = [peer for peer, found in answer["peers"].items() if not found["clean"]]
    if unclean:
        raise CryptoError("ledgers do not agree", expected="no finding", found=", ".join(unclean), where=f"run {run}")


@app.command()
def show_ledger(
    run: Annotated[str, typer.Argument(help="A run, as `accord run` names it.")],
    party: PartyOption = None,
    home: HomeOption = None,
    homes: HomesOption = HOMES,
) -> None:
    """Print this party's ledger of a run as JSON."""
    from party_node import launch

    with launch.client(find_home(party, home, homes), "operator") as node:
        show(node.call("ledger", {"run": run}))


def _print(answer: Mapping[str, Any]) -> None:
    out = console()
    out.print(f"{answer['party']}: {answer['entries']} entries, chain and signatures hold", markup=False)
    for peer, found in answer["peers"].items():
        state = "agrees" if found["clean"] else "DOES NOT AGREE"
        out.print(f"  {peer:<16}{state}: {found['matched']} messages match", markup=False)
        if found["error"]:
            out.print(f"    {found['error']['what']}", markup=False)
        for finding in found["findings"]:
            out.print(f"    {finding['kind']:<16}{finding['message']} at {finding['party']}", markup=False)
