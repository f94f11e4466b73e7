"""Attacks on secure sums: each succeeds on a weakened setting and fails on what `Summer` and `relay` do."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from base.errors import ConsentError, CryptoError, SpecMismatch, StateError
from components import paillier_sum
from components.contract import Component, Params
from components.paillier_sum import Summer, relay, sum_messages
from crypto.packing import Lanes
from crypto.paillier import CiphertextVector, PublicKey, total

BANKS = ("east", "north", "south")
ROLES = {"data_holder": BANKS, "aggregator": ("bureau",)}
LANES = Lanes(16, 4, 3)
SECRET = np.array([3.5, -1.25, 8.0])  # what south would not show
WIDE = np.arange(130) / 4  # two ciphertexts


class Rounds(Params):
    rounds: tuple[int, ...] = (0,)


def holder(ctx, params):
    summer = Summer(ctx, 2048)
    return {
        "sums": [summer.total(ctx.inputs["v"][i], LANES, r, ctx.inputs["bound"]) for i, r in enumerate(params.rounds)]
    }


PART = Component(
    "sums", {"data_holder": holder, "aggregator": lambda ctx, params: relay(ctx, params.rounds) or {}}, Rounds,
    sum_messages("the sum"),
)  # fmt: skip


def inputs(*rounds, **bounds):
    """One vector a round and bank; `rounds` says what south contributes."""
    own = {"east": np.ones(3), "north": np.full(3, 2.0)}
    return {
        bank: {"v": [own.get(bank, south) for south in rounds], "bound": bounds.get(bank, b"model")} for bank in BANKS
    }


def refused(outcome, kind):
    return any(isinstance(error, kind) for error in outcome.errors.values()) and not any(
        outcome.outputs.get(bank) for bank in BANKS
    )


def test_a_second_sum_of_one_round_would_show_a_party_by_subtraction(threads, monkeypatch):
    given, twice = inputs(SECRET, 0 * SECRET), {"rounds": [0, 0]}
    assert refused(threads(PART, ROLES, given, twice, run="replay-1"), StateError)
    # Weakened: neither the parties nor the aggregator remember which rounds were summed.
    monkeypatch.setattr(Summer, "_claim", lambda self, r, bound, lanes, values: b"r" * 32)
    forgetful = {"bureau": _aggregator(total)}
    outcome = threads(PART, ROLES, given, twice, run="replay-2", functions=forgetful)
    first, second = outcome.outputs["east"]["sums"]
    assert (first - second == SECRET).all()


def test_a_round_repeated_in_a_later_attempt_over_another_model_is_refused(threads):
    assert threads(PART, ROLES, inputs(SECRET), run="replay-3").errors == {}
    other = dict.fromkeys(BANKS, b"another model")
    assert refused(threads(PART, ROLES, inputs(0 * SECRET, **other), run="replay-3", attempt=2), StateError)


def test_a_round_repeated_in_a_later_attempt_over_changed_values_is_refused(threads):
    assert threads(PART, ROLES, inputs(SECRET), run="replay-4").errors == {}
    assert threads(PART, ROLES, inputs(SECRET), run="replay-4", attempt=2).errors == {}
    assert refused(threads(PART, ROLES, inputs(0 * SECRET), run="replay-4", attempt=3), StateError)


def test_a_sum_of_two_is_the_other_s_vector_and_is_refused(threads, monkeypatch):
    roles = ROLES | {"data_holder": ("north", "south")}
    assert refused(threads(PART, roles, inputs(SECRET), run="two-1"), ConsentError)
    # Weakened: north subtracts its own part.
    monkeypatch.setattr(paillier_sum, "MIN_PARTIES", 2)
    (found,) = threads(PART, roles, inputs(SECRET), run="two-2").outputs["north"]["sums"]
    assert (found - 2.0 == SECRET).all()


def test_a_single_contributor_s_part_is_not_taken_for_the_total(threads, monkeypatch):
    only_south = {"bureau": _aggregator(lambda parts: parts[2])}
    outcome = threads(PART, ROLES, inputs(SECRET), run="alone-1", functions=only_south)
    assert refused(outcome, CryptoError)
    # Weakened: a key holder decrypts whatever comes.
    monkeypatch.setattr(Summer, "total", _trusting_total)
    outcome = threads(PART, ROLES, inputs(SECRET), run="alone-2", functions=only_south)
    assert (outcome.outputs["north"]["sums"][0] == SECRET).all()


FORGED = {
    "three times one part": lambda east, north, south: total([south] * 3),
    "one party twice for another": lambda east, north, south: total([east, south, south]),
    "own encryptions for two": lambda east, north, south: total([_own(east, 0 * WIDE), _own(east, 0 * WIDE), south]),
    "one party left out": lambda east, north, south: replace(total([north, south]), weight=3),
    "one ciphertext of one party": lambda east, north, south: _first(total([south] * 3), total([east, north, south])),
    "two ciphertexts exchanged": lambda east, north, south: _reversed(total([east, north, south])),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_total_that_is_not_one_part_of_each_is_refused_whatever_weight_it_claims(threads, monkeypatch, name):
    """Weak: the weight is the aggregator's word. Default: every party's check numbers must stand there once."""
    given = inputs(WIDE)
    for bank, value in (("east", 1.0), ("north", 2.0)):
        given[bank]["v"] = [np.full(WIDE.size, value)]
    forged = {"bureau": _aggregator(lambda parts: FORGED[name](*parts))}
    assert refused(threads(PART, ROLES, given, run=f"forged-{name.replace(' ', '-')}", functions=forged), CryptoError)
    monkeypatch.setattr(paillier_sum, "_checked", _unchecked)
    open_ = threads(PART, ROLES, given, run=f"open-{name.replace(' ', '-')}", functions=forged)
    assert open_.errors == {}
    (found,) = open_.outputs["north"]["sums"]
    if name == "three times one part":
        assert (found / 3 == WIDE).all()


def test_two_models_or_two_rosters_shown_by_the_aggregator_give_no_sum(threads, monkeypatch):
    assert refused(threads(PART, ROLES, inputs(SECRET, north=b"model 2"), run="models-1"), SpecMismatch)
    # Weakened: signatures over whatever each party was shown.
    monkeypatch.setattr(Summer, "_check_consents", lambda self, consents, context: None)
    monkeypatch.setattr(paillier_sum, "_checked", _unchecked)
    assert threads(PART, ROLES, inputs(SECRET, north=b"model 2"), run="models-2").errors == {}


def test_a_missing_or_foreign_consent_gives_no_sum(threads):
    for spoil in (lambda rows: rows[:2], lambda rows: [rows[0], rows[1], rows[0]]):
        outcome = threads(PART, ROLES, inputs(SECRET), run="consent", functions={"bureau": _aggregator(total, spoil)})
        assert refused(outcome, ConsentError)


def _own(like, values):
    """The aggregator's own encryption in the shape of a part: it cannot know the check numbers."""
    rows = np.zeros(like.length)
    rows[: values.size] = values
    return like.key.encrypt_rows(rows.reshape(-1, like.columns), like.lanes)


def _first(one, others):
    return others.holding((one.ciphertexts[0], *others.ciphertexts[1:]))


def _reversed(vector):
    return vector.holding(vector.ciphertexts[::-1])


def _unchecked(rows, checks, size):
    return rows[:, : rows.shape[1] - checks.shape[1] * checks.shape[2]].ravel()[:size]


def _aggregator(answer, spoil=lambda consents: consents):
    """An aggregator that remembers no round, and answers what it likes to parts and consents."""

    def aggregator(ctx, params):
        key = PublicKey.from_bytes(ctx.recv("public_key", from_="east")["key"][0].as_py())
        for _ in params.rounds:
            pairs = [(ctx.recv("part", from_=bank), ctx.recv("consent", from_=bank)) for bank in BANKS]
            ctx.send("total", answer([CiphertextVector.from_table(part, key) for part, _ in pairs]).to_table())
            ctx.send("consents", pa.concat_tables(spoil([consent for _, consent in pairs])))
        return {}

    return aggregator


def _trusting_total(self, values, lanes, round_number, bound, name="vector"):
    self._ctx.send("part", self._key.encrypt(values, lanes).to_table())
    self._ctx.send("consent", paillier_sum._consent(self._ctx, round_number, b"c" * 32))
    vector = CiphertextVector.from_table(self._ctx.recv("total"), self._key.public, lanes)
    self._ctx.recv("consents")
    return self._key.decrypt(vector)
