"""The public side of secure aggregation: terms, what travels, what is signed, and the aggregator, who holds no key.

Bonawitz et al. 2017, figure 4; `secagg` has the symbols, the adversary and a party's side. The aggregator adds y_u as
they come (`Total.add`), lists them, and takes off the masks that did not cancel: Σ_{u in U_3} PRG(b_u), and for each u
that offered a key and then dropped (U_2 without U_3) its pairwise masks with the survivors, whose seeds follow from the
rebuilt s_u. It learns b_u or s_u of a party, never both, unless t parties break their word.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from base.errors import ConsentError, CryptoError, SpecMismatch, StateError
from crypto.agreement import frame
from crypto.curve import check_points
from crypto.ladder import WIDTH, as_points
from crypto.masks import add_pads, digest, pair_seed, unpack, words_of
from crypto.packing import Lanes
from crypto.secret import Secret
from crypto.shamir import Share, reconstruct

MIN_PARTIES = 3
MIN_TO_CONTINUE = 4


@dataclass(frozen=True)
class Terms:
    """What all agree on before an attempt. `run` names everything whose round numbers count together (run and step)."""

    run: str
    attempt: int  # 1, 2, ...
    roster: tuple[str, ...]  # sorted
    threshold: int | None = None  # None: `on_dropout: stop`
    colluders: int = 1  # parties that may help the aggregator, for `on_dropout: continue`

    def __post_init__(self) -> None:
        """Refuse too few parties, and a threshold that lets two lists of survivors be signed."""
        n, least = len(self.roster), MIN_PARTIES if self.threshold is None else MIN_TO_CONTINUE
        if n < least:
            raise ConsentError("a sum of so few parties shows each what the other sent", expected=least, found=n)
        numbers = (self.attempt, self.colluders, self.threshold or 0)
        if list(self.roster) != sorted(set(self.roster)) or n > 255 or not is_number(*numbers) or self.attempt < 1:
            raise StateError("no terms of an attempt", expected="a sorted roster, attempt 1 or more", found=n)
        if self.threshold is not None and not n + self.colluders < 2 * self.threshold < 2 * n:
            raise ConsentError(
                "a threshold that is not safe, or that no party may miss",
                expected=f"2t > {n} + {self.colluders}, t < {n}", found=self.threshold,
            )  # fmt: skip

    @property
    def t(self) -> int:
        """How many parties a sum needs."""
        return self.threshold or len(self.roster)

    @property
    def lasting(self) -> bytes:
        """What stays when a later attempt repeats a round."""
        numbers = (self.threshold or 0, self.colluders)
        return frame(self.run.encode(), repr(numbers).encode(), *(party.encode() for party in self.roster))

    @property
    def encoded(self) -> bytes:
        """What a signature of this attempt covers."""
        return frame(self.lasting, repr(self.attempt).encode())


@dataclass(frozen=True)
class Advert:
    """Round 0: c_u of the attempt, signed."""

    public: bytes
    signature: bytes


@dataclass(frozen=True)
class Offer:
    """Round 1, `continue` alone: s_u of the round, signed, and for each peer its shares of s_u and b_u, sealed."""

    context: bytes
    public: bytes
    signature: bytes
    sealed: Mapping[str, bytes] = field(repr=False)


@dataclass(frozen=True)
class Consent:
    """Round 3: a signature over the digest of a list of survivors and their vectors."""

    listed: bytes
    signature: bytes


@dataclass(frozen=True, repr=False)
class Reveal(Secret):
    """Round 4: the own b_u (`stop`), or shares of b_v of the survivors and of s_v of the dropped (`continue`)."""

    seed: bytes = b""
    self_shares: Mapping[str, Share] = field(default_factory=dict)
    key_shares: Mapping[str, Share] = field(default_factory=dict)


class Total:
    """The aggregator in one round: `add` every vector that comes, let the parties agree on `survivors`, `unmask`."""

    def __init__(self, terms: Terms, lanes: Lanes, size: int, offers: Mapping[str, Offer] | None = None) -> None:
        """Take the offers of U_2 (`continue`), the same that every party was sent."""
        if (offers is None) != (terms.threshold is None):
            raise StateError("offers belong to `on_dropout: continue`", expected=terms.threshold is not None)
        self._terms, self._lanes, self._size = terms, lanes, size
        contexts = {offer.context for offer in (offers or {}).values()}
        if len(contexts) > 1:
            raise SpecMismatch("the parties do not agree on what a sum is over", found=f"{len(contexts)} contexts")
        self._offered = checked_keys({party: offer.public for party, offer in (offers or {}).items()})
        self._context = offered_context(contexts.pop(), self._offered) if contexts else b""
        self._sum = np.zeros(words_of(lanes, size), np.uint64)
        self.survivors: dict[str, bytes] = {}

    def add(self, party: str, y: np.ndarray) -> None:
        """Add y_u; `StateError` for a second vector of a party, one outside the roster or U_2, or another shape."""
        expected = self._terms.roster if self._terms.threshold is None else tuple(self._offered)
        if party not in expected or party in self.survivors or y.dtype != np.uint64 or y.shape != self._sum.shape:
            raise StateError("not a vector of this round", expected=self._sum.shape, found=y.shape, party=party)
        self._sum += y
        self.survivors[party] = digest(y)

    @property
    def listed(self) -> bytes:
        """What the survivors sign (`continue`, where the context is known from the offers)."""
        return list_digest(self._context, self.survivors)

    def unmask(self, reveals: Mapping[str, Reveal]) -> np.ndarray:
        """Return Σ x_u over the survivors (size,); `CryptoError` when seeds or shares do not open it."""
        return unpack(self.open(reveals), self._lanes, self._size, len(self.survivors))

    def open(self, reveals: Mapping[str, Reveal]) -> np.ndarray:
        """Return the words of the sum, which `masks.unpack` reads and checks, to be passed on.

        `reveals`: of all (`stop`), or of at least t survivors (`continue`).
        """
        if not set(reveals) <= set(self.survivors) or min(len(reveals), len(self.survivors)) < self._terms.t:
            raise ConsentError("too few parties open a sum", expected=self._terms.t, found=len(reveals))
        words = self._sum.copy()
        if self._terms.threshold is None:
            add_pads(words, (), [reveal.seed for reveal in reveals.values()])
        else:
            seeds = [self._rebuild([r.self_shares.get(u) for r in reveals.values()]) for u in self.survivors]
            add_pads(words, (), seeds)
            for u in set(self._offered) - set(self.survivors):
                self._take_off(words, u, self._rebuild([r.key_shares.get(u) for r in reveals.values()]))
        return words

    def _rebuild(self, shares: list[Share | None]) -> bytes:
        return reconstruct([one for one in shares if one is not None], self._terms.t)

    def _take_off(self, words: np.ndarray, u: str, secret: bytes) -> None:
        """Take off the masks that the survivors have with the dropped u."""
        s_u = X25519PrivateKey.from_private_bytes(secret)
        if s_u.public_key().public_bytes_raw() != self._offered[u]:
            raise CryptoError("shares of a key do not give the key that was offered", party=u)
        seeds = {v: pair_seed(s_u, self._offered[v], self._context) for v in self.survivors}
        # v added the mask when u < v and subtracted it when u > v.
        add_pads(words, (seeds[v] for v in seeds if u > v), (seeds[v] for v in seeds if u < v))


def is_number(*numbers: object) -> bool:
    """Tell whether all are `int` from 0: 1.0, True and NumPy's 1 are written otherwise, and so would be other names."""
    return all(type(number) is int and number >= 0 for number in numbers)


def checked_keys(publics: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the X25519 keys in the order of the parties' names.

    `CryptoError`, naming the party, for what `X25519PrivateKey` never gives: another length, not canonical, of small
    order, on the twist (an honest key is a multiple of the base point u = 9, which is on the curve); and for one key of
    two parties. P plus a point of small order passes: `pair_seed` and the sealing keys depend on the bytes.
    """
    for party, public in publics.items():
        try:
            check_points(as_points(public if len(public) == WIDTH else bytes(WIDTH)))  # zeros are refused
        except CryptoError:
            raise CryptoError(
                "a public key that no honest party draws", party=party,
                expected=f"{WIDTH} bytes, canonical, on the curve, not of small order",
                remedy="leave this party out; under `on_dropout: stop` start a new attempt without it",
            ) from None  # fmt: skip
    if len(set(publics.values())) != len(publics):
        raise CryptoError("two parties show one key", expected=len(publics), found=len(set(publics.values())))
    return {party: publics[party] for party in sorted(publics)}


def advert_text(terms: Terms, party: str, public: bytes) -> bytes:
    """Return what `party` signs of c_u."""
    return frame(b"accord secagg advert 1", terms.encoded, party.encode(), public)


def offer_text(party: str, context: bytes, public: bytes) -> bytes:
    """Return what `party` signs of s_u of a round."""
    return frame(b"accord secagg offer 1", context, party.encode(), public)


def consent_text(party: str, listed: bytes) -> bytes:
    """Return what `party` signs of a list."""
    return frame(b"accord secagg consent 1", party.encode(), listed)


def list_digest(context: bytes, survivors: Mapping[str, bytes]) -> bytes:
    """Return the digest of a list {party: H(y)} in a context."""
    return sha(context, *(part for party in sorted(survivors) for part in (party.encode(), survivors[party])))


def offered_context(context: bytes, offered: Mapping[str, bytes]) -> bytes:
    """Return the context that masks depend on once U_2 and its keys are known."""
    return sha(context, *(part for party in sorted(offered) for part in (party.encode(), offered[party])))


def sha(*parts: bytes) -> bytes:
    """Return the SHA-256 of framed parts."""
    return hashlib.sha256(frame(*parts)).digest()
