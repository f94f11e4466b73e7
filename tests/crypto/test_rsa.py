"""RSA keys: what is signed, what is refused, the proof that the map permutes, and the way to other software."""

import copy
import math
import pickle

import gmpy2
import pytest
from Crypto.PublicKey import RSA
from cryptography.hazmat.primitives import serialization
from gmpy2 import mpz

from base.errors import CryptoError
from crypto.blind_rsa import Blinding
from crypto.rsa import E, RsaPublicKey, RsaSecretKey


def test_numbers_that_a_signer_must_not_sign_are_refused(rsa_key, hashes):
    n, (p, _) = rsa_key.public.n, rsa_key._primes
    for bad in (0, 1, n - 1, n, n + 5, p, 7 * p):
        with pytest.raises(CryptoError):
            rsa_key.public.check([*hashes, mpz(bad)])
    with pytest.raises(CryptoError):
        rsa_key.public.check([*hashes, hashes[0]])
    rsa_key.public.check(hashes)


def test_the_proof_holds_for_the_key_and_for_no_other(rsa_key):
    rsa_key.public.check_proof(rsa_key.prove())
    other = RsaSecretKey.generate(2048)
    for roots in ([], rsa_key.prove()[:-1], [*rsa_key.prove()[:-1], mpz(5)], other.prove()):
        with pytest.raises(CryptoError, match="without its proof"):
            rsa_key.public.check_proof(roots)


def test_a_modulus_on_which_e_is_no_permutation_has_no_proof():
    # p = 1 (mod e): x -> x^e maps e elements to one, and only one hash in e has a root.
    start = 3 << 1022
    p = next(x for x in range(start - start % E + 1, 1 << 1024, E) if gmpy2.is_prime(x))
    q = gmpy2.next_prime(mpz(7) << 1021)
    public = RsaPublicKey(p * q)
    rooted = [pow(h, (p - 1) // E, p) == 1 for h in public.challenges()]
    assert not all(rooted)  # so no eight numbers pass, whoever looks for them
    with pytest.raises(CryptoError, match="without its proof"):
        public.check_proof([mpz(2)] * 8)


def test_the_proof_signs_no_message(rsa_key):
    # Whoever sees the proof would else hold the signature of the id "accord rsa proof 1/0".
    signed = {pow(root, E, rsa_key.public.n) for root in rsa_key.prove()}
    messages = [label + b"%d" % i for label in (b"accord rsa proof 1/", b"accord rsa proof 2", b"") for i in range(8)]
    assert len(signed) == 8
    assert not signed & {rsa_key.public.hash(message) for message in messages}


def test_moduli_with_small_factors_primes_and_other_sizes_are_refused(rsa_key):
    n = int(rsa_key.public.n)
    small = 65537 * int(gmpy2.next_prime(1 << 2031))
    for bad in (n // 2, n * 3, small, int(gmpy2.next_prime(1 << 2047)), n - 1):
        with pytest.raises(CryptoError):
            RsaPublicKey(bad)


def test_the_hash_covers_z_n_and_depends_on_the_key(rsa_key):
    assert rsa_key.public.hash(b"a") != RsaSecretKey.generate(2048).public.hash(b"a")
    hashes = [rsa_key.public.hash(b"%d" % i) for i in range(400)]
    assert all(0 < h < rsa_key.public.n for h in hashes)
    # Uniform: a quarter of n each, within five standard deviations.
    quarters = [sum(1 for h in hashes if 4 * h // rsa_key.public.n == k) for k in range(4)]
    assert max(abs(count - 100) for count in quarters) < 5 * math.sqrt(400 * 3 / 16)


def test_keys_come_back_and_are_never_shown(rsa_key):
    assert RsaSecretKey.from_bytes(rsa_key.to_bytes()).public.n == rsa_key.public.n
    with pytest.raises(CryptoError):
        RsaSecretKey.generate(1024)
    for secret in (rsa_key, Blinding(rsa_key.public, [mpz(5)])):
        assert repr(secret) == f"<{type(secret).__name__}, not shown>"
        for leak in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(CryptoError):
                leak(secret)


def test_a_key_goes_to_other_software_and_comes_back(rsa_key):
    pem = rsa_key.to_pem("a long phrase")
    other = serialization.load_pem_private_key(pem.encode(), b"a long phrase")
    assert other.private_numbers().public_numbers.n == rsa_key.public.n
    again = RsaSecretKey.from_pem(pem, "a long phrase")
    assert again.public.n == rsa_key.public.n
    assert again.sign([mpz(5)]) == rsa_key.sign([mpz(5)])
    for text, phrase in ((pem, "another"), (pem[:-40], "a long phrase"), (pem, "")):
        with pytest.raises(CryptoError, match="cannot be read"):
            RsaSecretKey.from_pem(text, phrase)
    small = RSA.generate(2048, e=3)
    with pytest.raises(CryptoError, match="cannot be used"):
        RsaSecretKey.from_pem(sealed(small), "a long phrase")
    public_alone = rsa_key_of(rsa_key).public_key().export_key("PEM").decode()
    with pytest.raises(CryptoError, match="not encrypted"):
        RsaSecretKey.from_pem(public_alone, "a long phrase")
    with pytest.raises(CryptoError, match="without a passphrase"):
        rsa_key.to_pem("")


def sealed(key):
    return key.export_key(
        "PEM", "a long phrase", 8, "scryptAndAES256-CBC", prot_params={"iteration_count": 16}
    ).decode()


def rsa_key_of(key):
    return RSA.construct((int(key.public.n), E, int(key._d), *map(int, key._primes)))


def test_a_key_in_the_clear_is_refused_whatever_the_passphrase(rsa_key):
    other = rsa_key_of(rsa_key)
    assert RsaSecretKey.from_pem("\n" + sealed(other), "a long phrase").public.n == rsa_key.public.n
    clear = [other.export_key("PEM", pkcs=pkcs).decode() for pkcs in (1, 8)]
    weak = other.export_key("PEM", "a long phrase", pkcs=1).decode()  # DES and MD5
    for pem in (*clear, weak, other.export_key("DER").decode("latin-1")):
        for phrase in ("", "a long phrase"):
            with pytest.raises(CryptoError, match="not encrypted"):
                RsaSecretKey.from_pem(pem, phrase)


def prime(bits):
    start = gmpy2.mpz(3) << (bits - 2)
    return next(p for p in iter_primes(start) if p % E != 1)


def iter_primes(p):
    while True:
        p = gmpy2.next_prime(p)
        yield p


def test_numbers_that_are_no_primes_of_a_key_are_refused(rsa_key):
    p, q = (int(x) for x in rsa_key._primes)
    long, short = int(prime(1100)), int(prime(948))
    one_modulo_e = next(x for x in range((3 << 1022) // E * E + 1, 1 << 1024, E) if gmpy2.is_prime(x))
    for wrong in ((long, short), (p, p), (p, q + 1), (p, one_modulo_e), (0, 0), (-p, -q), (1, p * q)):
        with pytest.raises(CryptoError, match="no primes"):
            RsaSecretKey(*wrong)
    d = int(gmpy2.invert(E, gmpy2.lcm(long - 1, short - 1)))
    unequal = RSA.construct((long * short, E, d, long, short))
    with pytest.raises(CryptoError, match="no primes"):
        RsaSecretKey.from_pem(sealed(unequal), "a long phrase")
    for data in (b"", bytes(256), rsa_key.to_bytes()[:-1], rsa_key.to_bytes()[2:]):
        with pytest.raises(CryptoError, match="no primes"):
            RsaSecretKey.from_bytes(data)
