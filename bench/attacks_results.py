"""How far attacks got, by seed, and their summary over seeds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from bench.attacks_crossing import Adversary
from bench.attacks_data import Found
from bench.attacks_table import ATTACKS

FIGURES = ("weakened", "default", "chance")


class Results:
    """Each attack runs when it is first asked for; `document` is what the JSON file holds of all."""

    def __init__(self, adversaries: Sequence[Adversary]) -> None:
        """Nothing yet; one adversary a seed."""
        self._adversaries = adversaries
        self.origin, self.seeds = adversaries[0].world.origin, [a.world.seed for a in adversaries]
        self.people = sum(h.users for h in adversaries[0].world.banks.values())
        self.found = dict[str, list[Found]]()
        self.document: dict[str, Any] = {"data": self.origin, "seeds": self.seeds, "people": self.people, "found": {}}

    def mean(self, name: str, figure: str) -> float:
        """Return one of `FIGURES` of an attack, as the mean over seeds."""
        return self.spread(name, figure)[0]

    def spread(self, name: str, figure: str) -> tuple[float, float]:
        """Return mean and deviation over seeds."""
        values = [asdict(found)[figure] for found in self._run(name)]
        return statistics.mean(values), statistics.stdev(values) if len(values) > 1 else 0.0

    def _run(self, name: str) -> list[Found]:
        if name not in self.found:
            attack = ATTACKS[name]
            self.found[name] = [attack.run(a) for a in self._adversaries]
            self.document["found"][name] = {
                "counts": attack.unit, "weakened setting": attack.weakened, "default setting": attack.default,
                **{f: dict(zip(("mean", "deviation"), self.spread(name, f), strict=True)) for f in FIGURES},
                "by seed": {str(seed): asdict(found) for seed, found in zip(self.seeds, self.found[name], strict=True)},
            }  # fmt: skip
        return self.found[name]
