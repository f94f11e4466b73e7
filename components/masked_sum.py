"""Secure sum by masks that cancel: the aggregator learns Σ_j v_j and tells all; it learns no v_j.

Bonawitz et al. (CCS 2017, figure 4), `crypto.secagg` in the way of `on_dropout: stop`: n of n, no shares of any seed.
The X25519 keys of an attempt are signed over run, attempt and roster; the context of a round binds run, attempt, round,
signed roster and `bound`, so parties that were shown different models have masks that do not cancel and sign different
lists. A party gives its self-mask seed only for the signatures of all over one list of masked vectors.

Adversary: semi-honest, static. The aggregator learns the totals. It learns a part only with the help of all other
data_holders; these learn it from the total anyway. An aggregator that deviates gets no total by other keys, models or
lists (nobody opens its masks), but it can announce a total that is not the sum: nothing proves it.

`masked_survivors` is the same in the way of `on_dropout: continue`.

    y_j  masked words of party j, uniform    b_j  seed of its self mask, 32 bytes
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa

from base.errors import StateError
from components.contract import Context
from components.words import WORDS, recv_words, send_words
from crypto.masks import unpack
from crypto.packing import Lanes
from crypto.secagg import Party
from crypto.secagg_public import Advert, Consent, Reveal, Terms, Total
from transport.message import Message, Protection, WireSchema

KEYS = WireSchema("masking_keys", {"party": pa.string(), "public": pa.binary(32), "signature": pa.binary(64)})
VECTORS = WireSchema("masked_vectors", {"party": pa.string(), "digest": pa.binary(32)})
AGREED = WireSchema("agreed_lists", {"party": pa.string(), "listed": pa.binary(32), "signature": pa.binary(64)})
SEED = WireSchema("self_mask", {"seed": pa.binary(32)})


def sum_messages(reveals: str) -> tuple[Message, ...]:
    """Return the rows of a message table for `Summer` and `relay`; `reveals` says what the total tells."""
    # fmt: off
    return (
        #       name       from           to             schema   protection            what it reveals
        Message("advert",  "data_holder", "aggregator",  KEYS,    Protection.PUBLIC,    "nothing: a signed public key of this attempt"),  # noqa: E501
        Message("adverts", "aggregator",  "data_holder", KEYS,    Protection.PUBLIC,    "nothing: everybody's signed public keys"),  # noqa: E501
        Message("masked",  "data_holder", "aggregator",  WORDS,   Protection.MASKED,    "the length; once all seeds are out, the total: " + reveals),  # noqa: E501
        Message("vectors", "aggregator",  "data_holder", VECTORS, Protection.PUBLIC,    "digests of the masked vectors"),  # noqa: E501
        Message("agreed",  "data_holder", "aggregator",  AGREED,  Protection.PUBLIC,    "a signature over that list"),
        Message("agreements", "aggregator", "data_holder", AGREED, Protection.PUBLIC,   "the signatures of all parties"),  # noqa: E501
        Message("seed",    "data_holder", "aggregator",  SEED,    Protection.PUBLIC,    "the party's self mask: the pairwise masks still hide its part"),  # noqa: E501
        Message("sum",     "aggregator",  "data_holder", WORDS,   Protection.AGGREGATE, reveals),
    )
    # fmt: on


class Summer:
    """A data_holder's side of the sums of one step."""

    def __init__(self, ctx: Context, paid: bool = False) -> None:
        """Show a signed key of this attempt, and take everybody's; `ConsentError` with fewer than three.

        `paid`: each attempt pays for its sums, so that it may add other values, with fresh noise, to a round again.
        """
        self._ctx, self._roster = ctx, ctx.parties("data_holder")
        self._party = meet(ctx, _terms(ctx, paid))

    def total(
        self, values: np.ndarray, lanes: Lanes, round_number: int, bound: bytes, name: str = "vector"
    ) -> np.ndarray:
        """See `secure_sum.Total`."""
        ctx, size = self._ctx, values.size
        # 1. MaskedInputCollection: one sum for each round, bound to what it is over.
        self._party.begin(round_number, bound, hashlib.sha256(name.encode()).digest(), lanes, size)
        send_words(ctx, "masked", self._party.mask(values, name=name), lanes, size, round_number)

        # 2. ConsistencyCheck: all sign the list of what the aggregator was sent.
        listed = {row["party"]: row["digest"] for row in ctx.recv("vectors").to_pylist()}
        own = self._party.agree(listed)
        ctx.send("agreed", rows(AGREED, [(ctx.party, own.listed, own.signature)]))

        # 3. Unmasking: the seed, for the signatures of all.
        seed = self._party.reveal(consents_of(ctx.recv("agreements"))).seed
        ctx.send("seed", rows(SEED, [(seed,)]))

        # 4. The total, with its own check that every mask cancelled.
        words, *_ = recv_words(ctx, "sum", expected=(lanes, size, round_number))
        return unpack(words, lanes, size, len(self._roster))


def relay(ctx: Context, rounds: Iterable[int], after: Callable[[int], None] = lambda round_number: None) -> None:
    """Add the masked vectors of `rounds` sums, take off the self masks, tell the totals, then call `after`."""
    terms, done = _terms(ctx), set[int]()
    pass_adverts(ctx, terms)
    for _ in rounds:
        # 1. One masked vector of each party, for one new round.
        total, round_number, lanes, size = _collect(ctx, terms, done)
        done.add(round_number)

        # 2.
        ctx.send("vectors", rows(VECTORS, list(total.survivors.items())))
        ctx.send("agreements", pa.concat_tables([ctx.recv("agreed", from_=party) for party in terms.roster]))

        # 3. and 4.
        seeds = {party: ctx.recv("seed", from_=party)["seed"][0].as_py() for party in terms.roster}
        words = total.open({party: Reveal(seed=seed) for party, seed in seeds.items()})
        send_words(ctx, "sum", words, lanes, size, round_number)
        after(round_number)


def _collect(ctx: Context, terms: Terms, done: set[int]) -> tuple[Total, int, Lanes, int]:
    """Return the masked total of a new round, its number and layout; `StateError` when parties differ."""
    total, first = None, None
    for party in terms.roster:
        words, lanes, size, number = recv_words(ctx, "masked", from_=party, expected=first)
        if total is None:
            total, first = Total(terms, lanes, size), (lanes, size, number)
        if number in done:
            raise StateError("the parts are not of one new round", found=f"round {number}", party=party)
        total.add(party, words)
    assert total is not None
    return total, number, lanes, size


def meet(ctx: Context, terms: Terms) -> Party:
    """Return this party in an attempt whose keys everybody has shown."""
    party = Party(terms, ctx.party, ctx.keys)
    ctx.send("advert", rows(KEYS, [(ctx.party, party.advert.public, party.advert.signature)]))
    adverts = ctx.recv("adverts").to_pylist()
    party.meet({row["party"]: Advert(row["public"], row["signature"]) for row in adverts})
    return party


def pass_adverts(ctx: Context, terms: Terms) -> None:
    """Show everybody the keys of all: the aggregator's part in `meet`."""
    ctx.send("adverts", pa.concat_tables([ctx.recv("advert", from_=party) for party in terms.roster]))


def consents_of(agreements: pa.Table) -> dict[str, Consent]:
    """Return who has signed which list."""
    return {row["party"]: Consent(row["listed"], row["signature"]) for row in agreements.to_pylist()}


def _terms(ctx: Context, paid: bool = False) -> Terms:
    counted = f"{ctx.run}/{ctx.step}" + (f"/{ctx.attempt}" if paid else "")
    return Terms(counted, ctx.attempt, ctx.parties("data_holder"))


def rows(schema: WireSchema, found: Iterable[tuple[object, ...]], **metadata: object) -> pa.Table:
    """Return the table of a message."""
    named = {name: str(value) for name, value in metadata.items()} or None
    columns = pa.schema(list(schema.columns.items()), named)
    return pa.Table.from_pylist([dict(zip(schema.columns, row, strict=True)) for row in found], columns)
