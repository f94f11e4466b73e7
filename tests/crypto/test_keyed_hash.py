import pickle

import pytest

from base.errors import CryptoError, StateError
from crypto.keyed_hash import EphemeralKey


def test_two_parties_derive_the_same_tags_and_only_for_one_context():
    one, two = EphemeralKey(), EphemeralKey()
    a, b = one.agree(two.public, b"run 1"), two.agree(one.public, b"run 1")
    ids = ["7", "05", "ü"]
    assert a.tags(ids) == b.tags(ids)
    assert len(set(a.tags(ids))) == 3
    with pytest.raises(StateError, match="used before"):
        one.agree(two.public, b"run 2")
    keys = [EphemeralKey(), EphemeralKey()]
    other = [key.agree(two.public, context) for key, context in zip(keys, (b"run 1", b"run 2"), strict=True)]
    assert not set(other[0].tags(ids)) & set(other[1].tags(ids))
    assert not set(a.tags(ids)) & set(EphemeralKey().agree(two.public, b"run 1").tags(ids))


def test_a_point_of_small_order_is_refused():
    with pytest.raises(CryptoError):
        EphemeralKey().agree(bytes(32), b"")


def test_keys_are_never_shown_or_pickled():
    one = EphemeralKey()
    key = one.agree(EphemeralKey().public, b"")
    for secret in (one, key):
        assert "not shown" in repr(secret)
        with pytest.raises(CryptoError):
            pickle.dumps(secret)
