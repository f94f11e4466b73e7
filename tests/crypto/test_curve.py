import copy
import math
import pickle
import runpy
from itertools import permutations

import gmpy2
import numpy as np
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from base.errors import CryptoError, StateError
from crypto.curve import (
    CurveSecret,
    check_points,
    from_column,
    hash_to_curve,
    tag_bytes,
    tags,
    to_column,
)
from crypto.ladder import as_points, multiply

H = bytes.fromhex
P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493  # RFC 7748, §4.1
RUN, RULE = "run-1", "rule"
IDS = st.sets(st.text(max_size=6), max_size=12)


@pytest.fixture(scope="module")
def independent(repository):
    """The verifier of the golden vectors: `ladder(k, u)` in Python's integers, and Euler's criterion."""
    return runpy.run_path(str(repository / "tests" / "golden" / "crypto" / "verify.py"))


def point(*us):
    return as_points(b"".join(int(u).to_bytes(32, "little") for u in us))


def number(row):
    return int.from_bytes(bytes(row), "little")


def secrets(count, run=RUN):
    return [CurveSecret(run, RULE) for _ in range(count)]


def honest(count=3, run=RUN):
    return CurveSecret(run, RULE).mask([f"id {i}" for i in range(count)], run)


def matches(a, b):
    """The ids that two aligned pairs (ids, final points) have in common by their tags."""
    (ids, points), (_, others) = a, b
    if not len(points) or not len(others):
        return set()
    width = tag_bytes(len(points), len(others))
    known = set(map(bytes, tags(others, RUN, width)))
    return {i for i, t in zip(ids, tags(points, RUN, width), strict=True) if bytes(t) in known}


# RFC 7748, §5.2 (both vectors and the first iteration) and §6.1 (both public keys, both shared secrets).
@pytest.mark.parametrize(
    ("scalar", "u", "out"),
    [
        (
            "a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4",
            "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c",
            "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552",
        ),
        (
            "4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d",
            "e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493",
            "95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957",
        ),
        (
            "09" + "00" * 31,
            "09" + "00" * 31,
            "422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079",
        ),
        (
            "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a",
            "09" + "00" * 31,
            "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a",
        ),
        (
            "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb",
            "09" + "00" * 31,
            "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f",
        ),
        (
            "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a",
            "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f",
            "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742",
        ),
        (
            "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb",
            "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a",
            "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742",
        ),
    ],
)
def test_multiples_are_the_vectors_of_rfc_7748(independent, scalar, u, out):
    assert bytes(multiply(X25519PrivateKey.from_private_bytes(H(scalar)), as_points(H(u)))[0]) == H(out)
    assert independent["x25519"](H(scalar), number(H(u)) % 2**255) == H(out)


@settings(deadline=None, max_examples=20)
@given(scalar=st.binary(min_size=32, max_size=32), identifier=st.text(max_size=8))
def test_masked_ids_are_those_of_the_plain_ladder(independent, scalar, identifier):
    secret = CurveSecret(RUN, RULE)
    secret._key = X25519PrivateKey.from_private_bytes(scalar)
    (hashed,) = hash_to_curve([identifier], RUN, RULE)
    assert bytes(secret.mask([identifier], RUN)[0]) == independent["x25519"](scalar, number(hashed))


# The hash to the curve.


def test_a_raw_hash_leaks_a_bit_through_the_mask_and_this_one_does_not(independent):
    """The attacker sees one masked point and knows that it is one of two candidate ids."""
    square, ids = independent["on_curve"], [f"id {i}" for i in range(200)]
    sha256 = independent["hashlib"].sha256
    raw = [int.from_bytes(sha256(i.encode()).digest(), "little") % 2**255 % P for i in ids]
    masked = multiply(X25519PrivateKey.generate(), point(*raw))
    weak = [(square(u), square(number(m))) for u, m in zip(raw, masked, strict=True)]
    assert all(before == after for before, after in weak)  # the bit survives every mask
    assert 60 < sum(before for before, _ in weak) < 140  # and tells half of all ids from the other half
    sound = [(square(number(u)), square(number(m))) for u, m in zip(
        hash_to_curve(ids, RUN, RULE), CurveSecret(RUN, RULE).mask(ids, RUN), strict=True
    )]  # fmt: skip
    assert set(sound) == {(True, True)}  # one value for everyone: nothing to tell apart


def test_hashes_are_spread_over_the_field_and_stand_for_run_rule_and_id():
    ids = [f"id {i}" for i in range(400)]
    quarters = [4 * number(u) // P for u in hash_to_curve(ids, RUN, RULE)]
    assert max(abs(quarters.count(k) - 100) for k in range(4)) < 5 * math.sqrt(400 * 3 / 16)
    texts = [("ab", "c", "d"), ("a", "bc", "d"), ("ab", "", "cd"), ("", "abcd", ""), ("abc", "d", "")]
    texts += [("x", "c", "d"), ("ab", "x", "d"), ("ab", "c", "x")]
    assert len({bytes(hash_to_curve([i], run, rule)) for run, rule, i in texts}) == len(texts)
    assert bytes(hash_to_curve(["ü"], RUN, RULE)) == bytes(hash_to_curve(["ü"], RUN, RULE))


# Two and more parties.


@settings(deadline=None, max_examples=15)
@given(ids=IDS)
def test_any_order_of_masks_gives_the_same_points(ids):
    ids, parties, results = sorted(ids), secrets(3), set()
    for first, *rest in permutations(parties):
        points = first.mask(ids, RUN)
        for other in rest:
            points = other.mask_again(points, RUN)
        results.add(bytes(points))
    assert len(results) == 1


@settings(deadline=None, max_examples=25)
@given(x=IDS, y=IDS)
def test_two_parties_find_the_join_of_their_ids(x, y):
    x, y, (a, b) = sorted(x), sorted(y), secrets(2)
    final = (x, b.mask_again(a.mask(x, RUN), RUN)), (y, a.mask_again(b.mask(y, RUN), RUN))
    assert matches(*final) == matches(*final[::-1]) == set(x) & set(y)


@settings(deadline=None, max_examples=15)
@given(sets=st.lists(st.sets(st.sampled_from("abcdefgh")), min_size=3, max_size=3))
def test_three_parties_in_a_ring_and_in_a_star_find_what_is_common(sets):
    parties, finals = secrets(3), []
    for i, ids in enumerate(sets):  # a ring: each set passes through all three masks
        points = parties[i].mask(sorted(ids), RUN)
        for k in (1, 2):
            points = parties[(i + k) % 3].mask_again(points, RUN)
        finals.append((sorted(ids), points))
    assert matches(finals[0], finals[1]) & matches(finals[0], finals[2]) == set.intersection(*sets)
    for k in (1, 2):  # a star around the first
        theirs = sorted(sets[k]), parties[0].mask_again(parties[k].mask(sorted(sets[k]), RUN), RUN)
        mine = sorted(sets[0]), parties[k].mask_again(parties[0].mask(sorted(sets[0]), RUN), RUN)
        assert matches(mine, theirs) == sets[0] & sets[k]


def test_no_two_runs_or_scalars_have_a_point_or_a_tag_in_common():
    ids, seen, marks = [f"id {i}" for i in range(50)], set(), set()
    for run in ("run-1", "run-2", "run-2"):  # the last two: one name, two scalars
        a, b = secrets(2, run)
        once = a.mask(ids, run)
        twice = b.mask_again(once, run)
        seen |= set(map(bytes, once)) | set(map(bytes, twice))
        marks |= set(map(bytes, tags(twice, run, 32)))
    assert len(seen) == 300
    assert len(marks) == 150
    points = honest()
    assert not set(map(bytes, tags(points, "run-1", 32))) & set(map(bytes, tags(points, "run-2", 32)))


def test_masked_points_lie_in_the_subgroup_of_prime_order(independent):
    for row in honest(8):
        assert independent["ladder"](L, number(row)) == 0  # the point at infinity, and 0 stands for it
        assert independent["ladder"](8, number(row)) != 0


# What is refused.


def torsion(independent):
    """The u of all points of order 1, 2, 4 and 8, found as multiples by L of points of the curve."""
    curve = [u for u in range(2, 400) if independent["on_curve"](u)]
    return {independent["ladder"](L, u) for u in curve}


def test_the_identity_and_points_of_small_order_are_refused(independent):
    small = torsion(independent)
    assert len(small) == 4  # 0 for orders 1 and 2, one u of order 4 and two of order 8
    for u in small:
        with pytest.raises(CryptoError, match="points are refused"):
            check_points(point(u))
        with pytest.raises(CryptoError, match="points are refused"):
            CurveSecret(RUN, RULE).mask_again(np.concatenate([honest(), point(u)]), RUN)
        with pytest.raises(CryptoError, match="is zero"):  # the second line of defence: RFC 7748, §6.1
            multiply(X25519PrivateKey.generate(), point(u))


def test_points_on_the_twist_are_refused(independent):
    twist = [u for u in range(2, 200) if not independent["on_curve"](u)]
    assert len(twist) > 50
    for u in (*twist, P - 1):  # p − 1 has order 4 there
        with pytest.raises(CryptoError, match="points are refused") as refused:
            check_points(np.concatenate([honest(), point(u)]))
        assert refused.value.found == "1"


def test_coordinates_that_are_not_canonical_are_refused(independent):
    u = next(u for u in range(2, 19) if independent["on_curve"](u))
    check_points(point(u))
    for other in (u + P, u + 2**255):  # the same point to X25519
        with pytest.raises(CryptoError, match="points are refused"):
            check_points(point(other))


def test_repeats_are_refused_also_when_they_differ_by_a_point_of_small_order():
    points, secret = honest(), CurveSecret(RUN, RULE)
    with pytest.raises(CryptoError, match="repeat"):
        check_points(np.concatenate([points, points[:1]]))
    with pytest.raises(CryptoError, match="repeat"):
        secret.mask(["7", "8", "7"], RUN)
    shifted = point(gmpy2.invert(number(points[0]), P))  # P + (0, 0), of order 2, has 1/u
    check_points(np.concatenate([points, shifted]))
    with pytest.raises(CryptoError, match="repeat"):
        secret.mask_again(np.concatenate([points, shifted]), RUN)


@pytest.mark.parametrize(
    "points",
    [
        np.zeros((2, 31), np.uint8),
        np.zeros((2, 33), np.uint8),
        np.zeros(64, np.uint8),
        np.zeros((8, 32), np.int8),
        np.zeros((1, 2, 32), np.uint8),
    ],
)
def test_points_of_another_shape_are_refused(points):
    with pytest.raises(CryptoError, match="shape"):
        CurveSecret(RUN, RULE).mask_again(points, RUN)


def test_a_scalar_is_refused_in_a_second_run():
    secret, points = CurveSecret(RUN, RULE), honest()
    secret.mask(["7"], RUN)
    secret.mask_again(points, RUN)
    for use in (lambda: secret.mask(["7"], "run-2"), lambda: secret.mask_again(points, "run-2")):
        with pytest.raises(StateError, match="second run"):
            use()


def test_a_kept_scalar_gives_the_same_points_again_in_its_run_alone():
    secret, ids = CurveSecret(RUN, RULE), ["7", "8"]
    kept = secret.to_bytes()
    again = CurveSecret.from_bytes(kept, RUN, RULE)
    assert bytes(again.mask(ids, RUN)) == bytes(secret.mask(ids, RUN)) != bytes(CurveSecret(RUN, RULE).mask(ids, RUN))
    assert not set(map(bytes, CurveSecret.from_bytes(kept, "run-2", RULE).mask(ids, "run-2"))) & set(
        map(bytes, secret.mask(ids, RUN))
    )
    with pytest.raises(StateError, match="second run"):
        again.mask(ids, "run-2")
    for wrong in (b"", kept[:-1], kept + b"0"):
        with pytest.raises(CryptoError, match="another length") as refused:
            CurveSecret.from_bytes(wrong, RUN, RULE)
        assert kept.hex() not in str(refused.value)


def test_secrets_are_not_shown_and_errors_hold_no_id():
    secret = CurveSecret(RUN, RULE)
    assert repr(secret) == "<CurveSecret, not shown>"
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(CryptoError):
            leak(secret)
    with pytest.raises(CryptoError) as refused:
        secret.mask(["jane.roe@example.org"] * 2, RUN)
    assert "jane" not in str(refused.value)


# Tags, columns, processes.


@given(na=st.integers(1, 2**40), nb=st.integers(1, 2**40))
def test_tags_are_as_long_as_the_sets_need_and_no_longer(na, nb):
    bits = 8 * tag_bytes(na, nb)
    assert 2**bits >= 2**40 * na * nb > 2 ** (bits - 8)


def test_sizes_and_widths_out_of_range_are_refused():
    assert [tag_bytes(*n) for n in ((1, 1), (1, 2), (16, 16), (5000, 5000), (10**8, 10**8))] == [5, 6, 6, 9, 12]
    for sizes in ((0, 5), (5, 0), (-1, 5)):
        with pytest.raises(CryptoError, match="empty"):
            tag_bytes(*sizes)
    for width in (0, 4, 33):
        with pytest.raises(CryptoError, match="width"):
            tags(honest(), RUN, width)
    assert tags(honest(), RUN, 9).shape == (3, 9)
    assert tags(honest(0), RUN, 9).shape == (0, 9)


def test_a_tag_depends_on_its_point_alone():
    points = honest()
    whole = tags(points, RUN, 32)
    assert bytes(tags(points[::-1], RUN, 12)) == bytes(whole[::-1, :12])
    assert len(set(map(bytes, whole))) == 3


def test_points_travel_as_arrow_columns_over_the_same_memory():
    points = honest(5)
    column = to_column(points)
    assert column.type == pa.binary(32)
    assert column.buffers()[1].address == points.ctypes.data
    back = from_column(pa.chunked_array([column]))
    assert back.ctypes.data == points.ctypes.data
    assert bytes(from_column(pa.chunked_array([column.slice(1, 3)]))) == bytes(points[1:4])
    assert bytes(from_column(pa.chunked_array([column[:2], column[2:]]))) == bytes(points)
    assert from_column(pa.chunked_array([], pa.binary(32))).shape == (0, 32)
    assert bytes(from_column(pa.chunked_array([to_column(tags(points, RUN, 9))]), 9)) == bytes(tags(points, RUN, 9))


@pytest.mark.parametrize(
    "column",
    [
        pa.array([b"a" * 31], pa.binary(31)),
        pa.array([b"a" * 32], pa.binary()),
        pa.array([b"a" * 32, None], pa.binary(32)),
        pa.array(["a" * 32]),
    ],
)
def test_columns_of_another_type_are_refused(column):
    with pytest.raises(CryptoError, match="another type"):
        from_column(pa.chunked_array([column]))


def test_no_ids_give_no_points():
    secret = CurveSecret(RUN, RULE)
    assert secret.mask([], RUN).shape == secret.mask_again(honest(0), RUN).shape == (0, 32)


def test_several_processes_give_the_points_of_one(monkeypatch):
    secret, ids = CurveSecret(RUN, RULE), [str(i) for i in range(7)]
    one = secret.mask(ids, RUN)
    again = secret.mask_again(one, RUN)
    monkeypatch.setattr("crypto.parallel.WORTH", 1)
    monkeypatch.setattr("crypto.parallel.usable_cores", lambda: 2)
    assert bytes(secret.mask(ids, RUN)) == bytes(one)
    assert bytes(secret.mask_again(one, RUN)) == bytes(again)
    with pytest.raises(CryptoError, match="multiple of a point is zero"):
        multiply(X25519PrivateKey.generate(), np.concatenate([honest(), point(0)]))
