"""Blind RSA signatures: the primitive of alignment by De Cristofaro and Tsudik (2010, fig. 3).

    blinded     H(x)·r^e mod n      uniform in Z_n* for the signer, whatever x is
    signed      (H(x)·r^e)^d        `rsa.RsaSecretKey.sign`
    signature   H(x)^d              after division by r; checked by the receiver
    digest      SHA-256(signature)                          what a party may keep: it serves every run of a key's life
    tag         SHA-256(domain, run, digest)                what crosses: differs from run to run

Assumption: one-more RSA inversion (Bellare, Namprempre, Pointcheval and Semanko 2003), with H a random oracle.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import gmpy2
from gmpy2 import mpz

from base.errors import CryptoError, StateError
from crypto import backend
from crypto.agreement import frame
from crypto.primes import random_unit
from crypto.rsa import E, RsaPublicKey
from crypto.secret import Secret


class Blinding(Secret):
    """The receiver's secret factors for one batch of hashes; a second use is refused."""

    def __init__(self, key: RsaPublicKey, hashes: Sequence[mpz]) -> None:
        """Draw r for each hash and blind it; `blinded` is what the signer may see."""
        self._key, self._hashes = key, list(hashes)
        self._used = False
        self._factors = [random_unit(key.n) for _ in self._hashes]
        self.blinded = [h * gmpy2.powmod(r, E, key.n) % key.n for h, r in zip(self._hashes, self._factors, strict=True)]

    def unblind(self, signed: Sequence[mpz]) -> list[mpz]:
        """Return the signatures; `CryptoError` when one does not verify, `StateError` for a second use."""
        n = self._key.n
        if self._used:
            raise StateError("blinding factors were used before", expected="factors of their own for each batch")
        self._used = True
        if len(signed) != len(self._factors):
            raise CryptoError("another number of signatures", expected=len(self._factors), found=len(signed))
        inverses = backend.inverses(self._factors, n)
        signatures = [s * r % n for s, r in zip(signed, inverses, strict=True)]
        wrong = sum(gmpy2.powmod(s, E, n) != h for s, h in zip(signatures, self._hashes, strict=True))
        if wrong:
            raise CryptoError("blind signatures do not verify", expected="0", found=f"{wrong} wrong")
        return signatures


def digest(key: RsaPublicKey, signature: mpz) -> bytes:
    """Return the 32 bytes of a signature from which the tags of every run are made; it signs nothing."""
    return hashlib.sha256(key.to_bytes(signature)).digest()


def tag(digest: bytes, run: str) -> bytes:
    """Return the 32 bytes by which two holders of a signature recognise each other in `run`, a step of a run."""
    return hashlib.sha256(frame(b"accord rsa tag 2", run.encode(), digest)).digest()
