import itertools
import pickle
from collections import Counter

import gmpy2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.errors import CryptoError
from crypto.shamir import P, Share, evaluate, interpolate, polynomial, reconstruct, share

seeds = st.one_of(st.binary(min_size=32, max_size=32), st.sampled_from([bytes(32), b"\xff" * 32]))


def test_the_field_is_the_least_that_holds_every_seed():
    assert gmpy2.is_prime(P, 50)
    assert gmpy2.next_prime(2**256) == P


def test_by_hand():
    # f(x) = 5 + 3x + 2x² modulo 11, as in a textbook: f(1) = 10, f(2) = 8, f(3) = 10.
    assert [evaluate([5, 3, 2], x, 11) for x in (1, 2, 3)] == [10, 8, 10]
    points = [Share(1, 10), Share(2, 8), Share(3, 10)]
    assert interpolate(points, 0, 11) == 5
    assert interpolate(points, 4, 11) == (5 + 12 + 32) % 11


@given(seeds, st.data())
def test_any_t_shares_or_more_give_the_secret(secret, data):
    n = data.draw(st.integers(2, 50))
    t = data.draw(st.integers(2, n))
    shares = share(secret, n, t)
    some = data.draw(st.permutations(shares))[: data.draw(st.integers(t, n))]
    assert reconstruct(some, t) == secret
    assert reconstruct([Share.from_bytes(one.to_bytes()) for one in some], t) == secret


def test_fewer_than_t_shares_say_nothing():
    # Exactly: in the field of 7, over all polynomials, every view of t - 1 = 2 shares comes as often for each secret.
    views = {
        secret: Counter(
            tuple(evaluate([secret, *rest], x, 7) for x in (2, 5)) for rest in itertools.product(range(7), repeat=2)
        )
        for secret in range(7)
    }
    assert all(view == dict.fromkeys(itertools.product(range(7), repeat=2), 1) for view in views.values())
    # And the polynomials that are drawn are all of them: chi-square with 48 degrees of freedom, p = 1e-6 at 106.
    drawn = Counter(tuple(polynomial(3, 3, 7)[1:]) for _ in range(9800))
    assert sum((drawn[rest] - 200) ** 2 / 200 for rest in itertools.product(range(7), repeat=2)) < 106


def test_t_shares_do_determine_which_shows_that_the_view_above_is_the_largest():
    full = {tuple(evaluate([secret, 1, 6], x, 7) for x in (1, 2, 3)) for secret in range(7)}
    assert len(full) == 7


@given(seeds, st.integers(0, 4), st.integers(1, P - 1))
def test_a_changed_share_is_noticed_when_there_are_more_than_t(secret, which, by):
    shares = share(secret, 5, 3)
    shares[which] = Share(shares[which].x, (shares[which].y + by) % P)
    with pytest.raises(CryptoError, match="not of one secret"):
        reconstruct(shares, 3)


def test_a_secret_outside_the_seeds_is_refused():
    with pytest.raises(CryptoError, match="not of one secret"):
        reconstruct([Share(1, 2**256 + 1), Share(2, 2**256 + 1)], 2)


def test_too_few_repeated_and_zero_x_are_refused():
    shares = share(bytes(32), 5, 3)
    for some in (shares[:2], [shares[0], shares[0], shares[1]], [*shares, shares[0]]):
        with pytest.raises(CryptoError, match="more shares"):
            reconstruct(some, 3)
    for x, y in ((0, 1), (256, 1), (1, P), (1, -1)):
        with pytest.raises(CryptoError, match="not a point"):
            Share(x, y)


@pytest.mark.parametrize("case", [(bytes(31), 5, 3), (bytes(33), 5, 3), (bytes(32), 5, 6), (bytes(32), 5, 1)])
def test_wrong_lengths_and_thresholds_are_refused(case):
    with pytest.raises(CryptoError, match="cannot be shared"):
        share(*case)


@pytest.mark.parametrize("data", [b"", bytes(33), b"\x01" + bytes(34)])
def test_bytes_of_another_length_are_refused(data):
    with pytest.raises(CryptoError, match="another length"):
        Share.from_bytes(data)
    with pytest.raises(CryptoError, match="not a point"):
        Share.from_bytes(b"\x01" + b"\xff" * 33)


def test_a_share_is_not_shown_and_not_pickled():
    one = share(b"\x07" * 32, 3, 2)[0]
    assert repr([one]) == "[<Share, not shown>]"
    with pytest.raises(CryptoError):
        pickle.dumps(one)
