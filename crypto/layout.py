"""How the values of a vector lie in big numbers, how they are read again, and the mask of an answer.

length   values                          columns  lanes in each big number, the last may hold fewer values
weight   how much of `lanes.summands` is used: 1 when encrypted, Σ|multiplier| at most afterwards; a public bound,
         computed from shapes and types and never from values
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from gmpy2 import mpz

from base.errors import CryptoError
from crypto.packing import Lanes
from crypto.residues import Residues
from crypto.secret import Secret


@dataclass(frozen=True, eq=False)
class Layout:
    """Shape of a packed vector."""

    lanes: Lanes
    length: int
    columns: int
    weight: int

    def __post_init__(self) -> None:
        """Refuse a shape of nothing, and a weight that the lanes cannot hold."""
        if self.columns < 1 or self.length < 0:
            raise CryptoError("the shape of an encrypted vector does not fit", expected="columns", found=self.columns)
        if not 1 <= self.weight <= self.lanes.summands:
            raise CryptoError(
                "too many summands for the lanes", expected=f"1..{self.lanes.summands}", found=self.weight,
                remedy="declare a layout with more summands",
            )  # fmt: skip

    @property
    def rows(self) -> int:
        """How many big numbers hold the vector."""
        return -(-self.length // self.columns)

    def read(self, packed: Iterable[mpz]) -> np.ndarray:
        """Return the values (length,) of signed packed integers: int64 without a fraction, else float64.

        `CryptoError` for set bits outside the lanes, lanes beyond what the weight allows, and values behind the end.
        Lanes over 64 bits give float64 in any case, exact to 53 bits.
        """
        q = self.lanes.unpack(list(packed), self.columns).ravel()
        values, rest = q[: self.length], q[self.length :]
        most = self.lanes.limit * self.weight
        beyond = int(np.count_nonzero((values > most) | (values < -most))) + int(np.count_nonzero(rest))
        if beyond:
            raise CryptoError("decrypted lanes are out of range", expected="0", found=f"{beyond} of {q.size} lanes")
        exact = values.dtype == np.int64 and not self.lanes.fraction
        return values if exact else np.ldexp(values.astype(np.float64), -self.lanes.fraction)


class Mask(Secret):
    """What was added to an answer, R for each ciphertext, uniform in Z_n; used once."""

    def __init__(self, layout: Layout, n: mpz, R: Sequence[mpz]) -> None:
        """Take what `CiphertextVector.mask` drew."""
        self._layout, self._n, self._R = layout, n, list(R)

    def unmask(self, residues: Residues) -> np.ndarray:
        """Return the values (length,) of the whole residues m + R mod n that the key's holder returned.

        `CryptoError` for another number of them, for one outside Z_n, when anything outside the lanes is set once R is
        off, and for a second use. A key holder that returns another residue passes where only lanes changed: it can
        shift the result, as it can choose what it encrypts.
        """
        R, self._R = self._R, []
        if len(R) != len(residues) or not R or any(x >= self._n for x in residues):
            raise CryptoError("residues do not belong to this mask", expected=f"{len(R)} in Z_n", found=len(residues))
        plaintexts = ((x - r) % self._n for x, r in zip(residues, R, strict=True))
        return self._layout.read(signed(plaintexts, self._n))


def draw_mask(n: mpz, count: int) -> list[mpz]:
    """Return R uniform in Z_n: m + R mod n is then uniform, whatever m is."""
    return [mpz(secrets.randbelow(int(n))) for _ in range(count)]


def signed(plaintexts: Iterable[mpz], n: mpz) -> Iterable[mpz]:
    """Yield the plaintexts of [0, n) as signed integers, |m| < n/2."""
    return (m - n if 2 * m > n else m for m in plaintexts)
