"""Paillier's scheme (1999, scheme 1, g = 1 + n) with the fast randomness of Damgård, Jurik and Nielsen (2010, §4.2).

    E(m) = (1 + m·n)·z mod n²           z a random n-th residue
    D(c) = L_p(c^(p−1) mod p²)·(−q)^−1 mod p, the same for q, joined by CRT;  L_p(x) = (x − 1)/p

Where z comes from:
- another party's key: z = h_s^r·y^bn, h_s = (−x²)^n with an x that the encrypting party draws itself, |r| = |n|/2, and
  for a random bit b a y of Jacobi symbol −1: h_s alone would leave that symbol, which everybody computes without a key.
  Rests on DCRA and on the pseudorandomness of half-length exponents; needs p ≡ q ≡ 3 (mod 4). Where the reader is the
  key's holder, who knows p and q, it rests on discrete logarithms modulo p and q instead: on a key that was made
  honestly. NOT proven here: with a crafted n (a common factor of p − 1 and q − 1, or smooth ones) its maker reads what
  `rerandomise` and `mask_above` hide.
- one's own key: z by CRT from generators of the n-th residues modulo p² and q² with uniform exponents: exactly
  uniform, no further assumption.
- a key without p ≡ q ≡ 3 (mod 4) (imported): z = r^n, as in the paper of 1999, and slow.

Not constant time: gmpy2's powmod sees the secret p − 1. A peer chooses what is decrypted, so base and exponent are
blinded. Numbers are big-endian where they are bytes.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import pairwise

import gmpy2
import numpy as np
from gmpy2 import mpz

from base.canonical import digest_bytes
from base.errors import CryptoError
from crypto import backend
from crypto.agreement import hkdf
from crypto.fixed_base import FixedBase
from crypto.half import Half
from crypto.layout import signed
from crypto.packing import Lanes
from crypto.pool import Pool
from crypto.primes import COFACTOR_BYTES, SMALL_PRIMES, generate_prime, is_prime, known_factors, random_unit
from crypto.residues import Residues
from crypto.secret import Secret
from crypto.vector import CiphertextVector, total

__all__ = ["CiphertextVector", "PublicKey", "SecretKey", "total"]

BITS = (2048, 3072, 4096)  # 112, 128 and 150 bits of security


class _Encrypts(ABC):
    """What a public and a secret key have in common; they differ in where their randomness comes from."""

    @property
    @abstractmethod
    def _key(self) -> PublicKey: ...

    @abstractmethod
    def _obfuscators(self, count: int) -> list[mpz]: ...

    @cached_property
    def pool(self) -> Pool:
        """Obfuscators made ahead, while the party waits (`Pool.filling`)."""
        return Pool(self._obfuscators)

    def blinders(self, count: int) -> list[mpz]:
        """Return fresh encryptions of zero: n-th residues modulo n²."""
        return self.pool.take(count)

    def encrypt_packed(self, packed: Sequence[mpz]) -> list[mpz]:
        """Return (1 + m·n)·z for each signed plaintext m, |m| < n/2."""
        n, nn = self._key.n, self._key.nn
        return backend.multiply((1 + m % n * n for m in packed), self.blinders(len(packed)), nn)

    def encrypt(self, values: np.ndarray, lanes: Lanes, name: str = "vector") -> CiphertextVector:
        """Encrypt values of any shape, flattened, as many to a ciphertext as fit; `name` stands in errors.

        `CryptoError` for NaN, infinity, and values outside the lanes: nothing wraps round.
        """
        return self._encrypt(values, lanes, lanes.capacity(self._key.bits), name)

    def encrypt_rows(self, rows: np.ndarray, lanes: Lanes, name: str = "rows") -> CiphertextVector:
        """Encrypt a matrix (m, k), one ciphertext a row."""
        if rows.ndim != 2 or rows.shape[1] < 1:
            raise CryptoError(f"{name} is not a matrix", expected="(m, k), k from 1", found=rows.shape)
        return self._encrypt(rows, lanes, rows.shape[1], name)

    def _encrypt(self, values: np.ndarray, lanes: Lanes, columns: int, name: str) -> CiphertextVector:
        packed = lanes.pack(lanes.quantise(values, name), columns)
        ciphertexts = Residues(self._key.ciphertext_bytes, self.encrypt_packed(packed))
        return CiphertextVector(lanes, values.size, columns, 1, self._key, ciphertexts)


class PublicKey(_Encrypts):
    """n; `djn` says that p ≡ q ≡ 3 (mod 4), as whoever made the key claims."""

    def __init__(self, n: int, djn: bool = True) -> None:
        """Take the modulus; `CryptoError` for one of another size or one that cannot be a product of such primes."""
        self.n = mpz(n)
        self.nn = self.n * self.n
        self.bits = int(self.n.bit_length())
        self.djn = djn
        shaped = self.bits in BITS and gmpy2.gcd(self.n, SMALL_PRIMES) == 1 and not gmpy2.is_power(self.n)
        if not shaped or (djn and self.n % 4 != 1) or is_prime(self.n):
            raise CryptoError(
                "a Paillier modulus is not usable", expected=f"{BITS} bits, n = 1 mod 4, no small factor, no power",
                found=self.bits,
            )  # fmt: skip

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PublicKey) and (self.n, self.djn) == (other.n, other.djn)

    def __hash__(self) -> int:
        return hash((self.n, self.djn))

    def __repr__(self) -> str:
        return f"PublicKey({self.bits} bits, {self.fingerprint[:16]})"

    @property
    def _key(self) -> PublicKey:
        return self

    @property
    def ciphertext_bytes(self) -> int:
        """Width of a ciphertext."""
        return self.bits // 4

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the key, in hex."""
        return digest_bytes(b"accord paillier key 1" + self.to_bytes())

    def to_bytes(self) -> bytes:
        """Return one byte of kind and n."""
        return bytes([self.djn]) + int(self.n).to_bytes(self.bits // 8, "big")

    @classmethod
    def from_bytes(cls, data: bytes) -> PublicKey:
        """Rebuild a key; `CryptoError` when it is malformed."""
        if len(data) - 1 not in [bits // 8 for bits in BITS] or data[0] > 1:
            raise CryptoError("a Paillier key is malformed", expected="kind and modulus", found=f"{len(data)} bytes")
        return cls(int.from_bytes(data[1:], "big"), bool(data[0]))

    def _obfuscators(self, count: int) -> list[mpz]:
        if not self.djn:
            return [gmpy2.powmod(random_unit(self.n), self.n, self.nn) for _ in range(count)]
        powers = (self._table.power(secrets.token_bytes(self.bits // 16)) for _ in range(count))
        return [h * self._turn % self.nn if secrets.randbits(1) else h for h in powers]

    @cached_property
    def _turn(self) -> mpz:
        """Return y^n for a y of Jacobi symbol −1; powers of h have +1 and would leave the symbol of what they blind."""
        y = random_unit(self.n)
        while gmpy2.jacobi(y, self.n) != -1:
            y = random_unit(self.n)
        return gmpy2.powmod(y, self.n, self.nn)

    @cached_property
    def _table(self) -> FixedBase:
        # x is drawn here and not taken from the key's maker, who could choose one of small order.
        h = -(random_unit(self.n) ** 2) % self.n
        return FixedBase(gmpy2.powmod(h, self.n, self.nn), self.nn, self.bits // 16)


class SecretKey(_Encrypts, Secret):
    """p and q, with the cofactors that make generators recognisable (0 for an imported key)."""

    def __init__(self, p: int, q: int, cofactors: tuple[int, int] = (0, 0)) -> None:
        """Take the primes; `CryptoError` unless they are distinct primes of one size that the cofactors fit."""
        p, q, s, t = (mpz(x) for x in (p, q, *cofactors))
        if p == q or p.bit_length() != q.bit_length() or not (is_prime(p) and is_prime(q)):
            raise CryptoError("a Paillier key is not made of two primes of one size")
        if (s or t) and not (known_factors(p, s) and known_factors(q, t) and gmpy2.gcd(p - 1, q - 1) == 2):
            raise CryptoError("a Paillier key's cofactors do not fit its primes")
        self.public = PublicKey(p * q, djn=bool(s))
        self._halves = (Half(p, q, s), Half(q, p, t))
        self._inverses = gmpy2.invert(p, q), gmpy2.invert(p * p, q * q)

    @classmethod
    def generate(cls, bits: int = 3072) -> SecretKey:
        """Return a new key of 2048, 3072 or 4096 bits; a second or two."""
        if bits not in BITS:
            raise CryptoError("a Paillier key of another size", expected=BITS, found=bits)
        (p, s), (q, t) = generate_prime(bits // 2), generate_prime(bits // 2)
        return cls(p, q, (s, t))

    def to_bytes(self) -> bytes:
        """Return p, q and the cofactors, for `NodeKeys.wrap` and `derive` and for nothing else."""
        half = self.public.bits // 16
        numbers = [(h.p, half) for h in self._halves] + [(h.cofactor, COFACTOR_BYTES) for h in self._halves]
        return b"".join(int(number).to_bytes(width, "big") for number, width in numbers)

    @classmethod
    def from_bytes(cls, data: bytes) -> SecretKey:
        """Rebuild a key; `CryptoError` when it is malformed or not prime."""
        half = (len(data) - 2 * COFACTOR_BYTES) // 2
        if 16 * half not in BITS or len(data) != 2 * (half + COFACTOR_BYTES):
            raise CryptoError("a Paillier secret key is malformed", found=f"{len(data)} bytes")
        cuts = (0, half, 2 * half, 2 * half + COFACTOR_BYTES, len(data))
        p, q, s, t = (int.from_bytes(data[a:b], "big") for a, b in pairwise(cuts))
        return cls(p, q, (s, t))

    def derive(self, info: bytes, length: int) -> bytes:
        """Return `length` bytes that everybody with this secret key can compute, and nobody else (HKDF)."""
        return hkdf(self.to_bytes(), info, length=length)

    @property
    def _key(self) -> PublicKey:
        return self.public

    def _obfuscators(self, count: int) -> list[mpz]:
        halves = ([half.blinder() for _ in range(count)] for half in self._halves)
        return [self._join(a, b, squared=True) for a, b in zip(*halves, strict=True)]

    def decrypt(self, vector: CiphertextVector, threads: int = 1, *, masked: bool = False) -> np.ndarray:
        """Return the values (length,): int64 when the layout has no fraction, else float64.

        `threads` = 2 works modulo p² and q² at the same time. `CryptoError` for another key and for what `Layout.read`
        refuses. With `masked` the bits above the lanes are a mask (`CiphertextVector.mask_above`) and cut off.
        """
        lanes = vector.lanes
        residues = self._plaintexts(vector, threads)
        packed = (lanes.reduce(m, vector.columns) for m in residues) if masked else signed(residues, self.public.n)
        return vector.read(packed)

    def residues(self, vector: CiphertextVector, threads: int = 1) -> Residues:
        """Return the whole plaintexts in Z_n: what goes back to whoever masked them (`CiphertextVector.mask`).

        Computed twice, under fresh blinding: whoever knows the plaintext would factor n by one that a fault of the
        machine spoilt in one half (Boneh, DeMillo and Lipton 1997). `CryptoError` when the two differ.
        """
        found, again = (self._plaintexts(vector, threads) for _ in range(2))
        if found != again:
            raise CryptoError("a decryption came out wrong and was kept back", remedy="check this machine")
        return Residues(self.public.bits // 8, found)

    def _plaintexts(self, vector: CiphertextVector, threads: int) -> list[mpz]:
        if vector.key != self.public:
            raise CryptoError("ciphertexts under another key", expected=self.public.fingerprint)
        return self.decrypt_packed(vector.ciphertexts, threads)

    def decrypt_rows(self, vector: CiphertextVector, threads: int = 1, *, masked: bool = False) -> np.ndarray:
        """Return `decrypt` as a matrix (ciphertexts, columns)."""
        return self.decrypt(vector, threads, masked=masked).reshape(-1, vector.columns)

    def decrypt_packed(self, ciphertexts: Sequence[mpz], threads: int = 1) -> list[mpz]:
        """Return the whole plaintexts in [0, n): whoever masked one checks its bits after unmasking."""
        with ThreadPoolExecutor(threads) as pool:
            halves = pool.map(lambda half: half.decrypt(ciphertexts), self._halves)
        return [self._join(a, b) for a, b in zip(*halves, strict=True)]

    def _join(self, a: mpz, b: mpz, squared: bool = False) -> mpz:
        """Return the x with x = a mod p and x = b mod q (Garner); modulo p² and q² when `squared`."""
        p, q = (half.pp if squared else half.p for half in self._halves)
        return a + p * ((b - a) * self._inverses[squared] % q)
