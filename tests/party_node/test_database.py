import os
import subprocess
import sys
import uuid

import pytest
from sqlalchemy import func, select, text

from base.errors import PeerForeign
from party_node.database import Approval, Database, LedgerEntry, Nonce, Table
from party_node.ledger_store import SqlLedgerStore
from party_node.nonces import SqlNonceCache
from transport.chain import OUT, Entry, Head, SignedHead, chain_start, verify_chain
from transport.message import MessageKey
from transport.wire import Claim, Statement


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/node.db"
        return
    server = os.environ.get("ACCORD_TEST_POSTGRES")  # an SQLAlchemy URL of a database that the test may fill
    if not server:
        pytest.skip("ACCORD_TEST_POSTGRES names no PostgreSQL server")
    yield server
    database = Database(server)
    Table.metadata.drop_all(database.engine)
    database.close()


@pytest.fixture
def database(url):
    found = Database(url)
    yield found
    found.close()


def statement(seq, digest="d"):
    return Statement(MessageKey("run", "step", 1, "name", "north_bank", "bureau", seq), "s", "paillier", 3, 100, digest)


def record(store, seq):
    def make(last):
        index, previous = (last.index + 1, last.hash) if last else (0, chain_start("north_bank", "run"))
        return Entry("north_bank", index, previous, "2026-01-01T00:00:00", OUT, statement(seq))

    return store.append(statement(seq).key, OUT, make)


def test_a_transaction_is_whole_or_absent(database):
    def fail():
        with database.write() as session:
            session.add(Approval(template="a" * 64, pipeline="p", approver="x", created=1.0))
            session.flush()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    with database.read() as session:
        assert session.scalar(select(func.count()).select_from(Approval)) == 0


def test_sqlite_writes_ahead(tmp_path):
    database = Database(f"sqlite:///{tmp_path}/node.db")
    with database.read() as session:
        assert session.scalar(text("PRAGMA journal_mode")) == "wal"
    database.close()


def test_a_nonce_is_good_once_and_a_restart_forgets_none(database, url):
    SqlNonceCache(database).spend("bureau", "n" * 32, 2**33)
    again = Database(url)
    with pytest.raises(PeerForeign, match="used before"):
        SqlNonceCache(again).spend("bureau", "n" * 32, 2**33)
    SqlNonceCache(again).spend("south_bank", "n" * 32, 2**33)  # another party's nonce is another nonce
    again.close()


def test_nonces_that_nobody_can_use_any_more_are_forgotten(database):
    cache = SqlNonceCache(database)
    cache.spend("bureau", "a" * 32, 1)
    cache.spend("bureau", "b" * 32, 2**33)
    with database.read() as session:
        assert session.scalars(select(Nonce.nonce)).all() == ["b" * 32]


def test_the_ledger_is_a_chain_and_a_repeat_is_the_same_entry(database):
    store = SqlLedgerStore(database)
    first = [record(store, seq) for seq in range(3)]
    assert record(store, 1) == first[1]
    assert list(store.entries("run")) == first
    verify_chain(store.entries("run"), "north_bank", "run")
    store.attach(statement(1).key, OUT, Claim(7, "h", "s"))
    assert store.entries("run")[1].claim == Claim(7, "h", "s")
    assert store.entries("other") == []
    assert store.traffic("run", "step", 1) == {"out": 300, "in": 0}
    assert store.summary("run")[0] | {} == {
        "step": "step", "name": "name", "sender": "north_bank", "receiver": "bureau", "protection": "paillier",
        "messages": 3, "rows": 9, "bytes": 300,
    }  # fmt: skip


def test_heads_are_kept(database):
    store = SqlLedgerStore(database)
    signed = SignedHead(Head("north_bank", "run", 2, "h"), "bureau", "ab" * 64)
    store.keep_head(signed)
    store.keep_head(signed)
    assert list(store.heads("run")) == [signed]


WRITER = """
import sys
sys.path.insert(0, sys.argv[2])
sys.path.insert(0, sys.argv[3])
from test_database import record
from party_node.database import Database
from party_node.ledger_store import SqlLedgerStore
store = SqlLedgerStore(Database(sys.argv[1]))
for seq in range(int(sys.argv[4]), int(sys.argv[4]) + 15):
    record(store, seq)
"""


def test_two_processes_extend_one_chain(database, url, repository):
    here = os.path.dirname(__file__)
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, url, str(repository), here, str(start)]) for start in (0, 1000)
    ]
    assert [w.wait(60) for w in writers] == [0, 0]
    entries = SqlLedgerStore(database).entries("run")
    verify_chain(entries, "north_bank", "run")
    assert len(entries) == 30
    senders = [entry.statement.key.seq >= 1000 for entry in entries]
    assert sum(senders) == 15


def test_a_killed_writer_leaves_a_whole_database(tmp_path, repository):
    url = f"sqlite:///{tmp_path}/{uuid.uuid4().hex}.db"
    here = os.path.dirname(__file__)
    writer = subprocess.Popen([sys.executable, "-c", WRITER, url, str(repository), here, "0"])
    database = Database(url)
    store = SqlLedgerStore(database)
    while len(store.entries("run")) < 3:
        assert writer.poll() is None or len(store.entries("run")) >= 3
    writer.kill()
    writer.wait()
    entries = store.entries("run")
    verify_chain(entries, "north_bank", "run")
    record(store, 5000)
    with database.read() as session:
        assert session.scalar(text("PRAGMA integrity_check")) == "ok"
        assert session.scalar(select(func.count()).select_from(LedgerEntry)) == len(entries) + 1
    database.close()
