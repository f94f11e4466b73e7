"""`accord sign` and `accord approve`: what an organisation agrees to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from party_node.commands.common import (
    HOMES,
    HomeOption,
    HomesOption,
    PartyOption,
    console,
    find_home,
    load_pipeline,
    require_accord,
)

if TYPE_CHECKING:
    from pipelines.accord import SignedAccord


def sign(
    terms: Annotated[
        Path, typer.Argument(help="Terms (conf/accords/NAME.yaml), or the document that goes round (.json).")
    ],
    party: PartyOption = None,
    home: HomeOption = None,
    homes: HomesOption = HOMES,
    keys: Annotated[Path | None, typer.Option(help="Directory of PARTY.json public keys; default: HOMES.")] = None,
    out: Annotated[Path | None, typer.Option(help="The document that goes round; default HOMES/../accords/.")] = None,
) -> None:
    """Sign an accord with a party's node key, and keep this party's copy. Every party signs the same terms."""
    from party_node import signing
    from pipelines.accord import read_accord, write_accord

    at = find_home(party, home, homes)
    path = terms if terms.suffix == ".json" else out or homes.parent / "accords" / f"{terms.stem}.json"
    accord = read_accord(terms) if terms.suffix == ".json" else _draft(terms, homes, keys)
    if path != terms and path.exists() and (begun := read_accord(path)).digest == accord.digest:
        accord = begun
    accord = signing.sign(accord, at)
    write_accord(path, accord)
    signing.install(accord, at)
    missing = sorted(set(accord.terms.parties) - set(accord.signatures))
    older = [] if missing else _older(accord, at.party, homes)
    state = "all have signed, and all copies are the same: the accord is complete"
    if missing or older:
        state = f"still to sign: {', '.join(missing)}" if missing else "all have signed; whose copy is older renews it"
    screen = console()
    screen.print(f"{path}: signed by {at.party}; {state}", markup=False, soft_wrap=True)
    for name in missing or older:
        screen.print(f"  accord sign {path} --party {name}", markup=False, soft_wrap=True)


def _older(accord: SignedAccord, party: str, homes: Path) -> list[str]:
    """Return the other parties whose copy is not this document; one whose directory is elsewhere may have any."""
    from base.errors import AccordError
    from pipelines.accord import read_accord

    found = []
    for name in sorted(set(accord.terms.parties) - {party}):
        try:
            same = read_accord(homes / name / "accords" / f"{accord.terms.accord}.json") == accord
        except AccordError:  # none is there, or none that can be read: signing writes it
            same = False
        if not same:
            found.append(name)
    return found


def approve(
    pipeline: Annotated[Path, typer.Argument(help="A pipeline's YAML.")],
    party: PartyOption = None,
    home: HomeOption = None,
    homes: HomesOption = HOMES,
) -> None:
    """Approve a pipeline as it stands, as a party's approver; a changed file asks again."""
    from party_node import launch

    at = find_home(party, home, homes)
    loaded = load_pipeline(pipeline)
    require_accord(loaded.spec.accord, at, loaded.at(("accord",)))
    with launch.client(at, "approver") as node:
        answer = node.call("approve", {"pipeline": loaded.text, "file": str(pipeline)})
    console().print(f"{answer['approver']} approved {pipeline}: template {answer['template'][:16]}", markup=False)


def _draft(terms: Path, homes: Path, keys: Path | None) -> SignedAccord:
    import json

    from crypto.node_keys import NodePublicKeys
    from party_node import signing

    conditions = signing.read_conditions(terms)
    found = {}
    for name in conditions["parties"]:
        path = keys / f"{name}.json" if keys else homes / name / "keys" / "public.json"
        if path.exists():
            found[name] = NodePublicKeys.from_document(json.loads(path.read_bytes()))
    return signing.draft(conditions, found, str(terms))
