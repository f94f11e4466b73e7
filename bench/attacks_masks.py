"""What an aggregator does to sums by masks that cancel (`crypto.secagg`), and what a restored snapshot gives away.

The parties are those of the protocol, without a channel between them; their weakened settings are key stores that
forget, keys that trust, and a context that does not name the model. An attack counts the share of a vector's values
that it reads; a refusal reads none. The same through channels and doors: `tests/attacks/test_masked_sum.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from base.errors import AccordError
from bench.attacks_data import Found
from crypto.masks import pack, unpack
from crypto.node_keys import NodeKeys
from crypto.packing import Lanes
from crypto.secagg import Party
from crypto.secagg_public import Offer, Terms, Total
from models.symmetric import Floats

NAMES = ("bank_a", "bank_b", "bank_c", "bank_d")
VICTIM = "bank_c"
LANES, SIZE = Lanes(16, 4, len(NAMES)), 200
MODEL, ROWS = b"m" * 32, b"r" * 32
Stores = dict[str, dict[str, bytes]]


class Keys:
    """A node's keys and its lasting store."""

    def __init__(self, party: str, nodes: Mapping[str, NodeKeys], store: dict[str, bytes]) -> None:
        self._party, self._nodes, self._store = party, nodes, store

    def sign(self, data: bytes) -> bytes:
        """Sign with the node's key."""
        return self._nodes[self._party].sign(data)

    def verify(self, party: str, data: bytes, signature: bytes) -> None:
        """Raise `PeerForeign` unless `party` signed."""
        self._nodes[party].public.verify(party, data, signature)

    def keep(self, name: str, make: Callable[[], bytes]) -> bytes:
        """Return what is stored, or store it."""
        return self._store.setdefault(name, make())


class Forgetful(Keys):
    """Weakened: the store is part of what comes back."""

    def keep(self, name: str, make: Callable[[], bytes]) -> bytes:
        """Return something new."""
        return make()


class Trusting(Keys):
    """Weakened: no signature is looked at."""

    def verify(self, party: str, data: bytes, signature: bytes) -> None:
        """Believe it."""


class Vague(Party):
    """Weakened: what a round is bound to does not say which model."""

    def begin(self, number: int, model: bytes, selection: bytes, lanes: Lanes, size: int) -> Offer | None:
        """Leave the model out."""
        return super().begin(number, bytes(32), selection, lanes, size)


class Scene:
    """Parties with their keys, and vectors that they would not show."""

    def __init__(self, seed: int, keys: type[Keys] = Keys, party: type[Party] = Party) -> None:
        rng = np.random.default_rng(seed)
        self.values = {name: rng.integers(-99, 99, SIZE) / 16 for name in NAMES}
        self._nodes, self._stores = {name: NodeKeys.generate() for name in NAMES}, Stores({name: {} for name in NAMES})
        self._keys, self._party = keys, party

    @property
    def secret(self) -> Floats:
        """The victim's vector."""
        return self.values[VICTIM]

    def party(self, name: str, terms: Terms, keys: type[Keys] | None = None) -> Party:
        """Return a party of an attempt."""
        return self._party(terms, name, (keys or self._keys)(name, self._nodes, self._stores[name]))

    def met(self, attempt: int = 1, roster: tuple[str, ...] = NAMES) -> dict[str, Party]:
        """Return the parties of an attempt that know each other's keys."""
        parties = {name: self.party(name, Terms("run/step", attempt, roster)) for name in roster}
        adverts = {name: party.advert for name, party in parties.items()}
        for party in parties.values():
            party.meet(adverts)
        return parties


def _sum(
    parties: Mapping[str, Party], values: Mapping[str, Floats], models: Mapping[str, bytes] | None = None
) -> Floats:
    """Return the total of round 1, as an aggregator that follows the protocol reads it."""
    total = Total(Terms("run/step", 1, tuple(parties)), LANES, SIZE)
    for name, party in parties.items():
        party.begin(1, (models or {}).get(name, MODEL), ROWS, LANES, SIZE)
        total.add(name, party.mask(values[name]))
    consents = {name: party.agree(total.survivors) for name, party in parties.items()}
    return total.unmask({name: party.reveal(consents) for name, party in parties.items()})


def _read(attack: Callable[[], Floats], truth: Floats) -> float:
    """Return the share of the values of `truth` that an attack reads exactly; nothing where it is refused."""
    try:
        return float(np.mean(attack() == truth))
    except AccordError:
        return 0.0


def _twin(secret: Any) -> Any:
    """Copy what forbids to be copied, as a snapshot of a machine does."""
    twin = object.__new__(type(secret))
    twin.__dict__.update(secret.__dict__)
    return twin


# Attacks


def two_models(seed: int) -> Found:
    """Parties are shown two models, and their answers added: share of the values of that sum."""

    def attack(party: type[Party]) -> float:
        scene = Scene(seed, party=party)
        return _read(lambda: _sum(scene.met(), scene.values, {VICTIM: b"n" * 32}), _added(scene.values))

    return Found(attack(Vague), attack(Party), 0.0)


def two_rosters(seed: int) -> Found:
    """The victim is shown keys that the aggregator made for all others, which send zeros: share of its values."""

    def attack(keys: type[Keys]) -> float:
        scene = Scene(seed, keys)
        terms = Terms("run/step", 1, NAMES)

        def total() -> Floats:
            fakes = Scene(seed + 1, Trusting)  # other node keys
            parties = {name: scene.party(name, terms) if name == VICTIM else fakes.party(name, terms) for name in NAMES}
            adverts = {name: party.advert for name, party in parties.items()}
            for party in parties.values():
                party.meet(adverts)
            return _sum(parties, {name: scene.secret * (name == VICTIM) for name in NAMES})

        return _read(total, scene.secret)

    return Found(attack(Trusting), attack(Keys), 0.0)


def repeated_round(seed: int) -> Found:
    """A round is summed again over other values of the victim (zeros): share of its values, by subtraction."""

    def attack(keys: type[Keys]) -> float:
        scene = Scene(seed, keys)

        def difference() -> Floats:
            first = _sum(scene.met(), scene.values)
            return first - _sum(scene.met(2), {**scene.values, VICTIM: 0 * scene.secret})

        return _read(difference, scene.secret)

    return Found(attack(Forgetful), attack(Keys), 0.0)


def fewer_parties(seed: int) -> Found:
    """A round is summed over n parties, then over n − 1: share of the values of the one that is missing."""

    def attack(keys: type[Keys]) -> float:
        scene, rest = Scene(seed, keys), tuple(name for name in NAMES if name != VICTIM)
        return _read(lambda: _sum(scene.met(), scene.values) - _sum(scene.met(2, rest), scene.values), scene.secret)

    return Found(attack(Forgetful), attack(Keys), 0.0)


def restored_pads(seed: int) -> Found:
    """A bank's machine comes back as before its masked vector, and masks other values (zeros): share of the values."""

    def attack(keys: type[Keys]) -> float:
        scene = Scene(seed, keys)

        def difference() -> Floats:
            victim = scene.met()[VICTIM]
            victim.begin(1, MODEL, ROWS, LANES, SIZE)
            twin = _twin(victim)
            twin._round = _twin(victim._round)
            words = victim.mask(scene.secret) - twin.mask(0 * scene.secret)
            return unpack(words + pack(0 * scene.secret, LANES), LANES, SIZE, 1)

        return _read(difference, scene.secret)

    return Found(attack(Forgetful), attack(Keys), 0.0)


def _added(values: Mapping[str, Floats]) -> Floats:
    return np.asarray(np.sum(list(values.values()), axis=0))
