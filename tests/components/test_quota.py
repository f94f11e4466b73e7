"""A purse never goes back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.errors import ConsentError, StateError
from components.quota import raise_parameter, spend


class _Node:
    """The part of a context that a quota uses: a key store that writes each name once."""

    party, step = "bureau", "align"

    def __init__(self):
        self.kept, self.keys = {}, self

    def keep(self, name, make):
        if name not in self.kept:
            self.kept[name] = make()
        return self.kept[name]


def _spend(node, amount, limit, version):
    return spend(node, "signatures.north_bank", amount, limit, version, "signatures", "a new key")


@given(st.lists(st.integers(1, 50), max_size=12), st.integers(1, 100))
def test_what_is_given_out_never_exceeds_the_limit(amounts, limit):
    node, given_out = _Node(), 0
    for version, amount in enumerate(amounts):
        try:
            _spend(node, amount, limit, str(version))
            given_out += amount
        except ConsentError:
            assert given_out + amount > limit
    assert given_out <= limit


def test_the_same_version_costs_nothing_more():
    node = _Node()
    assert [_spend(node, 60, 100, version) for version in ("run/1", "run/1", "run/1")] == [0, 0, 0]
    with pytest.raises(ConsentError, match="no further signatures") as caught:
        _spend(node, 60, 100, "run/2")
    assert "60 given out, 60 more" in str(caught.value)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=12), st.integers(1, 700))
def test_a_refusal_states_all_that_was_given_out_and_writes_nothing(amounts, more):
    """Also what lies behind the slot at which the limit would be passed."""
    node, total = _Node(), sum(amounts)
    for version, amount in enumerate(amounts):
        _spend(node, amount, total, str(version))
    before = dict(node.kept)
    with pytest.raises(ConsentError) as caught:
        _spend(node, more, total, "one more")
    assert caught.value.found == f"{total} given out, {more} more asked for"
    assert node.kept == before


def test_what_was_paid_stays_paid_under_a_lower_limit():
    node = _Node()
    assert [_spend(node, 30, 100, version) for version in "abc"] == [0, 1, 2]
    assert _spend(node, 30, 20, "c") == 2


def test_the_remedy_names_the_parameter_and_the_term():
    remedy = raise_parameter("max_tests")
    assert remedy.startswith("raise the step parameter max_tests, at most to max_tests of the accord; beyond it")


@pytest.mark.parametrize("other", [59, 61, 100, 1])
def test_the_same_version_is_of_the_same_amount(other):
    """Else who paid for one would use it for thousands."""
    node = _Node()
    _spend(node, 10, 1000, "run/0")
    _spend(node, 60, 1000, "run/1")
    with pytest.raises(StateError, match="another number of signatures") as caught:
        _spend(node, other, 1000, "run/1")
    assert caught.value.remedy == "start a new run"
    assert _spend(node, 60, 1000, "run/1") == 1
