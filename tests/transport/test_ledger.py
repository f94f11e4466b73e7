import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from base.errors import CryptoError, MessageRefused, PeerForeign
from transport.chain import IN, OUT, Entry, Head, chain_start, verify_chain, verify_head
from transport.ledger import Ledger
from transport.ledger_store import MemoryLedgerStore
from transport.message import MessageKey
from transport.wire import Statement

RUN = "run-1"


def key(seq=0, sender="north", receiver="bureau"):
    return MessageKey(RUN, "train", 1, "part", sender, receiver, seq)


def statement(seq=0, digest="d", **more):
    return Statement(key(seq, **more), "schema", "paillier", 3, 100, digest)


@pytest.fixture
def talked(channels, nodes, kit):
    """Three parties after some messages; everything recorded."""
    for party in ("north", "south"):
        channels[party].send("part", kit.blocks(b"ab", b"cd"))
        channels["bureau"].recv("part", party)
    channels["bureau"].send("total", kit.numbers(1))
    channels["bureau"].send("total", kit.numbers(2))
    return nodes


def check(node, other=None, entries=None, heads=None):
    other = other or node
    entries = other.entries() if entries is None else entries
    node.ledger.verify(RUN, other.signer.party, entries, other.store.heads(RUN) if heads is None else heads)


def test_both_ends_write_the_same_statement_and_keep_each_others_claim(talked):
    sent, received = talked["north"].entries()[0], talked["bureau"].entries()[0]
    assert (sent.direction, received.direction) == (OUT, IN)
    assert sent.statement == received.statement
    assert sent.claim.hash == received.hash
    assert received.claim.hash == sent.hash


def test_every_chain_is_right_in_every_eye(talked):
    for node in talked.values():
        for other in talked.values():
            check(node, other)


def test_ciphertexts_have_a_plain_digest_and_plaintexts_a_keyed_one(nodes):
    body = b"12"
    north, bureau, south = (nodes[p].ledger for p in ("north", "bureau", "south"))
    assert north.digest(key(), "paillier", body) == hashlib.sha256(body).hexdigest()
    keyed = north.digest(key(), "public", body)
    assert keyed == bureau.digest(key(), "public", body)
    others = {
        north.digest(key(1), "public", body),
        south.digest(key(), "public", body),
        hashlib.sha256(body).hexdigest(),
    }
    assert keyed not in others
    assert len(north.message_key(key())) == 32
    assert north.message_key(key()) != north.message_key(key(1))


@pytest.mark.parametrize(
    "change",
    [
        lambda e: replace(e, statement=replace(e.statement, digest="0" * 64)),
        lambda e: replace(e, statement=replace(e.statement, rows=e.statement.rows + 1)),
        lambda e: replace(e, at="2001-01-01T00:00:00+00:00"),
        lambda e: replace(e, direction=OUT),
        lambda e: replace(e, index=7),
        lambda e: replace(e, party="south"),
    ],
)
def test_a_changed_entry_breaks_the_chain_where_it_was_changed(talked, change):
    entries = list(talked["bureau"].entries())
    entries[1] = change(entries[1])
    with pytest.raises(CryptoError, match=r"broken at entry [12]"):
        check(talked["north"], talked["bureau"], entries)


def test_a_removed_moved_or_doubled_entry_breaks_the_chain(talked):
    a, b, c, *rest = talked["bureau"].entries()
    for entries in ([b, c, *rest], [a, c, *rest], [b, a, c, *rest], [a, a, b, c, *rest]):
        with pytest.raises(CryptoError, match="broken at entry"):
            verify_chain(entries, "bureau", RUN)
    with pytest.raises(CryptoError):
        verify_chain([a, b], "bureau", "run-2")


def test_a_changed_claim_is_found(talked):
    entries = list(talked["bureau"].entries())
    entries[1] = replace(entries[1], claim=replace(entries[1].claim, index=5))
    with pytest.raises(PeerForeign):
        check(talked["north"], talked["bureau"], entries)


def test_a_cut_tail_is_seen_by_the_head_that_another_end_signed(talked):
    bureau, north = talked["bureau"], talked["north"]
    signed = north.ledger.sign_head(bureau.ledger.head(RUN))
    bureau.ledger.keep_head(signed)
    check(north, bureau)
    cut = bureau.entries()[:-1]
    verify_chain(cut, "bureau", RUN)  # by itself a shorter chain looks right
    with pytest.raises(CryptoError, match="does not reach its signed head"):
        check(north, bureau, cut)
    check(north, bureau, cut, heads=[])
    assert north.store.heads(RUN) == (signed,)


def test_a_rebuilt_chain_contradicts_the_head(talked):
    bureau, north = talked["bureau"], talked["north"]
    signed = north.ledger.sign_head(bureau.ledger.head(RUN))
    store = MemoryLedgerStore()
    forger = Ledger(bureau.signer, store)
    for entry in bureau.entries():
        forger.record(entry.direction, replace(entry.statement, digest="f" * 64))
    verify_chain(store.entries(RUN), "bureau", RUN)
    with pytest.raises(CryptoError, match="signed head"):
        north.ledger.verify(RUN, "bureau", store.entries(RUN), [signed])


def test_a_head_with_a_wrong_signature_or_of_another_chain_is_not_kept(talked):
    bureau, north = talked["bureau"], talked["north"]
    signed = north.ledger.sign_head(bureau.ledger.head(RUN))
    for forged in (
        replace(signed, signer="south"),
        replace(signed, signature="00" * 64),
        replace(signed, head=replace(signed.head, length=1)),
    ):
        with pytest.raises(PeerForeign):
            bureau.ledger.keep_head(forged)
    with pytest.raises(CryptoError, match="hexadecimal"):
        bureau.ledger.keep_head(replace(signed, signature="zz"))
    ahead = north.ledger.sign_head(Head("bureau", RUN, 99, "0" * 64))
    with pytest.raises(CryptoError, match="signed head"):
        bureau.ledger.keep_head(ahead)


def test_a_signed_head_is_not_replaced_by_a_shorter_or_another_one(talked):
    north, bureau = talked["north"], talked["bureau"]
    head = bureau.ledger.head(RUN)
    first = north.ledger.sign_head(head)
    assert north.ledger.sign_head(head) == first
    for back in (replace(head, length=head.length - 1), replace(head, hash="0" * 64)):
        with pytest.raises(CryptoError, match="gone back"):
            north.ledger.sign_head(back)
    assert {signed.head for signed in north.ledger.store.heads(RUN)} == {head}


def test_an_empty_chain_has_a_head_too(nodes):
    head = nodes["south"].ledger.head(RUN)
    assert head == Head("south", RUN, 0, chain_start("south", RUN))
    nodes["south"].ledger.keep_head(nodes["north"].ledger.sign_head(head))
    with pytest.raises(CryptoError):
        verify_head((), replace(head, hash="0" * 64))


def test_a_repeat_is_the_same_entry_and_other_bytes_are_refused(nodes):
    ledger = nodes["bureau"].ledger
    first = ledger.record(IN, statement())
    assert ledger.record(IN, statement()) == first
    with pytest.raises(MessageRefused, match="delivered before with other bytes") as caught:
        ledger.record(IN, statement(digest="other"))
    assert "run-1/train/1/part/north/bureau/0" in caught.value.where
    assert len(nodes["bureau"].entries()) == 1


def test_threads_write_one_chain(nodes):
    ledger = nodes["bureau"].ledger
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda seq: ledger.record(IN, statement(seq % 40)), range(120)))
    assert len(nodes["bureau"].entries()) == 40
    verify_chain(nodes["bureau"].entries(), "bureau", RUN)


def test_an_entry_comes_back_from_its_document(talked):
    for entry in talked["bureau"].entries():
        again = Entry.from_document(entry.to_document())
        assert again == entry
        assert again.hash == entry.hash


def test_a_record_in_memory_looks_at_no_earlier_one(nodes, monkeypatch, kit):
    compared = []
    same = MessageKey.__eq__
    monkeypatch.setattr(MessageKey, "__eq__", lambda self, other: compared.append(self) or same(self, other))
    for seq in range(50):
        key = MessageKey("run-1", "train", 1, "total", "bureau", "north", seq)
        nodes["bureau"].ledger.record("out", Statement(key, "s", "public", 1, 1, "d"))
    assert len(compared) <= 3 * 50
