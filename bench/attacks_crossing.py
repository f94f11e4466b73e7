"""What crosses between the banks of an attack, and what the adversary, who follows every step, reads of it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from bench.attacks_data import ADVERSARY, World
from bench.parties import Lasting, run_step
from bench.sets import BANKS
from components import horizontal_ease, horizontal_ials, horizontal_slist
from components.contract import Component, Context
from components.secure_sum import open_total
from crypto.packing import Lanes
from models import ease, slist
from models.histories import Histories
from models.symmetric import Floats

ROLES = {"data_holder": BANKS, "aggregator": ("bureau",)}
OPEN = MappingProxyType({"min_raters": 1, "min_pairs": 1})  # the weakened setting: nothing is left out
PARTS: Mapping[str, tuple[Any, Component]] = {
    "ease": (horizontal_ease, horizontal_ease.COMPONENT),
    "slist": (horizontal_slist, horizontal_slist.COMPONENT),
    "ials": (horizontal_ials, horizontal_ials.COMPONENT),
}


@dataclass(frozen=True)
class Seen:
    """One total that the adversary read, and what is left of it without its own part."""

    total: Floats
    foreign: Floats


class Watched:
    """A secure sum that tells what went in and came out: (values, lanes, round, total)."""

    def __init__(self, add: Any, tell: Callable[[Any, Lanes, int, Any], None]) -> None:
        """Watch `add`, what `open_total` gives."""
        self._add, self._tell = add, tell

    def __call__(self, values: Any, lanes: Lanes, round_number: int, *more: Any) -> Any:
        """Add, and tell."""
        found = self._add(values, lanes, round_number, *more)
        self._tell(values, lanes, round_number, found)
        return found

    def __getattr__(self, name: str) -> Any:
        """Return what else a sum says of itself."""
        return getattr(self._add, name)


class Nights:
    """Steps that run one after the other, with key stores that last; the adversary follows them as it should."""

    def __init__(self, folder: Path) -> None:
        """Keep what the parties keep below `folder`."""
        self.nodes, self._runs = Lasting(folder), 0

    def run(self, kind: str, banks: Mapping[str, Histories], **params: Any) -> list[Seen]:
        """Return what the adversary read of each sum, once it has crossed; models are not computed: nobody looks."""
        module, part = PARTS[kind]
        seen, self._runs = list[Seen](), self._runs + 1

        def tell(values: Floats, lanes: Lanes, round_number: int, found: Floats) -> None:
            own = np.ldexp(lanes.quantise(values.ravel()).astype(np.float64), -lanes.fraction)
            seen.append(Seen(found.astype(np.float64), found - own))

        def watching(ctx: Context, *given: Any, **named: Any) -> Any:
            add = open_total(ctx, *given, **named)
            return Watched(add, tell) if ctx.party == ADVERSARY else add

        with ExitStack() as stack:
            for where, name, other in (
                (module, "open_total", watching), (ease, "solve", lambda G, reg: G[:0]),
                (slist, "solve", lambda G, SS, ST, reg, α: G[:0]),
                (horizontal_ials, "_alone", lambda h, Q, params, loss: Q),
            ):  # fmt: skip
                stack.enter_context(patch.object(where, name, other))
            run_step(part, ROLES, _inputs(banks), params, lasting=self.nodes, run=f"night-{self._runs}")
        return seen


class Adversary:
    """The first bank, and what it has read so far; each sum crosses once."""

    def __init__(self, world: World, nights: Nights) -> None:
        """Nothing read yet."""
        self.world, self.nights = world, nights
        self._seen = dict[tuple[str, bool], Seen]()

    def read(self, kind: str, weakened: bool) -> Seen:
        """Return the one total of EASE or SLIST, by the defaults or with nothing left out."""
        if (kind, weakened) not in self._seen:
            params = {"epoch": f"{kind}-open", **OPEN} if weakened else {"epoch": f"{kind}-default"}
            (self._seen[kind, weakened],) = self.nights.run(kind, self.world.banks, **params)
        return self._seen[kind, weakened]


@contextmanager
def adversary(world: World) -> Iterator[Adversary]:
    """Yield the adversary; the parties' stores are gone in the end."""
    with tempfile.TemporaryDirectory() as folder:
        yield Adversary(world, Nights(Path(folder)))


def _inputs(banks: Mapping[str, Histories]) -> dict[str, dict[str, Any]]:
    items = pa.table({"item_id": [f"{i:05}" for i in range(banks[ADVERSARY].items)]})
    return {
        bank: {
            "ratings": {
                "train": pa.table({"user": h.user, "item": h.item, "rating": np.ones(len(h), np.float32)}),
                "users": pa.table({"user_id": [f"{bank}{u}" for u in range(h.users)]}),
                "items": items,
            }
        }
        for bank, h in banks.items()
    }
