"""The node's database: runs, attempts, idempotency keys, approvals, privacy budgets, nonces and the ledger.

SQLite in write-ahead mode by default; any SQLAlchemy URL works (PostgreSQL is tested when ACCORD_TEST_POSTGRES is set).
The node and its worker process write at the same time, so a writing transaction takes its lock at the beginning:
a reader that turns into a writer would otherwise fail in SQLite.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from sqlalchemy import JSON, BigInteger, Connection, Engine, String, Text, UniqueConstraint, create_engine, event
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

NAME, DIGEST = String(128), String(64)


def job_name(run: str, step: str, attempt: int) -> str:
    """Return the name of a job, the same at all parties."""
    return f"{run}/{step}/{attempt}"


class Table(DeclarativeBase):
    """Base of the tables; JSON documents are stored as JSON."""

    type_annotation_map = {dict[str, Any]: JSON, list[Any]: JSON}


class Run(Table):
    """One execution of a pipeline as this party has accepted it."""

    __tablename__ = "runs"
    run: Mapped[str] = mapped_column(NAME, primary_key=True)
    run_key: Mapped[str | None] = mapped_column(String(512), unique=True)  # at the initiator: dag/run
    pipeline: Mapped[str] = mapped_column(NAME)
    accord: Mapped[str] = mapped_column(NAME)
    accord_digest: Mapped[str] = mapped_column(DIGEST)
    template: Mapped[str] = mapped_column(DIGEST)
    text: Mapped[str] = mapped_column(Text)  # of the pipeline, as first submitted: retries run this, not today's file
    file: Mapped[str] = mapped_column(String(512))
    seed: Mapped[int] = mapped_column(BigInteger)
    initiator: Mapped[str] = mapped_column(NAME)
    salt: Mapped[str] = mapped_column(DIGEST)  # of this party's snapshot commitment
    state: Mapped[str] = mapped_column(String(16))  # preparing, open, closed, failed
    plan: Mapped[dict[str, Any] | None]
    signatures: Mapped[dict[str, Any] | None]
    error: Mapped[dict[str, Any] | None]
    created: Mapped[float]


class Attempt(Table):
    """The part of this party in one attempt at a step."""

    __tablename__ = "attempts"
    run: Mapped[str] = mapped_column(NAME, primary_key=True)
    step: Mapped[str] = mapped_column(NAME, primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True)
    state: Mapped[str] = mapped_column(String(16))  # reserved, running, succeeded, failed, cancelled
    created: Mapped[float]
    started: Mapped[float | None]
    ended: Mapped[float | None]
    progress: Mapped[dict[str, Any] | None]
    rows: Mapped[int | None] = mapped_column(BigInteger)
    outputs: Mapped[dict[str, Any] | None]
    metrics: Mapped[dict[str, Any] | None]
    tracking: Mapped[str | None] = mapped_column(NAME)  # MLflow run
    error: Mapped[dict[str, Any] | None]


class Job(Table):
    """One attempt at a step as its initiator drives it: one unit, it succeeds or fails at all parties."""

    __tablename__ = "jobs"
    run: Mapped[str] = mapped_column(NAME, primary_key=True)
    step: Mapped[str] = mapped_column(NAME, primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(String(512))  # of the task that holds the job now
    state: Mapped[str] = mapped_column(String(16))  # queued, running, succeeded, failed, cancelled
    deadline: Mapped[float]  # seconds for the whole attempt
    watched: Mapped[float]  # when a client last asked, in seconds since 1970
    created: Mapped[float]
    ended: Mapped[float | None]
    parties: Mapped[dict[str, Any]]  # last known state of every party
    error: Mapped[dict[str, Any] | None]

    @property
    def name(self) -> str:
        """Name of the job, as clients know it."""
        return job_name(self.run, self.step, self.attempt)


class Key(Table):
    """An idempotency key (dag/run/step/try) and the job that it got."""

    __tablename__ = "keys"
    key: Mapped[str] = mapped_column(String(512), primary_key=True)
    run: Mapped[str] = mapped_column(NAME)
    step: Mapped[str] = mapped_column(NAME)
    attempt: Mapped[int]


class Approval(Table):
    """A person's approval of a template at this party."""

    __tablename__ = "approvals"
    template: Mapped[str] = mapped_column(DIGEST, primary_key=True)
    pipeline: Mapped[str] = mapped_column(NAME)
    approver: Mapped[str] = mapped_column(String(256))
    created: Mapped[float]


class PrivacyBudget(Table):
    """What a data set of this party has spent of its privacy, over all accords (runtime/spending.py)."""

    __tablename__ = "budgets"
    data_set: Mapped[str] = mapped_column(NAME, primary_key=True)
    version: Mapped[int]  # of the row: of two that charge at a time, the later one reads again
    charges: Mapped[list[Any]]


class Nonce(Table):
    """A token's nonce that has been used; kept until the token would be too old anyway, across restarts."""

    __tablename__ = "nonces"
    party: Mapped[str] = mapped_column(NAME, primary_key=True)  # who signed the token
    nonce: Mapped[str] = mapped_column(DIGEST, primary_key=True)
    expires: Mapped[int] = mapped_column(BigInteger, index=True)


class LedgerEntry(Table):
    """One entry of the hash chain of (this party, run); sums over messages read the columns, proofs the document."""

    __tablename__ = "ledger"
    run: Mapped[str] = mapped_column(NAME, primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    direction: Mapped[str] = mapped_column(String(3))
    step: Mapped[str] = mapped_column(NAME)
    attempt: Mapped[int]
    name: Mapped[str] = mapped_column(NAME)
    sender: Mapped[str] = mapped_column(NAME)
    receiver: Mapped[str] = mapped_column(NAME)
    seq: Mapped[int]
    protection: Mapped[str] = mapped_column(String(32))
    rows: Mapped[int] = mapped_column(BigInteger)
    bytes: Mapped[int] = mapped_column(BigInteger)
    entry: Mapped[dict[str, Any]]
    __table_args__ = (UniqueConstraint("run", "step", "attempt", "name", "sender", "receiver", "seq", "direction"),)


class LedgerHead(Table):
    """A party's signature under another party's head of a run."""

    __tablename__ = "heads"
    run: Mapped[str] = mapped_column(NAME, primary_key=True)
    party: Mapped[str] = mapped_column(NAME, primary_key=True)  # whose chain
    signer: Mapped[str] = mapped_column(NAME, primary_key=True)
    length: Mapped[int]
    hash: Mapped[str] = mapped_column(DIGEST)
    signature: Mapped[str] = mapped_column(NAME)


class Database:
    """Opens transactions on one node's database."""

    def __init__(self, url: str) -> None:
        """Connect to `url` and make the tables that are missing."""
        self.engine = _engine(url)
        Table.metadata.create_all(self.engine)

    @contextmanager
    def write(self, *, durable: bool = False) -> Iterator[Session]:
        """Open a transaction that may write; committed at the end, rolled back by an exception.

        `durable`: it outlasts a loss of power too, at the price of a wait for the disk.
        """
        with self.engine.connect().execution_options(accord_write=True) as connection:
            with _synchronous(connection) if durable else nullcontext():
                with Session(connection, expire_on_commit=False) as session, session.begin():
                    yield session

    @contextmanager
    def read(self) -> Iterator[Session]:
        """Open a transaction that reads one state of the database."""
        with Session(self.engine, expire_on_commit=False) as session:
            yield session

    def update(self, table: type[Table], key: object, **values: Any) -> None:
        """Change columns of the row of a primary key; the row must be there."""
        with self.write() as session:
            row = session.get_one(table, key)
            for name, value in values.items():
                setattr(row, name, value)

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


@contextmanager
def _synchronous(connection: Connection) -> Iterator[None]:
    """Let SQLite wait for the disk at each commit; PostgreSQL does by itself."""
    if connection.dialect.name != "sqlite":
        yield
        return
    driver = connection.connection
    driver.cursor().execute("PRAGMA synchronous=FULL")
    try:
        yield
    finally:
        driver.cursor().execute("PRAGMA synchronous=NORMAL")


def _engine(url: str) -> Engine:
    if not url.startswith("sqlite"):
        return create_engine(url, pool_pre_ping=True)
    engine = create_engine(url, connect_args={"timeout": 30})

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # the driver would begin late and unasked
        for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "busy_timeout=30000"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Any) -> None:
        immediate = connection.get_execution_options().get("accord_write")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")

    return engine
