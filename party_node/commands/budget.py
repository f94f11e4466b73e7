"""`accord budget`: what the data sets of a party have spent of their privacy, for who answers for their people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from party_node.commands.common import HOMES, HomeOption, HomesOption, JsonOption, PartyOption, console, find_home, show


def budget(
    party: PartyOption = None, home: HomeOption = None, homes: HomesOption = HOMES, as_json: JsonOption = False
) -> None:
    """Show what each data set has spent of its privacy, over all accords, what each accord allows, and for what."""
    from party_node.budgets import limits_of, report
    from party_node.database import Database

    at = find_home(party, home, homes)
    database = Database(at.url(at.conf.database))
    try:
        answer = report(database, limits_of(at))
    finally:
        database.close()
    if as_json:
        show({"party": at.party, "data_sets": answer})
    else:
        _print(at.party, answer)


def _print(party: str, answer: Mapping[str, Any]) -> None:
    out = console()
    if not answer:
        out.print(f"{party}: no accord lets a data set spend privacy, and none has", markup=False)
    for name, found in answer.items():
        out.print(f"{party}, data set {name}: per {found['unit']}", markup=False)
        for accord, limit in found["accords"].items():
            of = f"ε = {limit['spent']:.3g} of {limit['epsilon']:g} at δ = {limit['delta']:g}"
            out.print(f"  accord {accord:<16}{of}, over all accords", markup=False)
        for entry in found["releases"]:
            release = entry["release"]
            noise = f"{release['mechanism']}, {release['times']} x {release['dimension']} values"
            out.print(f"  {entry['day']}  {entry['accord']:<16}{entry['what']}: {noise}", markup=False)
