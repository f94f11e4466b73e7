"""Attacks on sums and on rounds of training, each on a weakened setting, where it succeeds, and on the default.

The same functions are tests on smaller data (`tests/attacks`). A row's *ours* is how far the attack gets against the
default, *theirs* how far it gets against the weakened setting, both as means over seeds; a target bounds their ratio.
Without a target the figure is stated, not defended. A seed draws who banks where, starts, and samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from bench.attacks_crossing import adversary
from bench.attacks_data import World, world
from bench.attacks_page import page, tables
from bench.attacks_results import Results
from bench.attacks_table import ATTACKS
from bench.frame import Case, Suite, Unmeasured

SEEDS = (1, 2, 3)


@contextmanager
def cases(seed: Sequence[int] = SEEDS, fast: bool = False) -> Iterator[Suite]:
    """Yield a case for each attack; `fast`: one seed, and fewer people and items."""
    with ExitStack() as stack:
        worlds = [_small(world(seed[0]))] if fast else [world(each) for each in seed]
        results = Results([stack.enter_context(adversary(each)) for each in worlds])
        yield Suite(
            [_case(results, name) for name in ATTACKS], {"attacks": results.document}, [_about(worlds[0])],
            tables=lambda _: tables(results), page=lambda rows: page(results, rows),
        )  # fmt: skip


def _small(found: World) -> World:
    return found.smaller(150, 500)


def _about(found: World) -> str:
    return f"{found.origin}: {sum(h.users for h in found.banks.values())} people, {found.items} items, three banks"


def _case(results: Results, name: str) -> Case:
    attack = ATTACKS[name]
    target = None if attack.most is None else f"<= {attack.most:g}"
    return Case(
        name, "weakened", attack.unit, lambda: results.mean(name, "default"), lambda: _succeeds(results, name),
        target, once=True, size=attack.size,
    )  # fmt: skip


def _succeeds(results: Results, name: str) -> float:
    """Return how far an attack gets on the weakened setting; `Unmeasured` where it gets nowhere: nothing is shown."""
    found = results.mean(name, "weakened")
    if not found:
        raise Unmeasured("the attack has no teeth on these data")
    return found
