"""The privacy budgets of a party in its node's database, and what a data-protection officer reads of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.exc import IntegrityError

from crypto.budget import UNIT, epsilon
from party_node.database import Database, PrivacyBudget
from pipelines.accord import read_accord
from runtime.party import Home
from runtime.spending import Entry, releases


class SqlBudgets:
    """Implements `runtime.spending.BudgetStore`: the node and its workers charge at the same time."""

    def __init__(self, database: Database) -> None:
        """Keep budgets in `database`."""
        self._database = database

    def read(self, data_set: str) -> tuple[int, list[Entry]]:
        """Return version and charges of a data set."""
        with self._database.read() as session:
            row = session.get(PrivacyBudget, data_set)
            return (row.version, row.charges) if row else (0, [])

    def swap(self, data_set: str, version: int, entries: list[Entry]) -> bool:
        """Store the charges if nobody has charged since `version`; they are on the disk when this returns."""
        row = {"version": version + 1, "charges": entries}
        try:
            with self._database.write(durable=True) as session:
                if version == 0:
                    session.add(PrivacyBudget(data_set=data_set, **row))
                    return True
                mine = PrivacyBudget.data_set == data_set, PrivacyBudget.version == version
                changed: Any = session.execute(update(PrivacyBudget).where(*mine).values(row))
                return bool(changed.rowcount == 1)
        except IntegrityError:  # somebody else's was the first
            return False


def limits_of(home: Home) -> dict[str, Mapping[str, Mapping[str, float]]]:
    """Return by accord that the party keeps what it lets each data set spend."""
    kept = [read_accord(path).terms for path in sorted(home.path("accords").glob("*.json"))]
    return {terms.accord: terms.model_dump(mode="json")["privacy"] for terms in kept}


def report(database: Database, limits: Mapping[str, Mapping[str, Mapping[str, float]]]) -> dict[str, Any]:
    """Return by data set what was spent and for what, and what each accord allows; `limits` as of `limits_of`."""
    with database.read() as session:
        charges = {row.data_set: row.charges for row in session.scalars(select(PrivacyBudget))}
    named = {data_set for allowed in limits.values() for data_set in allowed}
    return {name: _one(name, charges.get(name, []), limits) for name in sorted(named | set(charges))}


def _one(name: str, entries: list[Entry], limits: Mapping[str, Mapping[str, Mapping[str, float]]]) -> dict[str, Any]:
    spent, allowed = releases(entries), {a: limit[name] for a, limit in limits.items() if name in limit}
    accords = {a: {**limit, "spent": epsilon(spent, limit["delta"])} for a, limit in allowed.items()}
    return {"unit": UNIT, "accords": accords, "releases": [dict(entry) for entry in entries]}
