import copy
import math
import pickle

import gmpy2
import pytest
from gmpy2 import mpz

from base.errors import CryptoError
from crypto import backend
from crypto.blind_rsa import Blinding, E, RsaPublicKey, RsaSecretKey, tag


@pytest.fixture(scope="module")
def key():
    return RsaSecretKey.generate(2048)


@pytest.fixture(scope="module")
def hashes(key):
    return [key.public.hash(b"id %d" % i) for i in range(5)]


def test_blind_signatures_are_the_textbook_signatures(key, hashes):
    p, q = (int(x) for x in key._primes)
    d = pow(E, -1, math.lcm(p - 1, q - 1))
    blinding = Blinding(key.public, hashes)
    key.public.check(blinding.blinded)
    assert not set(blinding.blinded) & set(hashes)
    assert blinding.unblind(key.sign(blinding.blinded)) == [pow(int(h), d, p * q) for h in hashes]
    assert key.sign(hashes) == [pow(int(h), d, p * q) for h in hashes]


def test_blinding_is_fresh(key, hashes):
    assert not set(Blinding(key.public, hashes).blinded) & set(Blinding(key.public, hashes).blinded)


def test_a_wrong_or_missing_signature_is_refused_by_the_receiver(key, hashes):
    blinding = Blinding(key.public, hashes)
    signed = key.sign(blinding.blinded)
    for bad in (signed[:-1], [signed[0] + 1, *signed[1:]], signed[::-1]):
        with pytest.raises(CryptoError):
            blinding.unblind(bad)


def test_numbers_that_a_signer_must_not_sign_are_refused(key, hashes):
    n, (p, _) = key.public.n, key._primes
    for bad in (0, 1, n - 1, n, n + 5, p, 7 * p):
        with pytest.raises(CryptoError):
            key.public.check([*hashes, mpz(bad)])
    with pytest.raises(CryptoError):
        key.public.check([*hashes, hashes[0]])
    key.public.check(hashes)


def test_the_proof_holds_for_the_key_and_for_no_other(key):
    key.public.check_proof(key.prove())
    other = RsaSecretKey.generate(2048)
    for roots in ([], key.prove()[:-1], [*key.prove()[:-1], mpz(5)], other.prove()):
        with pytest.raises(CryptoError, match="without its proof"):
            key.public.check_proof(roots)


def test_a_modulus_on_which_e_is_no_permutation_has_no_proof():
    # p = 1 (mod e): x -> x^e maps e elements to one, and only one hash in e has a root.
    start = 3 << 1022
    p = next(x for x in range(start - start % E + 1, 1 << 1024, E) if gmpy2.is_prime(x))
    q = gmpy2.next_prime(mpz(7) << 1021)
    public = RsaPublicKey(p * q)
    rooted = [pow(public.hash(b"accord rsa proof 1/%d" % i), (p - 1) // E, p) == 1 for i in range(8)]
    assert not all(rooted)  # so no eight numbers pass, whoever looks for them
    with pytest.raises(CryptoError, match="without its proof"):
        public.check_proof([mpz(2)] * 8)


def test_moduli_with_small_factors_primes_and_other_sizes_are_refused(key):
    n = int(key.public.n)
    small = 65537 * int(gmpy2.next_prime(1 << 2031))
    for bad in (n // 2, n * 3, small, int(gmpy2.next_prime(1 << 2047)), n - 1):
        with pytest.raises(CryptoError):
            RsaPublicKey(bad)


def test_the_hash_covers_z_n_and_depends_on_the_key(key):
    assert key.public.hash(b"a") != RsaSecretKey.generate(2048).public.hash(b"a")
    hashes = [key.public.hash(b"%d" % i) for i in range(400)]
    assert all(0 < h < key.public.n for h in hashes)
    # Uniform: a quarter of n each, within five standard deviations.
    quarters = [sum(1 for h in hashes if 4 * h // key.public.n == k) for k in range(4)]
    assert max(abs(count - 100) for count in quarters) < 5 * math.sqrt(400 * 3 / 16)


def test_tags_differ_by_run_and_signature(key, hashes):
    tags = {tag(key.public, h, run) for h in hashes for run in ("run-1", "run-2")}
    assert len(tags) == 10
    assert {len(t) for t in tags} == {32}


def test_all_inverses_come_from_one_inversion(key):
    n = key.public.n
    numbers = [mpz(x) for x in (2, 3, 12345, n - 1, 2)]
    assert [x * y % n for x, y in zip(numbers, backend.inverses(numbers, n), strict=True)] == [1] * 5
    assert backend.inverses([], n) == []
    with pytest.raises(ZeroDivisionError):
        backend.inverses([mpz(2), key._primes[0]], n)


def test_keys_come_back_and_are_never_shown(key):
    assert RsaSecretKey.from_bytes(key.to_bytes()).public.n == key.public.n
    with pytest.raises(CryptoError):
        RsaSecretKey.generate(1024)
    for secret in (key, Blinding(key.public, [mpz(5)])):
        assert repr(secret) == f"<{type(secret).__name__}, not shown>"
        for leak in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(CryptoError):
                leak(secret)
