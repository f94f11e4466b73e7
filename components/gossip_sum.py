"""Secure sum without an aggregator: masks that cancel among neighbours, then push-sum between neighbourhoods.

The data_holders, sorted by name, form neighbourhoods of three to five. In a round

    1. neighbours send each other masked vectors, all sign the list of them, all give their self masks (`crypto.secagg`
       in the way of `on_dropout: stop`, every neighbour in the aggregator's place): each has the neighbourhood's sum
    2. its first three members each take a third of that sum to the same member of the other neighbourhoods, by push-sum
       (Kempe, Dobra and Gehrke 2003; `models.push_sum`), and tell their neighbours the total of their third
    3. everybody compares a digest of the total with everybody

Exact: sums are integers, and the public schedule of push-sum is long enough to bring every node within half a unit of
the integer sum; so all hold the total that an aggregator would have, to the last bit, and step 3 proves it of each run.
One neighbourhood (three to five parties) needs no step 2.

Adversary: semi-honest, static. A neighbour reads a part with the help of all others of the neighbourhood but that
party: with three, of one. (A neighbour is an aggregator of `crypto.secagg` with one party, or more, on its side; what
it deviates in makes lists differ, and nobody gives a self mask. Nobody announces a sum of neighbours: each adds it up
from the vectors that all have signed, so until all have committed to theirs, nobody knows anything to choose by. Who
keeps back its own self mask has the sum and leaves the others without: a later attempt may only repeat it.)
A member of another neighbourhood reads sums over whole neighbourhoods, or mixtures of them, and no part. So in place
of one total over all, totals over three to five are known: neighbourhoods follow from the roster's names and do not
change, else differences would show more. Who pushes another share than it holds changes the total as if its own part
were another; nothing proves that it does not.

    q  sum over a neighbourhood, integers of the lanes (size,)     T  sum over all (size,)     K  neighbourhoods
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from base.errors import CryptoError, StateError
from components.contract import Context
from components.gossip_shares import SHARES, add_along
from components.masked_sum import AGREED, KEYS, SEED, rows
from components.words import WORDS, recv_words, send_words
from crypto.masks import pack, unpack
from crypto.packing import Lanes
from crypto.secagg import Party
from crypto.secagg_public import MIN_PARTIES, Advert, Consent, Reveal, Terms, Total, sha
from transport.message import Message, Protection, WireSchema

HELD = WireSchema("held", {"digest": pa.binary(32)})


def sum_messages(reveals: str) -> tuple[Message, ...]:
    """Return the rows of a message table for `Summer`; `reveals` says what a total tells."""
    # fmt: off
    return (
        #       name         from           to             schema  protection            what it reveals
        Message("key",       "data_holder", "data_holder", KEYS,   Protection.PUBLIC,    "nothing: a signed public key of this attempt"),  # noqa: E501
        Message("hidden",    "data_holder", "data_holder", WORDS,  Protection.MASKED,    "the length; once all neighbours' seeds are out, the sum over the neighbourhood: " + reveals),  # noqa: E501
        Message("list",      "data_holder", "data_holder", AGREED, Protection.PUBLIC,    "a signature over the neighbours' vectors"),  # noqa: E501
        Message("self_mask", "data_holder", "data_holder", SEED,   Protection.PUBLIC,    "the party's self mask: the pairwise masks still hide its part"),  # noqa: E501
        Message("share",     "data_holder", "data_holder", SHARES, Protection.AGGREGATE, "the sum over another neighbourhood of three to five, or a mixture of such sums: " + reveals),  # noqa: E501
        Message("third",     "data_holder", "data_holder", WORDS,  Protection.AGGREGATE, reveals),
        Message("held",      "data_holder", "data_holder", HELD,   Protection.PUBLIC,    "a digest of the total, which the receiver has"),  # noqa: E501
    )
    # fmt: on


def neighbourhoods(roster: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Return the parties in neighbourhoods of three to five that differ in size by one at most."""
    parts = np.array_split(np.array(roster), max(1, len(roster) // MIN_PARTIES))
    return tuple(tuple(map(str, part)) for part in parts)


class Summer:
    """A data_holder's side of the sums of one step: there is no other."""

    def __init__(self, ctx: Context, paid: bool = False) -> None:
        """Show neighbours a signed key of this attempt, and take theirs; `ConsentError` with fewer than three.

        `paid`: as in `masked_sum`.
        """
        self._ctx, self._roster = ctx, ctx.parties("data_holder")
        self._all = neighbourhoods(self._roster)
        self._home = next(n for n, members in enumerate(self._all) if ctx.party in members)
        counted = f"{ctx.run}/{ctx.step}" + (f"/{ctx.attempt}" if paid else "")
        self._terms = Terms(counted, ctx.attempt, self._all[self._home])
        self._party = Party(self._terms, ctx.party, ctx.keys)
        self._peers = tuple(party for party in self._terms.roster if party != ctx.party)
        self._to: tuple[str | None, ...] = (None,) if len(self._all) == 1 else self._peers  # None: all at once
        own = self._party.advert
        self._tell("key", rows(KEYS, [(ctx.party, own.public, own.signature)]))
        shown = {peer: ctx.recv("key", from_=peer).to_pylist()[0] for peer in self._peers}
        adverts = {peer: Advert(row["public"], row["signature"]) for peer, row in shown.items()}
        self._party.meet({ctx.party: own, **adverts})

    def total(
        self, values: np.ndarray, lanes: Lanes, round_number: int, bound: bytes, name: str = "vector"
    ) -> np.ndarray:
        """See `secure_sum.Total`."""
        if lanes.summands < len(self._roster):
            raise StateError("lanes too short for a sum over all", expected=len(self._roster), found=lanes.summands)
        # What must be alike at all, not among neighbours alone.
        ctx, about = self._ctx, (round_number, lanes, values.size, name)
        context = sha(self._terms.run.encode(), repr((ctx.attempt, *about, self._roster)).encode(), bound)

        # 1. The sum over the neighbourhood.
        q = self._add(values, lanes, round_number, bound, name)

        # 2. The sum over all, from three members that each take a part of it to the other neighbourhoods.
        T = q if len(self._all) == 1 else self._gather(q, lanes, round_number, context)

        # 3. The same at all.
        self._compare(sha(context, np.ascontiguousarray(T, "<i8").tobytes()))
        return np.ldexp(T.astype(np.float64), -lanes.fraction) if lanes.fraction else T

    def _add(self, values: np.ndarray, lanes: Lanes, round_number: int, bound: bytes, name: str) -> np.ndarray:
        """Return q (size,), int64: the vectors of all neighbours, as all of them signed them, without masks."""
        ctx, size, total = self._ctx, values.size, Total(self._terms, lanes, values.size)
        about = sha(name.encode(), *(party.encode() for party in self._roster))
        self._party.begin(round_number, bound, about, lanes, size)
        own = self._party.mask(values, name=name)
        for receiver in self._to:
            send_words(ctx, "hidden", own, lanes, size, round_number, receiver)
        total.add(ctx.party, own)
        for peer in self._peers:
            words, *_ = recv_words(ctx, "hidden", peer, (lanes, size, round_number))
            total.add(peer, words)

        consent = self._party.agree(total.survivors)
        self._tell("list", rows(AGREED, [(ctx.party, consent.listed, consent.signature)]))
        signed = {peer: ctx.recv("list", from_=peer).to_pylist()[0] for peer in self._peers}
        consents = {peer: Consent(row["listed"], row["signature"]) for peer, row in signed.items()}

        reveal = self._party.reveal({ctx.party: consent, **consents})
        self._tell("self_mask", rows(SEED, [(reveal.seed,)]))
        seeds = {peer: Reveal(seed=ctx.recv("self_mask", from_=peer)["seed"][0].as_py()) for peer in self._peers}
        words = total.open({ctx.party: reveal, **seeds})
        return unpack(words, replace(lanes, fraction=0), size, len(self._terms.roster))

    def _gather(self, q: np.ndarray, lanes: Lanes, round_number: int, context: bytes) -> np.ndarray:
        """Return T (size,), int64: an own third by push-sum, the others from the neighbours who did the same."""
        parts = np.array_split(q, min(MIN_PARTIES, q.size))
        takers = dict(zip(self._terms.roster, range(len(parts)), strict=False))
        layout = Lanes(lanes.lane)  # a total fits a lane, and fills it
        if (mine := takers.get(self._ctx.party)) is not None:
            line = tuple(members[mine] for members in self._all)
            rng = self._ctx.shared_rng(f"neighbours of round {round_number}")
            parts[mine] = add_along(self._ctx, line, rng, parts[mine], lanes.lane, context)
            words = pack(parts[mine], layout, "a total over all parties")
            for peer in self._peers:
                send_words(self._ctx, "third", words, layout, parts[mine].size, round_number, peer)
        for peer, part in takers.items():
            if peer != self._ctx.party:
                size = parts[part].size
                words, *_ = recv_words(self._ctx, "third", peer, (layout, size, round_number))
                parts[part] = unpack(words, layout, size, 1)
        return np.concatenate(parts)

    def _compare(self, digest: bytes) -> None:
        """Raise `CryptoError` unless all data_holders hold the same total."""
        self._ctx.send("held", rows(HELD, [(digest,)]))
        peers = [party for party in self._roster if party != self._ctx.party]
        others = {party: self._ctx.recv("held", from_=party)["digest"][0].as_py() for party in peers}
        if differing := [party for party, other in others.items() if other != digest]:
            raise CryptoError(
                "the parties hold different totals", expected="one total", found=f"another at {', '.join(differing)}",
                remedy="a share was changed, or two parties sum over something else: start a new attempt",
            )  # fmt: skip

    def _tell(self, name: str, table: pa.Table) -> None:
        for receiver in self._to:
            self._ctx.send(name, table, receiver)
