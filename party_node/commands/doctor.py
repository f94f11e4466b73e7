"""`accord doctor`: what this machine or this node lacks, each with its remedy."""

from __future__ import annotations

from typing import Annotated

import typer

from party_node.commands.common import HOMES, HomeOption, HomesOption, JsonOption, PartyOption, console, find_home, show


def doctor(
    party: PartyOption = None,
    home: HomeOption = None,
    homes: HomesOption = HOMES,
    peers: Annotated[bool, typer.Option(help="Also ask the running node how it stands with its peers.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Look for what is missing: Java, Python, disk, names, and of one node its certificates, port and peers."""
    from base.errors import EnvironmentMissing
    from party_node import health

    findings = health.machine()
    if party is not None or home is not None:
        findings += health.node(find_home(party, home, homes), peers=peers)
    if as_json:
        show([vars(finding) for finding in findings])
    else:
        for finding in findings:
            mark = "good" if finding.good else "MISSING"
            console().print(f"{mark:<9}{finding.what:<24}{finding.found}", markup=False)
            if not finding.good:
                console().print(f"{'':<9}{'':<24}remedy: {finding.remedy}", markup=False)
    if broken := [finding.what for finding in findings if not finding.good]:
        raise EnvironmentMissing("something is missing", found=", ".join(broken), remedy="see the lines above")
