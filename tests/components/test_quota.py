"""A purse never goes back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.errors import ConsentError
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
