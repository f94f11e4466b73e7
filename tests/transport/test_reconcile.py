from dataclasses import replace

import pytest

from base.errors import AccordError
from transport.chain import IN, OUT
from transport.ledger import Ledger
from transport.ledger_store import MemoryLedgerStore
from transport.reconcile import Kind, reconcile


@pytest.fixture
def talked(channels, nodes, kit):
    for party in ("north", "south"):
        channels[party].send("part", kit.blocks(b"ab", b"cd"))
    channels["bureau"].send("total", kit.numbers(1))
    return nodes


def compare(kit, nodes, mine=None, theirs=None):
    mine = nodes["north"].entries() if mine is None else mine
    theirs = nodes["bureau"].entries() if theirs is None else theirs
    return reconcile("north", mine, "bureau", theirs, kit.GUARD)


def kinds(found):
    return [(f.kind, f.key.name, f.party) for f in found.findings]


def test_two_honest_ledgers_agree(talked, kit):
    found = compare(kit, talked)
    assert (found.matched, found.findings, found.clean) == (2, (), True)
    assert reconcile("north", talked["north"].entries(), "south", talked["south"].entries(), kit.GUARD).matched == 0


def test_what_an_end_signed_for_and_lacks_is_named(talked, kit):
    found = compare(
        kit, talked, theirs=[e for e in talked["bureau"].entries() if e.peer != "north" or e.direction == OUT]
    )
    assert kinds(found) == [(Kind.MISSING, "part", "bureau")]
    assert not found.clean
    found = compare(kit, talked, mine=[])
    assert sorted(kinds(found)) == [(Kind.MISSING, "part", "north"), (Kind.MISSING, "total", "north")]


def test_a_different_statement_is_named(talked, kit):
    changed = [replace(e, statement=replace(e.statement, digest="0" * 64)) for e in talked["bureau"].entries()]
    assert {kind for kind, _, _ in kinds(compare(kit, talked, theirs=changed))} == {Kind.DIFFERS}


def test_a_chain_that_was_written_anew_is_named(talked, kit):
    store = MemoryLedgerStore()
    forger = Ledger(talked["bureau"].signer, store)
    for entry in talked["bureau"].entries():
        if entry.peer != "south":  # as if south had never been there
            forger.record(entry.direction, entry.statement)
            forger.attach(entry.direction, entry.statement, entry.claim)
    found = compare(kit, talked, theirs=store.entries(kit.RUN))
    assert kinds(found) == [(Kind.REWRITTEN, "part", "bureau"), (Kind.REWRITTEN, "total", "bureau")]


def test_a_send_without_a_receipt_is_told_but_no_breach(talked, kit, nodes):
    class Lost:
        def put(self, parcel, seconds):
            raise AccordError("the peer's disk is full")

    with pytest.raises(AccordError):
        kit.make_channel(nodes["south"], Lost()).send("consent", kit.numbers(1))
    found = reconcile("south", nodes["south"].entries(), "north", nodes["north"].entries(), kit.GUARD)
    assert kinds(found) == [(Kind.UNACKNOWLEDGED, "consent", "north")]
    assert found.clean


@pytest.mark.parametrize(
    "change", [{"schema": "0" * 64}, {"protection": "public"}, {"name": "secret"}, {"step": "other"}]
)
def test_what_the_plan_does_not_declare_is_named_at_both_ends(talked, kit, change):
    nodes = talked
    statement = nodes["north"].entries()[0].statement
    if "name" in change or "step" in change:
        statement = replace(statement, key=replace(statement.key, seq=9, **change))
    else:
        statement = replace(statement, key=replace(statement.key, seq=9), **change)
    for party, direction in (("north", OUT), ("bureau", IN)):
        nodes[party].ledger.record(direction, statement)
    found = compare(kit, nodes)
    assert [(f.kind, f.party) for f in found.findings] == [(Kind.UNDECLARED, "north"), (Kind.UNDECLARED, "bureau")]
    assert found.matched == 2
