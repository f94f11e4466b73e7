"""The privacy budgets of a party in its node's database, and what a data-protection officer reads of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.exc import IntegrityError

from crypto.budget import UNIT, epsilon
from party_node.database import Database, PrivacyBudget
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

    def data_sets(self) -> list[str]:
        """Return the data sets that have been charged, sorted."""
        with self._database.read() as session:
            return sorted(session.scalars(select(PrivacyBudget.data_set)))

    def report(self, limits: Mapping[str, Mapping[str, Mapping[str, float]]]) -> dict[str, Any]:
        """Return by data set what was spent and what each accord allows; `limits`: accord -> data set -> limit."""
        named = {data_set for allowed in limits.values() for data_set in allowed}
        return {
            data_set: self._one(
                data_set, {a: allowed[data_set] for a, allowed in limits.items() if data_set in allowed}
            )
            for data_set in sorted({*named, *self.data_sets()})
        }

    def _one(self, data_set: str, limits: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
        _, entries = self.read(data_set)
        spent = releases(entries)
        accords = {name: {**limit, "spent": epsilon(spent, limit["delta"])} for name, limit in limits.items()}
        return {"unit": UNIT, "accords": accords, "releases": [dict(entry) for entry in entries]}
