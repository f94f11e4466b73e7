import os

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import chisquare

from base.errors import CryptoError
from crypto import masks
from crypto.agreement import x25519
from crypto.masks import add_pads, digest, pack, pair_seed, unpack, words_of
from crypto.packing import Lanes

PRESETS = [8, 10, 16, 24, 32]
H = bytes.fromhex


def test_the_keystream_gives_the_vector_of_sp_800_38a(monkeypatch):
    # F.5.5, CTR-AES256.Encrypt: the vector starts from another counter, the cipher and the key are the same.
    monkeypatch.setattr(masks, "CTR", lambda zero: CTR(H("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff")))
    from cryptography.hazmat.primitives.ciphers.modes import CTR

    words = np.zeros(2, np.uint64)
    add_pads(words, [H("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")], [])
    plain, cipher = H("6bc1bee22e409f96e93d7e117393172a"), H("601ec313775789a5b7a7f504bbf3d228")
    assert words.tobytes() == bytes(a ^ b for a, b in zip(plain, cipher, strict=True))


def test_packing_by_hand():
    # Lanes of 8 bits for two summands: b = 7, so 64 is added; five values are W = 1 word, the check word is zero.
    lanes = Lanes(8, 0, 2)
    assert pack(np.array([1, -2, 3, 0, -63]), lanes).tolist() == [
        65 + (62 << 8) + (67 << 16) + (64 << 24) + (1 << 32),
        0,
    ]
    # Two words: value i stands in word i mod 2.
    words = pack(np.arange(9.0, dtype=np.float32), lanes)
    assert [int(word) & 255 for word in words] == [64, 65, 0]
    assert [int(word) >> 8 & 255 for word in words] == [66, 67, 0]


@pytest.mark.parametrize("lane", PRESETS)
def test_words_hold_as_many_lanes_as_fit(lane):
    per = {8: 8, 10: 6, 16: 4, 24: 2, 32: 2}[lane]
    assert [words_of(Lanes(lane), size) for size in (1, per, per + 1)] == [2, 2, 3]


@st.composite
def sums(draw):
    n = draw(st.integers(3, 6))
    lanes = Lanes(draw(st.sampled_from([*PRESETS, 64])), 0, n)
    size = draw(st.integers(1, 40))
    extreme = st.sampled_from([-lanes.limit, lanes.limit, 0])
    elements = st.one_of(st.integers(-lanes.limit, lanes.limit), extreme)
    return lanes, draw(hnp.arrays(np.int64, (n, size), elements=elements, fill=extreme))


@given(sums())
def test_masked_vectors_sum_to_the_sum_in_every_lane_and_at_the_extremes(case):
    lanes, values = case
    seeds = [os.urandom(32) for _ in values]
    total = np.zeros(words_of(lanes, values.shape[1]), np.uint64)
    for i, row in enumerate(values):
        words = pack(row, lanes)
        add_pads(words, [seeds[i]], [seeds[i - 1]])
        total += words
    assert (unpack(total, lanes, values.shape[1], len(values)) == values.sum(axis=0)).all()


@given(
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from(PRESETS),
    st.integers(0, 6),
    hnp.arrays(np.float64, st.integers(1, 50), elements=st.floats(-1, 1, width=32)),
)
def test_quantisation_in_place_is_that_of_lanes(kind, lane, fraction, values):
    lanes = Lanes(lane, fraction, 1)
    some = (values * np.ldexp(lanes.limit, -fraction)).astype(kind)
    some = np.clip(some, np.nextafter(-some.dtype.type(np.ldexp(lanes.limit, -fraction)), kind(0)),
                   np.nextafter(some.dtype.type(np.ldexp(lanes.limit, -fraction)), kind(0)))  # fmt: skip
    before = some.copy()
    found = unpack(pack(some, lanes), lanes, some.size, 1)
    assert (found == lanes.quantise(some) / 2.0**fraction).all()
    assert (some == before).all()


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.int8, np.int64])
def test_every_kind_of_number_across_chunks_and_shapes(kind):
    lanes = Lanes(10, 2, 3)
    values = (np.arange(6 * (1 << 15) + 1001) % 63 - 31).astype(kind)
    assert (unpack(pack(values.reshape(1, -1), lanes), lanes, values.size, 1) == values).all()
    assert (unpack(pack(values[::-1], lanes), lanes, values.size, 1) == values[::-1]).all()


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("fraction", [0, 3, 200])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e30])
def test_nan_infinity_and_overflow_are_refused_by_name(kind, fraction, bad):
    values = np.zeros(100_000, kind)
    values[77_777] = bad
    with pytest.raises(CryptoError, match=r"gradient (do not fit|has NaN)") as refusal:
        pack(values, Lanes(16, fraction, 3), "gradient")
    assert "1 o" in str(refusal.value)


@pytest.mark.parametrize("lane", PRESETS)
def test_the_limit_fits_and_one_more_does_not(lane):
    lanes = Lanes(lane, 0, 3)
    for kind in (np.float64, np.int64):
        top = np.array([lanes.limit, -lanes.limit], kind)
        assert unpack(3 * pack(top, lanes), lanes, 2, 3).tolist() == [3 * lanes.limit, -3 * lanes.limit]
        for one in (lanes.limit + 1, -lanes.limit - 1):
            with pytest.raises(CryptoError, match="do not fit"):
                pack(np.array([one], kind), lanes)


def test_a_wrong_number_of_contributors_is_noticed():
    lanes = Lanes(16, 0, 8)
    words = pack(np.array([lanes.limit, -lanes.limit] * 2 + [0]), lanes)
    for contributors in (0, 2):
        with pytest.raises(CryptoError, match="do not cancel"):
            unpack(words, lanes, 5, contributors)


@pytest.mark.parametrize("lane", PRESETS)
def test_a_pad_left_over_is_noticed_and_so_is_a_word_added_to_the_check(lane):
    lanes = Lanes(lane, 0, 3)
    words = 3 * pack(np.zeros(30), lanes)
    one = words.copy()
    one[-1] += np.uint64(1)
    add_pads(words, [os.urandom(32)], [])
    for wrong in (words, one):
        with pytest.raises(CryptoError, match="do not cancel"):
            unpack(wrong, lanes, 30, 3)


@pytest.mark.parametrize(("lane", "bit"), [(10, 63), (10, 60), (24, 48)])
def test_a_bit_outside_the_lanes_is_noticed(lane, bit):
    words = pack(np.zeros(30), Lanes(lane))
    words[2] ^= np.uint64(1 << bit)
    with pytest.raises(CryptoError, match="do not cancel"):
        unpack(words, Lanes(lane), 30, 1)


def test_a_value_behind_the_last_is_noticed():
    words = pack(np.zeros(5), Lanes(8))  # one word, three of its lanes hold nothing
    words[0] |= np.uint64(1 << 63)
    with pytest.raises(CryptoError, match="do not cancel"):
        unpack(words, Lanes(8), 5, 1)


def test_masked_words_are_uniform():
    # Chi-square of the bytes of 10^5 values at the extremes, each masked once: p is uniform, 1e-6 is not seen.
    lanes = Lanes(8, 0, 3)
    for value in (lanes.limit, -lanes.limit, 0):
        words = pack(np.full(100_000, value), lanes)
        plain = np.bincount(words.view(np.uint8), minlength=256)
        add_pads(words, [os.urandom(32)], [os.urandom(32)])
        assert chisquare(np.bincount(words.view(np.uint8), minlength=256)).pvalue > 1e-6
        assert chisquare(plain).pvalue < 1e-6


def test_pads_of_two_chunks_are_one_stream_and_undo_themselves():
    seed, size = os.urandom(32), (1 << 16) + 7
    words = np.zeros(size, np.uint64)
    add_pads(words, [seed], [])
    short = np.zeros(5, np.uint64)
    add_pads(short, [seed], [])
    assert (words[:5] == short).all()
    assert len(np.unique(words)) == size
    add_pads(words, [], [seed])
    assert not words.any()


def test_a_pair_has_one_seed_for_a_context_and_others_for_others():
    a, b, c = (X25519PrivateKey.generate() for _ in range(3))
    seed = pair_seed(a, b.public_key().public_bytes_raw(), b"round 1")
    assert seed == pair_seed(b, a.public_key().public_bytes_raw(), b"round 1")
    others = [pair_seed(a, b.public_key().public_bytes_raw(), b"round 2"),
              pair_seed(a, c.public_key().public_bytes_raw(), b"round 1")]  # fmt: skip
    assert len({seed, *others}) == 3


def equivalent(public):
    """The same key in other bytes: with the top bit, not canonical, and P + (0, 0), which is 1/u."""
    u, p = int.from_bytes(public, "little"), 2**255 - 19
    numbers = (u | 1 << 255, pow(u, -1, p), pow(u, -1, p) | 1 << 255)
    return [number.to_bytes(32, "little") for number in numbers]


def test_an_equivalent_key_has_the_same_diffie_hellman_value_and_another_seed():
    a, b = (X25519PrivateKey.generate() for _ in range(2))
    public = a.public_key().public_bytes_raw()
    for copy in equivalent(public):
        assert x25519(b, copy) == x25519(b, public)
        assert pair_seed(b, copy, b"round 1") != pair_seed(b, public, b"round 1")


def test_the_check_word_says_nothing_of_a_changed_data_word():
    lanes = Lanes(16, 0, 3)
    words = pack(np.zeros(6), lanes)
    words[0] += np.uint64(5)  # sums of masked words change alike; H(y) is what notices it
    assert unpack(words, lanes, 6, 1).tolist() == [5, 0, 0, 0, 0, 0]


def test_wrong_seeds_and_lanes_are_refused():
    for seed in (b"", bytes(16), bytes(33)):
        with pytest.raises(CryptoError, match="seed has another length"):
            add_pads(np.zeros(1, np.uint64), [seed], [])
    with pytest.raises(CryptoError, match="no lanes of words"):
        words_of(Lanes(16), 0)


def test_the_digest_sees_every_word():
    words = np.arange(5, dtype=np.uint64)
    changed = words.copy()
    changed[3] ^= np.uint64(1)
    assert digest(words) != digest(changed)
    assert digest(words) == digest(words.astype(">u8"))
