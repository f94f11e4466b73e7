"""Three organisations with a little data, laid out once; node tests start their nodes, others use the directories."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from ports import free_ports
from run_parties import FILE, PARTIES, SMALL, RunParty, run_party

from demo.consortium import Consortium

COMMON, OWN = 105, 10


def lay_out(root: Path, parties: tuple[str, ...] = PARTIES) -> Consortium:
    consortium = Consortium(root, parties=parties, ports=free_ports(parties))
    consortium.lay_out()
    consortium.sign()
    rows = [f"C{n:07d},{n % 9 + 1},{n % 5 + 1},880000000" for n in range(COMMON + OWN)]
    people = [f"C{n:07d},30,F,none,12345" for n in range(OWN, COMMON + 2 * OWN)]
    for party, name, head, lines in (
        ("north_bank", "half_ratings", "user_id,item_id,rating,timestamp", rows),
        ("south_bank", "ratings", "user_id,item_id,rating,timestamp", rows),
        ("bureau", "people", "user_id,age,sex,occupation,zip", people),
    ):
        path = consortium.directory(party) / "data" / f"{name}.csv"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
    return consortium


@pytest.fixture(scope="session")
def laid_out(tmp_path_factory: pytest.TempPathFactory) -> Consortium:
    """Directories of three parties; no test may change them."""
    return lay_out(tmp_path_factory.mktemp("consortium"))


@pytest.fixture
def organisations(laid_out: Consortium, tmp_path: Path) -> Consortium:
    """A copy of the directories that a test may change."""
    root = tmp_path / "copy"
    shutil.copytree(laid_out.root, root, ignore=shutil.ignore_patterns("mlflow.db", "node.db*", "store", "inbox"))
    return Consortium(root, parties=PARTIES, ports=laid_out._ports)


@pytest.fixture
def parties(organisations: Consortium) -> dict[str, RunParty]:
    """The three parties by name; all have approved `SMALL`."""
    found = {party: run_party(organisations, party) for party in PARTIES}
    for at in found.values():
        at.approvals.approve(SMALL, FILE, "somebody")
    return found


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    """Three running nodes that have approved `SMALL`."""
    consortium = lay_out(tmp_path_factory.mktemp("nodes"))
    try:
        consortium.start()
        consortium.approve(FILE, SMALL)
        yield consortium
    finally:
        consortium.stop()
