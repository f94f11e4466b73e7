"""Keys and vectors to and from phe (python-paillier, GPL-3.0): the only module that imports it (docs/adr/0001).

Both use g = 1 + n, so ciphertexts are the same numbers. phe knows one value a ciphertext with an exponent of base 16
and no lanes: only vectors of one column whose fraction is a multiple of 4 cross. phe's primes are not known to be
≡ 3 (mod 4), so imported keys encrypt with r^n and never with the fast randomness.
"""

from __future__ import annotations

from collections.abc import Sequence

import phe
from gmpy2 import mpz

from base.errors import CryptoError
from crypto.packing import Lanes
from crypto.paillier import CiphertextVector, PublicKey, SecretKey
from crypto.residues import Residues
from crypto.vector import check_units

_DIGIT_BITS = 4  # phe.EncodedNumber.BASE is 16


def public_to_phe(key: PublicKey) -> phe.PaillierPublicKey:
    """Return the key as phe has it."""
    return phe.PaillierPublicKey(int(key.n))


def public_from_phe(key: phe.PaillierPublicKey) -> PublicKey:
    """Return a key that encrypts with r^n."""
    return PublicKey(key.n, djn=False)


def secret_to_phe(key: SecretKey) -> phe.PaillierPrivateKey:
    """Return the private key as phe has it: from here on nothing keeps it out of a log or a pickle."""
    half = key.public.bits // 16
    data = key.to_bytes()
    p, q = int.from_bytes(data[:half], "big"), int.from_bytes(data[half : 2 * half], "big")
    return phe.PaillierPrivateKey(public_to_phe(key.public), p, q)


def secret_from_phe(key: phe.PaillierPrivateKey) -> SecretKey:
    """Return the private key; `CryptoError` for a size that is not offered."""
    return SecretKey(key.p, key.q)


def vector_to_phe(vector: CiphertextVector) -> list[phe.EncryptedNumber]:
    """Return one number for each value; `CryptoError` unless columns are 1 and the fraction is a multiple of 4."""
    if vector.columns != 1 or vector.lanes.fraction % _DIGIT_BITS:
        raise CryptoError("phe has no lanes", expected="1 column, fraction a multiple of 4", found=repr(vector))
    key, exponent = public_to_phe(vector.key), -(vector.lanes.fraction // _DIGIT_BITS)
    return [phe.EncryptedNumber(key, int(c), exponent) for c in vector.ciphertexts]


def vector_from_phe(
    numbers: Sequence[phe.EncryptedNumber], key: PublicKey, lanes: Lanes, weight: int = 1
) -> CiphertextVector:
    """Return a vector of one column; `CryptoError` for another key or exponent.

    That the values fit the lanes cannot be seen here; decryption refuses those that do not.
    """
    exponents = {number.exponent for number in numbers}
    if exponents != {-(lanes.fraction // _DIGIT_BITS)} or lanes.fraction % _DIGIT_BITS:
        raise CryptoError("phe numbers of another exponent", expected=f"fraction {lanes.fraction}", found=exponents)
    if any(number.public_key.n != key.n for number in numbers):
        raise CryptoError("phe numbers under another key", expected=key.fingerprint)
    ciphertexts = Residues(key.ciphertext_bytes, (mpz(number.ciphertext()) for number in numbers))
    check_units(ciphertexts, key)
    return CiphertextVector(lanes, len(numbers), 1, weight, key, ciphertexts)
