import copy
import math
import pickle

import gmpy2
import numpy as np
import phe
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from base.errors import CryptoError
from crypto.matrix import matvec, multi_exp
from crypto.packing import LANE_BITS, Lanes
from crypto.paillier import PublicKey, SecretKey, total
from crypto.primes import find_generator, generate_prime, known_factors

LANES = Lanes(16, 6, 3)
few = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def primes(key):
    return [half.p for half in key._halves]


def test_primes_are_what_the_fast_randomness_needs(secret_key):
    p, q = primes(secret_key)
    assert secret_key.public.n == p * q
    assert secret_key.public.bits == 2048
    assert p % 4 == q % 4 == 3
    assert math.gcd(int(p - 1), int(q - 1)) == 2
    assert all(gmpy2.is_prime(x) and x.bit_length() == 1024 and x >> 1022 == 3 for x in (p, q))


def test_a_generator_has_the_full_order():
    p, s = generate_prime(512)
    assert known_factors(p, s)
    g, t = find_generator(p, s), (p - 1) // (2 * s)
    assert [pow(g, (p - 1) // f, p) == 1 for f in (1, 2, s, t)] == [True, False, False, False]
    assert not known_factors(p, s + 2)
    assert not known_factors(p, gmpy2.mpz(0))


@st.composite
def sums(draw):
    lane, parties = draw(st.sampled_from(LANE_BITS)), draw(st.integers(1, 5))
    lanes = Lanes(lane, 0, parties)
    extreme = st.sampled_from([-lanes.limit, 0, lanes.limit])
    element = st.one_of(extreme, st.integers(-lanes.limit, lanes.limit)).map(lambda x: x if lane < 96 else x >> 12)
    length = draw(st.integers(1, 6))
    rows = st.lists(element, min_size=length, max_size=length)
    return lanes, draw(st.lists(rows, min_size=parties, max_size=parties))


@few
@given(sums())
def test_the_decrypted_sum_is_the_sum_at_the_extremes_too(secret_key, case):
    lanes, parts = case
    vectors = [
        key.encrypt(np.array(x), lanes) for key, x in zip([secret_key, secret_key.public] * 3, parts, strict=False)
    ]
    assert (secret_key.decrypt(total(vectors)) == np.sum(parts, axis=0)).all()


@few
@given(st.lists(st.tuples(st.integers(-(2**15), 2**15 - 1), st.integers(-127, 127)), min_size=1, max_size=8))
def test_wide_multiples_and_sums_of_multiples_are_exact_in_lanes_of_96_bits(secret_key, pairs):
    x, v = np.array(pairs).T
    rows = secret_key.encrypt_rows(np.stack([v, -v], axis=1), Lanes(96, 0, 2**40))
    T = matvec(x.astype(np.int16)[:, None], rows)
    assert (secret_key.decrypt_rows(T) == [[x @ v, -(x @ v)]]).all()
    s = multi_exp(x.astype(np.int16)[:, None], T)
    assert (secret_key.decrypt_rows(s) == np.outer(x, [x @ v, -(x @ v)])).all()


@few
@given(st.lists(st.tuples(st.integers(-128, 127), st.integers(-127, 127)), min_size=1, max_size=8))
def test_the_decrypted_multiple_is_the_multiple_for_negative_multipliers_too(secret_key, pairs):
    x, v = np.array(pairs).T
    rows = secret_key.encrypt_rows(np.stack([v, -v, 0 * v], axis=1), Lanes(32, 0, 2**11))
    found = secret_key.decrypt_rows(matvec(x.astype(np.int8)[:, None], rows))
    assert (found == [[x @ v, -(x @ v), 0]]).all()


def test_phe_decrypts_what_either_key_encrypts(secret_key):
    p, q = map(int, primes(secret_key))
    oracle = phe.PaillierPrivateKey(phe.PaillierPublicKey(p * q), p, q)
    values = np.array([1.5, -2.0, 127.0])
    packed = LANES.pack(LANES.quantise(values), 127)[0]
    for key in (secret_key, secret_key.public):
        (c,) = key.encrypt(values, LANES).ciphertexts
        assert oracle.raw_decrypt(int(c)) == packed % (p * q)


def test_what_phe_encrypts_decrypts_here(secret_key):
    oracle = phe.PaillierPublicKey(int(secret_key.public.n))
    for m in (0, 1, 12345, oracle.n - 1, oracle.n // 2):
        assert secret_key.decrypt_packed([gmpy2.mpz(oracle.raw_encrypt(m))]) == [m]


def test_both_kinds_of_randomness_are_nth_residues_of_full_width(secret_key):
    n, nn = secret_key.public.n, secret_key.public.nn
    p, q = primes(secret_key)
    for z in (*secret_key.public.blinders(2), *secret_key.encrypt_packed([gmpy2.mpz(0)] * 2)):
        # An n-th residue has an order that divides λ(n) = lcm(p − 1, q − 1), and an encryption of m ≠ 0 has not.
        assert pow(z, gmpy2.lcm(p - 1, q - 1), nn) == 1
        assert pow(z * (1 + n) % nn, gmpy2.lcm(p - 1, q - 1), nn) != 1
        assert z.bit_length() > 2 * 2048 - 64


def test_the_same_values_never_encrypt_alike(secret_key):
    for key in (secret_key, secret_key.public):
        assert len({key.encrypt(np.ones(1), LANES).ciphertexts[0] for _ in range(5)}) == 5


def test_floats_come_back_within_the_quantum_and_integers_exactly(secret_key):
    v = np.random.default_rng(1).uniform(-100, 100, 300)
    back = secret_key.decrypt(secret_key.encrypt(v, LANES))
    assert back.dtype == np.float64
    assert np.abs(back - v).max() <= 2**-7
    vector = secret_key.encrypt(v, LANES)
    assert (secret_key.decrypt(vector, threads=2) == secret_key.decrypt(vector)).all()
    integers = np.arange(-5, 5).reshape(2, 5)
    assert secret_key.decrypt(secret_key.encrypt(integers, Lanes(16))).tolist() == integers.ravel().tolist()
    assert secret_key.decrypt_rows(secret_key.encrypt_rows(integers, Lanes(16))).tolist() == integers.tolist()


@pytest.mark.parametrize("bits", [3072, 4096])
def test_longer_keys_and_the_default(bits):
    key = SecretKey.generate() if bits == 3072 else SecretKey.generate(bits)
    assert key.public.bits == bits
    v = np.array([1.5, -2.0])
    assert key.decrypt(total([key.encrypt(v, LANES), key.public.encrypt(v, LANES)])).tolist() == [3.0, -4.0]


def test_what_is_no_matrix_is_no_rows(secret_key):
    for rows in (np.ones(3), np.ones((2, 2, 2)), np.ones((2, 0))):
        with pytest.raises(CryptoError, match="is not a matrix"):
            secret_key.encrypt_rows(rows, LANES)


def test_values_that_do_not_fit_are_refused_before_anything_is_encrypted(secret_key):
    for bad in (np.nan, np.inf, 1e6):
        with pytest.raises(CryptoError, match="delta"):
            secret_key.public.encrypt(np.array([bad]), LANES, "delta")


def test_other_keys_and_overflowing_plaintexts_do_not_decrypt(secret_key, other_key):
    vector = secret_key.encrypt(np.ones(3), LANES)
    with pytest.raises(CryptoError, match="another key"):
        other_key.decrypt(vector)
    key, nn = secret_key.public, secret_key.public.nn

    def tampered(m):
        c = vector.ciphertexts[0] * (1 + gmpy2.mpz(m) % key.n * key.n) % nn
        return vector.holding((c,))

    with pytest.raises(CryptoError, match="outside the lanes"):
        secret_key.decrypt(tampered(1 << 2040))
    with pytest.raises(CryptoError, match="out of range"):
        secret_key.decrypt(tampered(1 << (3 * 16)))  # a value behind the end
    with pytest.raises(CryptoError, match="out of range"):
        secret_key.decrypt(tampered(LANES.limit))  # 64 + 8191: more than one summand can be
    assert secret_key.decrypt(tampered(64)).tolist() == [2.0, 1.0, 1.0]


def test_keys_come_back_from_their_bytes(secret_key):
    assert PublicKey.from_bytes(secret_key.public.to_bytes()) == secret_key.public
    again = SecretKey.from_bytes(secret_key.to_bytes())
    assert again.public == secret_key.public
    assert again.decrypt(secret_key.encrypt(np.ones(2), LANES)).tolist() == [1.0, 1.0]
    assert len(again.public.fingerprint) == 64


def test_malformed_keys_are_refused(secret_key):
    public, secret = secret_key.public.to_bytes(), secret_key.to_bytes()
    for data in (b"", public[:-1], b"\x02" + public[1:], public[:-1] + b"\x00", public[:1] + b"\x00" * 256):
        with pytest.raises(CryptoError):
            PublicKey.from_bytes(data)
    half = 128
    for data in (
        b"",
        secret[:-1],
        secret[half : 2 * half] * 2 + secret[2 * half :],  # p = q
        secret[: half - 1] + bytes([secret[half - 1] ^ 6]) + secret[half:],  # p not prime
        secret[:-1] + bytes([secret[-1] ^ 2]),  # a cofactor that does not divide
        secret[: 2 * half] + bytes(33) + secret[2 * half + 33 :],  # one cofactor missing
    ):
        with pytest.raises(CryptoError):
            SecretKey.from_bytes(data)
    with pytest.raises(CryptoError):
        SecretKey.generate(1024)
    p = next(half.p for half in secret_key._halves)
    for n in (3 * (1 << 2046) + 3, p * p):
        with pytest.raises(CryptoError):
            PublicKey(n)


def test_secret_keys_are_never_shown_pickled_or_copied(secret_key):
    parts = [secret_key, *secret_key._halves, secret_key._halves[0]._table]
    for part in parts:
        assert repr(part) == f"<{type(part).__name__}, not shown>"
        for leak in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(CryptoError, match="neither pickled nor copied"):
                leak(part)
    shown = repr(secret_key.public) + repr(secret_key.encrypt(np.ones(1), LANES))
    assert str(secret_key.public.n) not in shown
    assert len(shown) < 200
