"""Encrypted vectors: what may be done with them without the secret key, and how they travel.

A ciphertext is an integer in [1, n²) coprime with n; on the wire big-endian, 2|n| bits wide. The table's metadata hold
the key's fingerprint and the layout, so that a receiver refuses another key or another layout instead of reading noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import gmpy2
import numpy as np
import pyarrow as pa
from gmpy2 import mpz

from base.errors import CryptoError
from crypto.agreement import frame, hkdf
from crypto.packing import Lanes

if TYPE_CHECKING:
    from crypto.paillier import PublicKey

METADATA = ("key", "lane", "fraction", "summands", "weight", "length", "columns")


@dataclass(frozen=True, eq=False, repr=False)
class CiphertextVector:
    """`length` values under `key`, `columns` of them in each ciphertext.

    `weight` counts how much of `lanes.summands` is used: 1 when encrypted, Σ|multiplier| at most afterwards. It is a
    public bound, computed from shapes and types and never from values.
    """

    key: PublicKey
    lanes: Lanes
    length: int
    columns: int
    weight: int
    ciphertexts: tuple[mpz, ...]

    def __post_init__(self) -> None:
        """Refuse shapes that do not fit together and weights that the lanes cannot hold."""
        rows = -(-self.length // self.columns) if self.columns > 0 else -1
        if len(self.ciphertexts) != rows or self.columns > self.lanes.capacity(self.key.bits):
            raise CryptoError(
                "the shape of an encrypted vector does not fit", expected=rows, found=len(self.ciphertexts)
            )
        if not 1 <= self.weight <= self.lanes.summands:
            raise CryptoError(
                "too many summands for the lanes", expected=f"1..{self.lanes.summands}", found=self.weight,
                remedy="declare a layout with more summands",
            )  # fmt: skip

    def __repr__(self) -> str:
        return f"<CiphertextVector of {self.length} values in {len(self.ciphertexts)} ciphertexts, {self.lanes}>"

    def add(self, other: CiphertextVector) -> CiphertextVector:
        """Return the encrypted sum; `CryptoError` for another key, layout, shape, or too many summands."""
        return total([self, other])

    def add_plain(self, integers: np.ndarray, bits: int) -> CiphertextVector:
        """Add integers (length,) or (rows, columns), int64, |x| < 2^bits, in units of 2^−fraction, one to each lane."""
        if integers.size != self.length or np.any(np.abs(integers) >= 1 << bits):
            raise CryptoError(
                "integers do not fit an encrypted vector", expected=f"{self.length} below 2^{bits}", found=integers.size
            )
        n, nn = self.key.n, self.key.nn
        packed = self.lanes.pack(integers.astype(np.int64), self.columns)
        added = tuple(c * (1 + m % n * n) % nn for c, m in zip(self.ciphertexts, packed, strict=True))
        weight = self.weight + max(1, (1 << bits) >> (self.lanes.value_bits - 1))
        return replace(self, ciphertexts=added, weight=weight)

    def mask_above(self, secret: bytes) -> CiphertextVector:
        """Hide whatever the plaintexts hold above their lanes: for an answer to whoever holds the key.

        Adds R·2^(lane·columns), R uniform in [1, n >> (lane·columns)) by HKDF of `secret` (32 bytes or more, kept where
        the same answer is given again: two masks of one plaintext tell more than one). Lanes in ±2^(lane−1) stay exact
        and never wrap modulo n. Read it by `decrypt(..., masked=True)`.
        """
        shift = self.lanes.lane * self.columns
        n, nn, choices = self.key.n, self.key.nn, (self.key.n >> shift) - 1
        length = self.key.bits // 8 + 16  # 2^-128 from uniform
        masked = []
        for i, c in enumerate(self.ciphertexts):
            drawn = int.from_bytes(hkdf(secret, frame(b"accord mask 1", i.to_bytes(8, "big")), length=length), "big")
            masked.append(c * (1 + ((1 + drawn % choices) << shift) * n) % nn)
        return replace(self, ciphertexts=tuple(masked))

    def rerandomise(self) -> CiphertextVector:
        """Return fresh ciphertexts of the same plaintexts: nothing links them to how they were computed."""
        fresh = self.key.blinders(len(self.ciphertexts))
        nn = self.key.nn
        return replace(self, ciphertexts=tuple(c * z % nn for c, z in zip(self.ciphertexts, fresh, strict=True)))

    def to_table(self) -> pa.Table:
        """Return one column `c` of fixed-size binary, with the key's fingerprint and the layout in the metadata."""
        width = self.key.ciphertext_bytes
        data = pa.py_buffer(b"".join(int(c).to_bytes(width, "big") for c in self.ciphertexts))
        kind = pa.binary(width)
        column = pa.FixedSizeBinaryArray.from_buffers(kind, len(self.ciphertexts), [None, data])
        values = (self.key.fingerprint, self.lanes.lane, self.lanes.fraction, self.lanes.summands, self.weight)
        metadata = dict(zip(METADATA, map(str, (*values, self.length, self.columns)), strict=True))
        return pa.table([column], schema=pa.schema([pa.field("c", kind)], metadata=metadata))

    @classmethod
    def from_table(cls, table: pa.Table, key: PublicKey, lanes: Lanes | None = None) -> CiphertextVector:
        """Rebuild a vector; `CryptoError` for another key, another layout than `lanes`, or an invalid ciphertext.

        Without `lanes` the table's own layout is taken: for whoever adds without reading.
        """
        meta = _metadata(table)
        if meta.pop("key") != key.fingerprint:
            raise CryptoError("ciphertexts under another key", expected=key.fingerprint)
        lane, fraction, summands, weight, length, columns = (_number(meta, name) for name in METADATA[1:])
        found = Lanes(lane, fraction, summands)
        if lanes not in (None, found):
            raise CryptoError("ciphertexts in another layout", expected=lanes, found=found)
        ciphertexts = _read(table, key)
        _check(ciphertexts, key)
        return cls(key, found, length, columns, weight, ciphertexts)


def total(vectors: Sequence[CiphertextVector]) -> CiphertextVector:
    """Return the encrypted sum of all; the order does not matter to the plaintext, and the weights add up."""
    if not vectors:
        raise CryptoError("a sum of no vectors", expected="one or more", found=0)
    first, nn = vectors[0], vectors[0].key.nn
    sums = list(first.ciphertexts)
    for vector in vectors[1:]:
        if vector.key != first.key:
            raise CryptoError("a sum over two keys", expected=first.key.fingerprint, found=vector.key.fingerprint)
        shape = (vector.lanes, vector.length, vector.columns)
        if shape != (first.lanes, first.length, first.columns):
            raise CryptoError("a sum over two layouts", expected=repr(first), found=repr(vector))
        sums = [a * b % nn for a, b in zip(sums, vector.ciphertexts, strict=True)]
    return replace(first, ciphertexts=tuple(sums), weight=sum(v.weight for v in vectors))


def _metadata(table: pa.Table) -> dict[str, str]:
    found = {k.decode(): v.decode() for k, v in (table.schema.metadata or {}).items()}
    if set(found) != set(METADATA) or table.column_names != ["c"]:
        raise CryptoError("a table is not an encrypted vector", expected=f"column c, {', '.join(METADATA)}")
    return found


def _number(meta: dict[str, str], name: str) -> int:
    text = meta[name]
    if not (text.isascii() and text.isdigit() and len(text) <= 30):
        raise CryptoError(f"{name} of an encrypted vector is not a number", expected="decimal digits")
    return int(text)


def _read(table: pa.Table, key: PublicKey) -> tuple[mpz, ...]:
    column = table.column("c")
    if column.type != pa.binary(key.ciphertext_bytes) or column.null_count:
        raise CryptoError("ciphertexts of another width", expected=key.ciphertext_bytes, found=column.type)
    return tuple(mpz(int.from_bytes(value.as_py(), "big")) for value in column)


def _check(ciphertexts: Sequence[mpz], key: PublicKey) -> None:
    """Refuse what is not in Z*_{n²}: one gcd of a product, blinded by nothing since n is public."""
    product = mpz(1)
    for c in ciphertexts:
        if not 1 <= c < key.nn:
            raise CryptoError("a ciphertext is out of range", expected="1 <= c < n²")
        product = product * c % key.n
    if gmpy2.gcd(product, key.n) != 1:
        raise CryptoError("a ciphertext is not coprime with n", expected="gcd(c, n) = 1")
