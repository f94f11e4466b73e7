"""A purse never goes back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.errors import ConsentError, StateError
from components.quota import spend


class _Node:
    """The part of a context that a quota uses: a key store that writes each name once."""

    party, step = "bureau", "align"

    def __init__(self):
        self.kept, self.keys = {}, self

    def keep(self, name, make):
        return self.kept.setdefault(name, make())


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
