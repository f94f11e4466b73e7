"""RSA signatures with a full-domain hash, and a proof that the key's map permutes Z_n*.

    H(x)    MGF1-SHA-256 to |n| + 128 bits, reduced modulo n, so nearly uniform in Z_n
    sign    x^d by CRT, checked with e before it leaves: one faulty half gives n's factors away (Boneh, DeMillo and
            Lipton 1997)

A receiver who does not trust n gets a proof that x -> x^e permutes Z_n*: no prime factor of n up to e, and e-th roots
of 8 hashes, which a modulus without the property has with probability below e^−8 = 2^−128 (Goldberg, Reyzin, Sagga and
Baldimtsi 2019, theorem 3.3). These hashes have a label of their own: no message is signed by the proof. Assumption:
RSA, with H a random oracle.

Not constant time: gmpy2's powmod sees d. Whoever asks chooses what is signed, so base and exponent are blinded.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

import gmpy2
from Crypto.PublicKey import RSA
from gmpy2 import mpz

from base.canonical import digest_bytes
from base.errors import CryptoError
from crypto import backend
from crypto.agreement import frame
from crypto.primes import random_unit
from crypto.secret import Secret

BITS = (2048, 3072, 4096)
E = 65537
PROOF_ROOTS = 8
_SCRYPT = 1 << 15  # memory and time of a guess at a passphrase: 32 MB
_ENCRYPTED = "-----BEGIN ENCRYPTED PRIVATE KEY-----"
_SMALL_PRIMES = gmpy2.primorial(E)  # the product of all primes up to e, e included


class RsaPublicKey:
    """The signer's modulus; e = 65537."""

    def __init__(self, n: int) -> None:
        """Take the modulus; `CryptoError` for another size, or for a prime factor up to e."""
        self.n = mpz(n)
        self.bits = int(self.n.bit_length())
        if self.bits not in BITS or gmpy2.gcd(self.n, _SMALL_PRIMES) != 1 or gmpy2.is_prime(self.n):
            raise CryptoError("an RSA modulus is not usable", expected=f"{BITS} bits, no small factor", found=self.bits)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the key, in hex."""
        return digest_bytes(b"accord rsa key 1" + self.to_bytes(self.n))

    def to_bytes(self, number: mpz) -> bytes:
        """Return a number modulo n, big-endian, as wide as n."""
        return int(number).to_bytes(self.bits // 8, "big")

    def hash(self, message: bytes) -> mpz:
        """Return H(message) in Z_n."""
        return self._expand(b"accord rsa fdh 1", message)

    def challenges(self) -> list[mpz]:
        """Return the numbers whose e-th roots prove the key."""
        return [self._expand(b"accord rsa proof 2", b"%d" % i) for i in range(PROOF_ROOTS)]

    def _expand(self, label: bytes, message: bytes) -> mpz:
        seed = frame(label, bytes.fromhex(self.fingerprint), message)
        width = self.bits // 8 + 16
        blocks = (
            hashlib.sha256(seed + i.to_bytes(4, "big")).digest() for i in range(-(-width // 32))
        )  # RFC 8017, B.2.1
        return mpz(int.from_bytes(b"".join(blocks)[:width], "big")) % self.n

    def check_proof(self, roots: Sequence[mpz]) -> None:
        """Raise `CryptoError` unless `roots` prove that x -> x^e permutes Z_n*."""
        powers = [gmpy2.powmod(root, E, self.n) for root in roots]
        if powers != self.challenges():
            raise CryptoError("an RSA key comes without its proof", expected=f"{PROOF_ROOTS} e-th roots")

    def check(self, numbers: Sequence[mpz]) -> None:
        """Raise `CryptoError` for 0, ±1, numbers out of range or not coprime with n, and repeats."""
        outside = sum(1 for x in numbers if not 1 < x < self.n - 1)
        if outside or len(set(numbers)) != len(numbers) or gmpy2.gcd(backend.product(numbers, self.n), self.n) != 1:
            raise CryptoError("numbers to sign are refused", expected="different units of Z_n, none of them 0, 1 or -1")


class RsaSecretKey(Secret):
    """The signer's key."""

    def __init__(self, p: int, q: int) -> None:
        """Take the primes; `CryptoError` unless they are two primes of equal size that e can serve."""
        p, q = mpz(p), mpz(q)
        sizes = (int(p.bit_length()), int(q.bit_length()))
        primes = p != q and all(x > 1 and gmpy2.is_prime(x) and (x - 1) % E for x in (p, q))
        if sizes[0] != sizes[1] or not primes:
            raise CryptoError(
                "numbers that are no primes of an RSA key", found=f"{sizes} bits",
                expected=f"two primes of equal size, neither of them 1 modulo {E}",
            )  # fmt: skip
        self.public = RsaPublicKey(p * q)
        self._primes = (p, q)
        self._d = gmpy2.invert(E, gmpy2.lcm(p - 1, q - 1))
        self._exponents = tuple(gmpy2.invert(E, x - 1) for x in (p, q))
        self._inverse = gmpy2.invert(p, q)

    @classmethod
    def generate(cls, bits: int = 3072) -> RsaSecretKey:
        """Return a new key of 2048, 3072 or 4096 bits (FIPS 186-5, through pycryptodome); a few seconds."""
        if bits not in BITS:
            raise CryptoError("an RSA key of another size", expected=BITS, found=bits)
        key = RSA.generate(bits, e=E)
        return cls(key.p, key.q)

    def to_bytes(self) -> bytes:
        """Return p and q, for the key store and for nothing else."""
        return b"".join(int(x).to_bytes(self.public.bits // 16, "big") for x in self._primes)

    @classmethod
    def from_bytes(cls, data: bytes) -> RsaSecretKey:
        """Rebuild a key from `to_bytes`."""
        half = len(data) // 2
        return cls(int.from_bytes(data[:half], "big"), int.from_bytes(data[half:], "big"))

    def to_pem(self, passphrase: str) -> str:
        """Return the key for other software: PKCS#8, scrypt and AES-256-CBC (RFC 5958, RFC 8018), by pycryptodome."""
        if not passphrase:
            raise CryptoError("an RSA key would leave without a passphrase", expected="one or more characters")
        key = RSA.construct((int(self.public.n), E, int(self._d), *map(int, self._primes)))
        sealed: bytes = key.export_key(
            "PEM", passphrase, 8, "scryptAndAES256-CBC", prot_params={"iteration_count": _SCRYPT}
        )
        return str(sealed, "ascii")

    @classmethod
    def from_pem(cls, pem: str, passphrase: str) -> RsaSecretKey:
        """Read an encrypted PKCS#8 key of other software (RFC 7468, section 11).

        `CryptoError` for a key that is not encrypted so, another passphrase, another e, primes of unequal size, or what
        is no private key.
        """
        pem = pem.strip()
        if not pem.startswith(_ENCRYPTED):
            raise CryptoError("an RSA key is not encrypted", expected=_ENCRYPTED, remedy="openssl pkcs8 -topk8 -in KEY")
        try:
            key = RSA.import_key(pem, passphrase)
        except (ValueError, IndexError, TypeError) as error:
            raise CryptoError("an RSA key cannot be read", expected="PEM and its passphrase") from error
        if not key.has_private() or key.e != E:
            raise CryptoError("an RSA key cannot be used", expected=f"a private key with e = {E}", found=f"e = {key.e}")
        return cls(key.p, key.q)

    def prove(self) -> list[mpz]:
        """Return the e-th roots that `RsaPublicKey.check_proof` asks for."""
        return self.sign(self.public.challenges())

    def sign(self, numbers: Sequence[mpz]) -> list[mpz]:
        """Return number^d for each, checked with e; `CryptoError` and no signature at all when one is wrong."""
        n = self.public.n
        masks, unmasks = self._masks(len(numbers))
        bases = [x * mask % n for x, mask in zip(numbers, masks, strict=True)]
        with ThreadPoolExecutor(2) as pool:
            halves = pool.map(lambda i: self._half(bases, i), range(2))
            signed = [self._join(a, b) * u % n for a, b, u in zip(*halves, unmasks, strict=True)]
        wrong = sum(1 for x, s in zip(numbers, signed, strict=True) if gmpy2.powmod(s, E, n) != x % n)
        if wrong:
            raise CryptoError("an RSA signature came out wrong and was kept back", expected="0", found=f"{wrong} wrong")
        return signed

    def _half(self, bases: Sequence[mpz], i: int) -> list[mpz]:
        p = self._primes[i]
        exponent = self._exponents[i] + secrets.randbits(64) * (p - 1)
        return backend.powers([x % p for x in bases], exponent, p)

    def _join(self, a: mpz, b: mpz) -> mpz:
        p, q = self._primes
        return a + p * ((b - a) * self._inverse % q)

    def _masks(self, count: int) -> tuple[list[mpz], list[mpz]]:
        """Return r_i^e and r_i^−1, r random and squared for each next use (Kocher 1996, §10)."""
        n, r = self.public.n, random_unit(self.public.n)
        mask, unmask = gmpy2.powmod(r, E, n), gmpy2.invert(r, n)
        masks, unmasks = [], []
        for _ in range(count):
            masks.append(mask)
            unmasks.append(unmask)
            mask, unmask = mask**2 % n, unmask**2 % n
        return masks, unmasks
