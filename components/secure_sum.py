"""Sums over all data_holders, protected as the step's parameter `protection` says: the one way to add across parties.

    secagg    masks that cancel (`masked_sum`): the aggregator learns the total and tells it to all; cheapest
    paillier  ciphertexts (`paillier_sum`): the aggregator learns nothing, and with one data_holder's help everything
    plain     in the clear (`clear_sum`): the aggregator reads every part. For measuring; an accord has to name it

With `topology: gossip` nobody aggregates (`gossip_sum`): the data_holders add among themselves, under masks; sums over
neighbourhoods of three to five parties are then known beside the total.

With `on_dropout: continue` a sum under masks goes on without who is late or gone (`masked_survivors`).

All add the same fixed-point integers, so they give the same total to the last bit. The accord names the protections and
topologies that it allows; a step's door admits the messages of its own parameters alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Literal, Protocol, Self

import numpy as np
from annotated_types import Ge, Gt, Le
from pydantic import model_validator

from components import clear_sum, gossip_sum, masked_sum, masked_survivors, paillier_sum
from components.contract import Context, Outputs, Params
from components.declared import without
from crypto.packing import Lanes
from crypto.secagg_public import MIN_PARTIES as MIN_PARTIES
from transport.message import Message

ADVERSARY = (
    "Semi-honest, static. secagg: the aggregator reads the totals and no part, unless all data_holders but one help.\n"
    "paillier: the aggregator with one data_holder reads every part. plain: the aggregator reads every part.\n"
    "All data_holders but one together read the last one's part: it is what their own leave of the total.\n"
    "topology gossip: all read sums over neighbourhoods of three to five; all neighbours but one read the last one's.\n"
    "on_dropout continue: as secagg with at most `colluders` that help; a total may be over a threshold of parties.\n"
)


class SumParams(Params):
    """How sums are protected."""

    protection: Literal["secagg", "paillier", "plain"] = "secagg"  # plain: measuring, where the accord names it
    topology: Annotated[Literal["aggregator", "gossip"], without(gossip="aggregator")] = "aggregator"  # gossip: secagg
    key_bits: Annotated[int, Ge(2048)] = 3072  # of a Paillier modulus: 2048, 3072 or 4096
    on_dropout: Literal["stop", "continue"] = "stop"  # continue: secagg with an aggregator, four data_holders or more
    wait_seconds: Annotated[float, Gt(0), Le(86400)] = 60.0  # continue: for who is not among the first, in each phase
    colluders: Annotated[int, Ge(0)] = 1  # continue: data_holders that may help the aggregator

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.on_dropout == "continue" and (self.protection, self.topology) != ("secagg", "aggregator"):
            raise ValueError("on_dropout: continue needs protection: secagg and topology: aggregator")
        return self


class Total(Protocol):
    """Adds over the parties."""

    def __call__(
        self, values: np.ndarray, lanes: Lanes, round_number: int, bound: bytes, name: str = "vector"
    ) -> np.ndarray:
        """Return Σ_j values_j, flat, the same at every data_holder; of those in time under `on_dropout: continue`.

        `bound`: digest (32 bytes) of what the round depends on (the model received, the selection of rows), the same
        at every party. Raises `StateError` for a second sum of a round, `SpecMismatch` when parties disagree on what
        the sum is over (`plain` compares nothing), `CryptoError` for values outside the lanes (see `Lanes.clip`).
        """


class OpenTotal(Total, Protocol):
    """What `open_total` gives."""

    @property
    def contributed(self) -> bool:
        """Whether the own values are in the last total; False for who was late under `on_dropout: continue`."""


def sum_messages(reveals: str) -> tuple[Message, ...]:
    """Return the rows of a message table for `open_total` and `relay`; `reveals` says what a total tells."""
    tables = [(("protection", name), part.sum_messages(reveals)) for name, part in _PARTS.items()]
    tables.append((("topology", "gossip"), gossip_sum.sum_messages(reveals)))
    tables.append((("on_dropout", "continue"), masked_survivors.sum_messages()))
    messages = (replace(message, only_if=(needed,)) for needed, table in tables for message in table)
    stop = ("on_dropout", "stop")
    return tuple(replace(message, and_if=stop) if message.name == "seed" else message for message in messages)


def open_total(ctx: Context, params: SumParams, paid: bool = False) -> OpenTotal:
    """Agree on this attempt's keys, and return what adds; `ConsentError` with fewer than three data_holders.

    `paid`: sums have noise that every attempt pays for anew (`private_sum`); else a further attempt may only repeat.
    """
    return _Adder(_summer(ctx, params, paid))


def fewest(ctx: Context, params: SumParams) -> int:
    """Return how many data_holders, at least, are behind a sum that somebody reads."""
    roster = ctx.parties("data_holder")
    if params.topology == "gossip":
        return min(map(len, gossip_sum.neighbourhoods(roster)))
    return len(roster) if params.on_dropout == "stop" else masked_survivors.threshold(len(roster), params.colluders)


def relay(
    ctx: Context, params: SumParams, rounds: Iterable[int], after: Callable[[int], None] = lambda round_number: None
) -> None:
    """Be the aggregator of a sum for each of `rounds`; `after` is called with a round's number when its total is out.

    The next of `rounds` is asked for when the one before is through.
    """
    if params.on_dropout == "continue":
        masked_survivors.relay(ctx, params.colluders, params.wait_seconds, rounds, after)
    else:
        _PARTS[params.protection].relay(ctx, rounds, after)


def add_once(ctx: Context, params: SumParams) -> Outputs:
    """Be the aggregator of a step that sums once; it ends with nothing."""
    relay(ctx, params, range(1))
    return {}


_Summer = masked_sum.Summer | masked_survivors.Summer | paillier_sum.Summer | clear_sum.Summer | gossip_sum.Summer


def _summer(ctx: Context, params: SumParams, paid: bool) -> _Summer:
    if params.topology == "gossip":
        return gossip_sum.Summer(ctx, paid)
    if params.on_dropout == "continue":
        return masked_survivors.Summer(ctx, params.colluders, paid)
    if params.protection == "paillier":
        return paillier_sum.Summer(ctx, params.key_bits, paid)
    return masked_sum.Summer(ctx, paid) if params.protection == "secagg" else clear_sum.Summer(ctx)


@dataclass(frozen=True)
class _Adder:
    """An `OpenTotal`."""

    summer: _Summer

    @property
    def contributed(self) -> bool:
        return not isinstance(self.summer, masked_survivors.Summer) or self.summer.contributed

    def __call__(
        self, values: np.ndarray, lanes: Lanes, round_number: int, bound: bytes, name: str = "vector"
    ) -> np.ndarray:
        return self.summer.total(values, lanes, round_number, bound, name)


_PARTS = {"secagg": masked_sum, "paillier": paillier_sum, "plain": clear_sum}
