"""Secure aggregation: Σ_u x_u of three to fifty parties, by masks that cancel; the aggregator holds no key.

Bonawitz et al., "Practical Secure Aggregation for Privacy-Preserving Machine Learning", CCS 2017, figure 4, with its
names of the rounds at the methods below. This file is a party of one attempt; `secagg_public` is the aggregator.

    y_u = x_u + PRG(b_u) + Σ_{v<u} PRG(s_uv) − Σ_{v>u} PRG(s_uv)   modulo 2^64, word by word (`masks`)

    c_u   X25519 key of the attempt, signed over (run, attempt, roster, t); seals the shares
    s_u   X25519 key of the pairwise masks; s_uv = HKDF(DH(s_u, s_v), context, both keys as sent)
    b_u   seed of the self mask, 32 random bytes, new in every round
    t     threshold; `context`: a digest of run, attempt, round, signed roster, model received, row selection, layout

`stop` (no threshold): n of n. s_u is c_u, no share of anything exists, and b_u is released once all n have signed one
list of H(y_1..y_n). `continue` (threshold t): s_u is drawn for EACH ROUND and shared with b_u. One s_u for an attempt
would not do: whoever rebuilds s_u of a party that dropped in round 2 has its pairwise masks of round 1 too, whose b_u
was released then, and so reads x_u of round 1; refusing that party later would not help. With s_u of one round, what
is rebuilt opens the masks of that round alone, where b_u of the dropped party stays unreleased.

Adversary. Semi-honest aggregator with at most n − 2 parties (`stop`), or `colluders` parties (`continue`): learns the
sum and what follows from it and the colluders' inputs. Active aggregator, where signatures help: other keys, rosters,
models, rows, offers or vectors shown to different parties make masks that do not cancel AND lists that do not verify,
so no b_u is released; a party signs one list a round, and 2t > n + colluders lets only one list gather t signatures,
so shares of b_u and of s_u are never both out. It can always make the attempt fail, and the sum it announces is not
proved. A party can add any vector; a key that it copies from another, in any form, gives other masks and other sealing
keys (`masks.pair_seed`, `_sealing`). Not protected: what the sum says; fewer than three contributors are refused.
ASSUMPTIONS: `masks` (AES, Curve25519), unforgeable Ed25519, AES-GCM under a key used once.

A pad never serves twice: every use is claimed in a store (`Keys.keep`) that outlives the process and must not be part
of what a restored snapshot brings back. A restored party is refused and starts a new attempt, with new keys. A later
attempt repeats a round only with the same roster, t, model, rows, list of survivors and OWN VALUES: two sums that
differ by one party show it, and two over changed values show the change. So the store holds a digest of the values as
packed: whoever reads the party's store can test guesses of a whole vector. (Who did not sign the first list relies on
the t who did: 2t > n + colluders holds across attempts.) Under `stop` the list needs no claim: its parties are the
roster, and a party has one y and one b in a round whichever list it signs.
Under `stop`, whoever steals a running party's memory and has what the aggregator saw reads this party's earlier
vectors of the attempt; a new attempt ends that.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Protocol

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from base.errors import ConsentError, CryptoError, SpecMismatch, StateError
from crypto.agreement import frame, hkdf, x25519
from crypto.masks import add_pads, digest, pack, pair_seed, words_of
from crypto.packing import Lanes
from crypto.secagg_claims import Claims, Store
from crypto.secagg_public import (
    MIN_PARTIES,
    Advert,
    Consent,
    Offer,
    Reveal,
    Terms,
    advert_text,
    checked_keys,
    consent_text,
    is_number,
    list_digest,
    offer_text,
    offered_context,
    sha,
)
from crypto.secret import Secret
from crypto.shamir import SHARE_BYTES, Share, share

_NONCE = bytes(12)  # every sealing key is used once: s_u of the round, new, and the receiver are in it


class Keys(Store, Protocol):
    """The party's node keys and its lasting store."""

    def sign(self, data: bytes) -> bytes:
        """Sign with the node's Ed25519 key."""

    def verify(self, party: str, data: bytes, signature: bytes) -> None:
        """Raise `PeerForeign` unless `party` signed `data`."""


class _Round(Secret):
    """What a party holds of the current round."""

    def __init__(self, number: int, context: bytes, lasting: bytes, lanes: Lanes, size: int) -> None:
        self.number, self.context, self.lasting, self.lanes, self.size = number, context, lasting, lanes, size
        self.b = os.urandom(32)
        self.key = X25519PrivateKey.generate()
        self.offered: dict[str, bytes] = {}  # s_v of U_2, the parties that masks run with
        self.shares: dict[str, tuple[Share, Share]] = {}  # own shares of s_v and b_v
        self.over = self.values = b""  # digests of round, model, rows and layout; of the own values as packed
        self.y = b""
        self.survivors: dict[str, bytes] = {}
        self.stage = "begun"  # then masked, agreed, revealed


class Party(Secret):
    """One party in one attempt. Methods in the order of the protocol; another order is a `StateError`."""

    def __init__(self, terms: Terms, party: str, keys: Keys) -> None:
        """Draw c_u and sign it; `StateError` when this or a later attempt was started before."""
        self._terms, self._party, self._keys = terms, party, keys
        if party not in terms.roster:
            raise ConsentError("a party outside the roster", expected=", ".join(terms.roster), found=party)
        # 0. Claiming the lower numbers with it, an attempt never goes back.
        self._claims = Claims(terms, keys)
        self._claims.attempt()
        self._key = X25519PrivateKey.generate()
        public = self._key.public_key().public_bytes_raw()
        self.advert = Advert(public, keys.sign(advert_text(terms, party, public)))
        self._adverts: dict[str, bytes] = {}
        self._signed_roster = b""
        self._round: _Round | None = None

    def meet(self, adverts: Mapping[str, Advert]) -> None:
        """AdvertiseKeys, end: take everyone's c_v. `PeerForeign` for a signature of another run, attempt or roster.

        `CryptoError` for a key that no honest party draws; nothing is taken then.
        """
        if self._adverts or tuple(sorted(adverts)) != self._terms.roster or adverts[self._party] != self.advert:
            raise StateError("not the adverts of this roster", expected=len(self._terms.roster), found=len(adverts))
        for party, advert in adverts.items():
            self._keys.verify(party, advert_text(self._terms, party, advert.public), advert.signature)
        self._adverts = checked_keys({party: advert.public for party, advert in adverts.items()})
        self._signed_roster = sha(*(adverts[party].signature for party in self._terms.roster), *self._adverts.values())

    def begin(self, number: int, model: bytes, selection: bytes, lanes: Lanes, size: int) -> Offer | None:
        """ShareKeys, start of round `number`: return what travels to every peer, None in `stop`.

        `model` and `selection` are digests (32 bytes) of the model received and of spec and rows.
        """
        n, digests = len(self._terms.roster), len(model) == len(selection) == 32
        if not (self._adverts and lanes.summands >= n and digests and is_number(number, size)):
            raise StateError("a round cannot begin", expected=f"adverts, digests, numbers, lanes for {n} summands")
        words_of(lanes, size)
        lasting = sha(self._terms.lasting, model, selection, repr((number, lanes, size)).encode())
        context = sha(self._terms.encoded, lasting, self._signed_roster)
        self._round = now = _Round(number, context, lasting, lanes, size)
        now.over = sha(model, selection, repr((number, lanes, size)).encode())
        if self._terms.threshold is None:
            now.key, now.offered = self._key, self._adverts
            return None
        return self._offer(now, self._terms.threshold)

    def mask(self, values: np.ndarray, offers: Mapping[str, Offer] | None = None, name: str = "vector") -> np.ndarray:
        """MaskedInputCollection: return y_u, uint64. `offers`: of U_2, at least t parties, own one among them.

        `CryptoError` for values outside the lanes and for an offer to leave out (it names the party), `StateError` for
        a pad that served before and for a round that an earlier attempt summed over something else, `SpecMismatch` for
        a peer with another model, rows or layout. After a refusal the values or the offers may be mended.
        """
        now = self._at("begun")
        if values.size != now.size or (offers is None) != (self._terms.threshold is None):
            raise StateError("not the vector or the offers of this round", expected=now.size, found=values.size)
        words = pack(values, now.lanes, name)
        taken = (now.shares, now.offered, now.context) if offers is None else self._take(now, offers)
        _, offered, context = taken
        plus, minus = [now.b], list[bytes]()
        for peer, public in offered.items():
            if peer != self._party:
                (plus if peer < self._party else minus).append(pair_seed(now.key, public, context))
        # All that a peer can make fail is behind; claim the pads, then use them.
        now.values = digest(words)
        self._claims.over("round", now.number, sha(now.lasting, now.values))
        now.shares, now.offered, now.context = taken
        add_pads(words, plus, minus)
        now.y, now.stage = digest(words), "masked"
        return words

    def agree(self, survivors: Mapping[str, bytes]) -> Consent:
        """ConsistencyCheck: sign the list {party: H(y)} of U_3. One list a round; the own vector must stand in it."""
        now = self._at("masked")
        known = set(survivors) <= set(now.offered) and survivors.get(self._party) == now.y
        if not known or len(survivors) < max(self._terms.t, MIN_PARTIES):
            raise ConsentError(
                "a list of vectors that this party does not sign", expected=f"{self._terms.t} or more, its own as sent",
                found=len(survivors), remedy="a vector was changed or too many parties dropped: start a new attempt",
            )  # fmt: skip
        if self._terms.threshold is not None:
            names = [party.encode() for party in sorted(survivors)]
            self._claims.over("survivors", now.number, sha(now.lasting, *names))
            self._claims.of(sha(now.over, now.values), sha(*names))
        now.survivors, now.stage = dict(survivors), "agreed"
        listed = list_digest(now.context, survivors)
        return Consent(listed, self._keys.sign(consent_text(self._party, listed)))

    def reveal(self, consents: Mapping[str, Consent]) -> Reveal:
        """Unmasking: return what opens the sum, given t (`stop`: n) signatures of survivors over the list signed."""
        now = self._at("agreed")
        listed = list_digest(now.context, now.survivors)
        if not set(consents) <= set(now.survivors) or len(consents) < self._terms.t:
            raise ConsentError("a sum without enough consents", expected=self._terms.t, found=len(consents))
        for party, consent in consents.items():
            if consent.listed != listed:
                raise SpecMismatch(
                    "the parties do not agree on what a sum is over", expected="one model, rows, roster and list",
                    party=party, remedy="compare the inputs of this step; if they agree, ask the aggregator",
                )  # fmt: skip
            self._keys.verify(party, consent_text(party, listed), consent.signature)
        now.stage, self._round = "revealed", None
        if self._terms.threshold is None:
            return Reveal(seed=now.b)
        both, dropped = now.shares, set(now.offered) - set(now.survivors)
        return Reveal(b"", {party: both[party][1] for party in now.survivors}, {p: both[p][0] for p in dropped})

    def _offer(self, now: _Round, t: int) -> Offer:
        n, public = len(self._terms.roster), now.key.public_key().public_bytes_raw()
        both = zip(share(now.key.private_bytes_raw(), n, t), share(now.b, n, t), strict=True)
        shares = dict(zip(self._terms.roster, both, strict=True))
        now.shares[self._party] = shares[self._party]
        sealed = {
            peer: AESGCM(self._sealing(self._party, peer, now.context, public)).encrypt(
                _NONCE, s.to_bytes() + b.to_bytes(), None
            )
            for peer, (s, b) in shares.items() if peer != self._party
        }  # fmt: skip
        return Offer(now.context, public, self._keys.sign(offer_text(self._party, now.context, public)), sealed)

    def _take(
        self, now: _Round, offers: Mapping[str, Offer]
    ) -> tuple[dict[str, tuple[Share, Share]], dict[str, bytes], bytes]:
        """Check the offers of U_2 and return the own shares, the keys, and the context bound to who is in U_2."""
        known = set(offers) <= set(self._terms.roster) and self._party in offers
        if not known or len(offers) < max(self._terms.t, MIN_PARTIES):
            raise ConsentError("too few offers for a sum", expected=self._terms.t, found=len(offers))
        shares = {self._party: now.shares[self._party]}
        for peer, offer in offers.items():
            if offer.context != now.context:
                raise SpecMismatch("a party sums over another model, roster, rows or layout", party=peer)
            self._keys.verify(peer, offer_text(peer, now.context, offer.public), offer.signature)
            if peer != self._party:
                shares[peer] = self._open(now, peer, offer)
        if offers[self._party].public != now.key.public_key().public_bytes_raw():
            raise StateError("the own offer is not of this round")
        offered = checked_keys({peer: offer.public for peer, offer in offers.items()})
        return shares, offered, offered_context(now.context, offered)

    def _open(self, now: _Round, peer: str, offer: Offer) -> tuple[Share, Share]:
        key = self._sealing(peer, self._party, now.context, offer.public)
        try:
            data = AESGCM(key).decrypt(_NONCE, offer.sealed.get(self._party, b""), None)
        except (InvalidTag, ValueError):
            raise CryptoError("a sealed share does not open", party=peer, remedy="leave this party out") from None
        s, b = Share.from_bytes(data[:SHARE_BYTES]), Share.from_bytes(data[SHARE_BYTES:])
        if {s.x, b.x} != {self._terms.roster.index(self._party) + 1}:
            raise CryptoError("a share is another party's", party=peer, remedy="leave this party out")
        return s, b

    def _sealing(self, sender: str, receiver: str, context: bytes, public: bytes) -> bytes:
        """Return the key of what `sender`, with s_u `public`, seals for `receiver`; one of the two is this party."""
        ends = (part for party in (sender, receiver) for part in (party.encode(), self._adverts[party]))
        peer = receiver if sender == self._party else sender
        return hkdf(x25519(self._key, self._adverts[peer]), frame(b"accord secagg shares 2", context, public, *ends))

    def _at(self, stage: str) -> _Round:
        if self._round is None or self._round.stage != stage:
            found = "no round" if self._round is None else self._round.stage
            raise StateError("not the time for this request", expected=stage, found=found)
        return self._round
