"""Secure sum by masks that cancel, in the way of `on_dropout: continue`: who is late or gone is left out of this sum.

Bonawitz et al. (CCS 2017, figure 4) with t of n (`crypto.secagg`): keys and seeds of every round are shared among the
data_holders, sealed, by way of the aggregator; t of them open what a party that dropped has left in the sum. The
aggregator waits, in each of the four phases, until t have answered, and `wait_seconds` from the first answer on for
the others. It tells everybody everything but the sealed shares, so who was late learns the total and who is in it, and
takes part in the next round; what it sends late is known by its round and thrown away. Who is gone for good costs
`wait_seconds` in every round. The first exchange of keys needs all, and so does sum number 0, where trainings count:
counts are the same in every run, and two sums of them that differ by a party would show its own.

Adversary: as in `masked_sum`, with at most `colluders` data_holders that help the aggregator, 2t > n + colluders: of
one party either the shares of its key or those of its self mask come out, never both, since a party signs one list of
survivors a round. Against `stop` this gives up that no share of anything exists. A total is then over t parties or
more, and t − 1 of these together read the last one's part. An aggregator that says of a party in the total that it is
not can have its change twice. Two totals over the same values, one without a party, would show that party's: so a party
keeps, for all runs, of whom a sum with these values was, an accord that allows this way has every training go it, and
sum 0 is over all. After a party was late, an attempt that repeats a round may find it in time and be refused: start a
new run. Not protected: which party was late.

    t  threshold, the least with 2t > n + colluders    n  data_holders, four or more
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa

from base.errors import ConsentError, MessageRefused, StateError
from components.contract import Context
from components.masked_sum import AGREED, VECTORS, consents_of, meet, pass_adverts, rows
from components.words import Pieces, number_of, recv_words, send_words
from crypto.masks import unpack
from crypto.packing import Lanes
from crypto.secagg_public import Consent, Offer, Reveal, Terms, Total
from crypto.shamir import SHARE_BYTES, Share
from transport.message import Message, Protection, WireSchema

# One row for each peer: in an offer of whom the share is sealed for, in what is passed on whose offer it is.
OFFERS = WireSchema(
    "offers",
    {
        "party": pa.string(), "context": pa.binary(32), "public": pa.binary(32), "signature": pa.binary(64),
        "sealed": pa.binary(2 * SHARE_BYTES + 16),
    },
    ("round",),
)  # fmt: skip
SHARES = WireSchema("shares", {"party": pa.string(), "of_key": pa.bool_(), "share": pa.binary(SHARE_BYTES)}, ("round",))
_T = TypeVar("_T")


def sum_messages() -> tuple[Message, ...]:
    """Return the rows of a message table that this way needs beside those of `masked_sum`."""
    # fmt: off
    return (
        #       name      from           to             schema  protection         what it reveals
        Message("offer",  "data_holder", "aggregator",  OFFERS, Protection.PUBLIC, "nothing: a signed public key of this round, and shares sealed for the peers"),  # noqa: E501
        Message("offers", "aggregator",  "data_holder", OFFERS, Protection.PUBLIC, "everybody's keys of this round, and one share of each key and self mask: t of them open it"),  # noqa: E501
        Message("shares", "data_holder", "aggregator",  SHARES, Protection.PUBLIC, "with t of them: self masks of who is in the total, keys of who dropped; of one party never both"),  # noqa: E501
    )
    # fmt: on


def threshold(n: int, colluders: int) -> int:
    """Return t, how many parties open a sum of n."""
    return (n + colluders) // 2 + 1


class Summer:
    """A data_holder's side of the sums of one step."""

    contributed = True  # whether the own values are in the last total

    def __init__(self, ctx: Context, colluders: int, paid: bool = False) -> None:
        """Show keys as in `masked_sum`; `ConsentError` with fewer than four, or too many colluders to leave one out."""
        self._ctx = ctx
        self._party = meet(ctx, _terms(ctx, colluders, paid))

    def total(
        self, values: np.ndarray, lanes: Lanes, round_number: int, bound: bytes, name: str = "vector"
    ) -> np.ndarray:
        """See `secure_sum.Total`."""
        ctx, party, size = self._ctx, self._party, values.size
        # 1. ShareKeys: a key of this round, and its shares for the peers.
        offer = party.begin(round_number, bound, hashlib.sha256(name.encode()).digest(), lanes, size)
        assert offer is not None
        ctx.send("offer", _offered(offer, round_number))
        offers = _offers(ctx.recv("offers"), ctx.party)

        # 2. MaskedInputCollection, for who is not late already.
        if ctx.party in offers:
            send_words(ctx, "masked", party.mask(values, offers, name), lanes, size, round_number)

        # 3. ConsistencyCheck: the survivors sign the list of them.
        listed = {row["party"]: row["digest"] for row in ctx.recv("vectors").to_pylist()}
        self.contributed = ctx.party in listed
        if round_number == 0 and set(listed) != set(ctx.parties("data_holder")):
            raise ConsentError(
                "the first sum of a step is over all or nobody", expected=len(ctx.parties("data_holder")),
                found=len(listed), remedy="start a new attempt when all are there",
            )  # fmt: skip
        if self.contributed:
            own = party.agree(listed)
            ctx.send("agreed", rows(AGREED, [(ctx.party, own.listed, own.signature)]))

        # 4. Unmasking: shares, for the signatures of t.
        consents = consents_of(ctx.recv("agreements"))
        if self.contributed:
            ctx.send("shares", _shared(party.reveal(consents), round_number))

        # 5. The total, with its own check that every mask cancelled.
        words, *_ = recv_words(ctx, "sum", expected=(lanes, size, round_number))
        ctx.metric("contributors", len(listed), round_number)
        return unpack(words, lanes, size, len(listed))


def relay(
    ctx: Context, colluders: int, wait_seconds: float, rounds: Iterable[int],
    after: Callable[[int], None] = lambda round_number: None,
) -> None:  # fmt: skip
    """Be the aggregator: add what comes in time, let t of the survivors open it, tell everybody."""
    terms, last = _terms(ctx, colluders), -1
    pass_adverts(ctx, terms)
    for _ in rounds:
        last = _Round(ctx, terms, wait_seconds, last).run()
        after(last)


class _Round:
    """The aggregator in one sum."""

    def __init__(self, ctx: Context, terms: Terms, wait_seconds: float, last: int) -> None:
        """Take what belongs to a round after `last`."""
        self._ctx, self._terms, self._wait, self._last = ctx, terms, wait_seconds, last
        self._number = -1  # as the first offer says
        self._offers, self._pieces = dict[str, Offer](), dict[str, Pieces]()
        self._total: Total | None = None

    def run(self) -> int:
        """Return the round's number, when its total is out."""
        ctx, roster = self._ctx, self._terms.roster
        # 1.
        self._offers = self._gather("offer", roster, self._offer)
        for party in roster:
            ctx.send("offers", self._sealed_for(party), party)

        # 2.
        layouts = self._gather("masked", tuple(self._offers), self._vector)
        lanes, size = next(iter(layouts.values()))
        total = self._begun(lanes, size)
        ctx.send("vectors", rows(VECTORS, total.survivors.items()))

        # 3.
        consents = self._gather("agreed", tuple(total.survivors), self._consent)
        signed = [(party, consent.listed, consent.signature) for party, consent in consents.items()]
        ctx.send("agreements", rows(AGREED, signed))

        # 4. and 5.
        words = total.open(self._gather("shares", tuple(consents), self._reveal))
        send_words(ctx, "sum", words, lanes, size, self._number)
        return self._number

    def _gather(self, name: str, parties: Sequence[str], take: Callable[[str, pa.Table], _T | None]) -> dict[str, _T]:
        """Return what `take` makes of one message of t parties or more, in sum 0 of all; else `DeadlinePassed`.

        `take` returns None for what does not count: a piece, or a message of an earlier round.
        """
        found, missing, until = dict[str, _T](), sorted(parties), 0.0
        while missing:
            enough = self._number > 0 and len(found) >= self._terms.t
            come = self._ctx.recv_any(name, missing, max(0.0, until - time.monotonic()) if enough else None)
            if come is None:
                break
            party, table = come
            if (taken := take(party, table)) is not None:
                until = until or time.monotonic() + self._wait
                found[party] = taken
                missing.remove(party)
        return {party: found[party] for party in sorted(found)}

    def _offer(self, party: str, table: pa.Table) -> Offer | None:
        number = number_of(table)
        if number <= self._last:
            return None
        self._number = number if self._number < 0 else self._number
        self._require_now(number, party)
        found = table.to_pylist()
        sealed = {row["party"]: row["sealed"] for row in found}
        if len(found) != len(sealed) or {*sealed, party} != set(self._terms.roster):
            raise MessageRefused("an offer is not for the peers of its party", found=len(found), party=party)
        return Offer(found[0]["context"], found[0]["public"], found[0]["signature"], sealed)

    def _sealed_for(self, party: str) -> pa.Table:
        """Return the offers as `party` gets them; none when its own came too late."""
        offers = self._offers if party in self._offers else {}
        empty = bytes(2 * SHARE_BYTES + 16)  # in the place of its own
        found = [(u, o.context, o.public, o.signature, o.sealed.get(party, empty)) for u, o in offers.items()]
        return rows(OFFERS, found, round=self._number)

    def _vector(self, party: str, table: pa.Table) -> tuple[Lanes, int] | None:
        if (number := number_of(table)) <= self._last:
            return None
        self._require_now(number, party)
        pieces = self._pieces.setdefault(party, Pieces(self._ctx, "masked"))
        pieces.add(table)
        if not pieces.whole:
            return None
        words, lanes, size, _ = self._pieces.pop(party).vector()
        self._begun(lanes, size).add(party, words)
        return lanes, size

    def _begun(self, lanes: Lanes, size: int) -> Total:
        if self._total is None:
            self._total = Total(self._terms, lanes, size, self._offers)
        return self._total

    def _consent(self, party: str, table: pa.Table) -> Consent | None:
        """Return the consent to the list of this round: there is one, for all hold offers of one context."""
        consent = consents_of(table).get(party)
        return consent if consent and self._total and consent.listed == self._total.listed else None

    def _reveal(self, party: str, table: pa.Table) -> Reveal | None:
        if (number := number_of(table)) <= self._last:
            return None
        self._require_now(number, party)
        shares = [(row["of_key"], row["party"], Share.from_bytes(row["share"])) for row in table.to_pylist()]
        of_self, of_key = ({u: one for kind, u, one in shares if kind == which} for which in (False, True))
        return Reveal(b"", of_self, of_key)

    def _require_now(self, number: int, party: str) -> None:
        if number != self._number:
            raise StateError(
                "the parts are not of one new round", expected=f"round {self._number}", found=f"round {number}",
                party=party,
            )  # fmt: skip


def _terms(ctx: Context, colluders: int, paid: bool = False) -> Terms:
    roster = ctx.parties("data_holder")
    counted = f"{ctx.run}/{ctx.step}" + (f"/{ctx.attempt}" if paid else "")
    return Terms(counted, ctx.attempt, roster, threshold(len(roster), colluders), colluders)


def _offered(offer: Offer, round_number: int) -> pa.Table:
    found = [(peer, offer.context, offer.public, offer.signature, sealed) for peer, sealed in offer.sealed.items()]
    return rows(OFFERS, found, round=round_number)


def _offers(table: pa.Table, party: str) -> Mapping[str, Offer]:
    return {
        row["party"]: Offer(row["context"], row["public"], row["signature"], {party: row["sealed"]})
        for row in table.to_pylist()
    }


def _shared(reveal: Reveal, round_number: int) -> pa.Table:
    kinds = ((False, reveal.self_shares), (True, reveal.key_shares))
    found = [(party, of_key, one.to_bytes()) for of_key, shares in kinds for party, one in shares.items()]
    return rows(SHARES, found, round=round_number)
