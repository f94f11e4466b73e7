"""The node's ledger in its database: chains that the node and its worker extend in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

from sqlalchemy import ColumnElement, func, select

from party_node.database import Database, LedgerEntry, LedgerHead
from transport.chain import Entry, Head, SignedHead
from transport.message import MessageKey
from transport.wire import Claim


class SqlLedgerStore:
    """Implements `transport.ledger_store.LedgerStore`; one writing transaction at a time, across processes."""

    def __init__(self, database: Database) -> None:
        """Keep the chains in `database`."""
        self._database = database

    def append(self, key: MessageKey, direction: str, make: Callable[[Entry | None], Entry]) -> Entry:
        """Return the entry of (key, direction), stored on first sight."""
        with self._database.write() as session:
            found = session.scalar(select(LedgerEntry).where(*_is(key, direction)))
            if found is not None:
                return Entry.from_document(found.entry)
            last = session.scalar(_chain(key.run).order_by(LedgerEntry.position.desc()).limit(1))
            entry = make(Entry.from_document(last.entry) if last else None)
            session.add(_row(entry))
            return entry

    def attach(self, key: MessageKey, direction: str, claim: Claim) -> None:
        """Keep the peer's claim beside the entry of (key, direction)."""
        with self._database.write() as session:
            row = session.scalars(select(LedgerEntry).where(*_is(key, direction))).one()
            row.entry = replace(Entry.from_document(row.entry), claim=claim).to_document()

    def entries(self, run: str) -> Sequence[Entry]:
        """Return the chain of a run in order."""
        with self._database.read() as session:
            rows = session.scalars(_chain(run).order_by(LedgerEntry.position))
            return [Entry.from_document(row.entry) for row in rows]

    def keep_head(self, signed: SignedHead) -> None:
        """Keep a signed head; a later one of the same chain and signer replaces it."""
        head = asdict(signed.head)
        with self._database.write() as session:
            session.merge(LedgerHead(**head, signer=signed.signer, signature=signed.signature))

    def heads(self, run: str) -> Sequence[SignedHead]:
        """Return the signed heads of a run."""
        with self._database.read() as session:
            rows = session.scalars(select(LedgerHead).where(LedgerHead.run == run))
            return [SignedHead(Head(r.party, r.run, r.length, r.hash), r.signer, r.signature) for r in rows]

    def traffic(self, run: str, step: str, attempt: int) -> dict[str, int]:
        """Return the bytes that this party sent (`out`) and received (`in`) in an attempt."""
        total = select(LedgerEntry.direction, func.sum(LedgerEntry.bytes)).where(
            LedgerEntry.run == run, LedgerEntry.step == step, LedgerEntry.attempt == attempt
        )
        with self._database.read() as session:
            found = {direction: int(size) for direction, size in session.execute(total.group_by(LedgerEntry.direction))}
        return {"out": found.get("out", 0), "in": found.get("in", 0)}

    def summary(self, run: str) -> list[dict[str, Any]]:
        """Return number, rows and bytes of the messages of a run by step, name, ends and protection."""
        e = LedgerEntry
        names = (e.step, e.name, e.sender, e.receiver, e.protection)
        sums = (func.count().label("messages"), func.sum(e.rows).label("rows"), func.sum(e.bytes).label("bytes"))
        query = select(*names, *sums).where(e.run == run).group_by(*names).order_by(func.min(e.position))
        with self._database.read() as session:
            return [dict(row) for row in session.execute(query).mappings()]


def _chain(run: str) -> Any:
    return select(LedgerEntry).where(LedgerEntry.run == run)


def _is(key: MessageKey, direction: str) -> list[ColumnElement[bool]]:
    parts = {**asdict(key), "direction": direction}
    return [getattr(LedgerEntry, name) == value for name, value in parts.items()]


def _row(entry: Entry) -> LedgerEntry:
    statement = entry.statement
    return LedgerEntry(
        position=entry.index,
        direction=entry.direction,
        protection=statement.protection,
        rows=statement.rows,
        bytes=statement.size,
        entry=entry.to_document(),
        **asdict(statement.key),
    )
