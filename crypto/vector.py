"""Encrypted vectors: what may be done with them without the secret key, and how they travel.

A ciphertext is an integer in [1, n²) coprime with n. All of a vector lie in one buffer, big-endian, 2|n| bits each,
which Arrow shares without a copy. The table's metadata hold the key's fingerprint and the layout, so that a receiver
refuses another key or another layout instead of reading noise.

An answer to whoever holds the key is made in this order: `compress`, then `mask`, which also makes it new
(docs/protocols.md, section 2). What a change on the way does: other bits give a plaintext that is uniform modulo n, and
bits outside the lanes are then set, but for 1 in 2^(`SPARE_BITS` − 1); a ciphertext multiplied by another of the same
key is a valid sum and NOT noticed. Integrity is the digest of the message (`transport.ledger`); the check lanes of
`components.secure_sum` show that every part is in a sum once, not that nothing was added.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import gmpy2
import numpy as np
import pyarrow as pa
from gmpy2 import mpz

from base.errors import CryptoError
from crypto import backend
from crypto.agreement import frame, hkdf
from crypto.layout import Layout, Mask, draw_mask
from crypto.packing import Lanes
from crypto.residues import Residues

if TYPE_CHECKING:
    from crypto.paillier import PublicKey

METADATA = ("key", "lane", "fraction", "summands", "weight", "length", "columns")


@dataclass(frozen=True, eq=False, repr=False)
class CiphertextVector(Layout):
    """`length` values under `key`, `columns` of them in each ciphertext."""

    key: PublicKey
    ciphertexts: Residues
    joined: bool = False  # several rows in a ciphertext, by `compress`

    def __post_init__(self) -> None:
        """Refuse shapes that do not fit together and weights that the lanes cannot hold."""
        super().__post_init__()
        if len(self.ciphertexts) != self.rows or self.columns > self.lanes.capacity(self.key.bits):
            raise CryptoError(
                "the shape of an encrypted vector does not fit", expected=self.rows, found=len(self.ciphertexts)
            )

    def __repr__(self) -> str:
        return f"<CiphertextVector of {self.length} values in {len(self.ciphertexts)} ciphertexts, {self.lanes}>"

    def holding(self, ciphertexts: Iterable[mpz], **changes: Any) -> CiphertextVector:
        """Return a vector like this one with other ciphertexts."""
        return replace(self, ciphertexts=Residues(self.key.ciphertext_bytes, ciphertexts), **changes)

    def add(self, other: CiphertextVector) -> CiphertextVector:
        """Return the encrypted sum; `CryptoError` for another key, layout, shape, or too many summands."""
        return total([self, other])

    def sum(self) -> CiphertextVector:
        """Return the sum of all rows, one ciphertext."""
        return self.segment_sum(np.zeros(self.rows, np.int64), 1)

    def segment_sum(self, ids: np.ndarray, segments: int) -> CiphertextVector:
        """Return the sum of the rows of each segment: Xᵀ[[P]] for one-hot X, one product a row.

        `ids` (rows,) are integers in [0, segments), -1 for a row of none. An empty segment is the number 1, which
        everybody recognises: `mask` or `rerandomise` before it leaves.
        """
        if ids.shape != (self.rows,) or ids.dtype.kind not in "iu" or np.any(ids < -1) or np.any(ids >= segments):
            raise CryptoError("segments do not fit an encrypted vector", expected=f"{self.rows} ids below {segments}")
        order, c, nn = np.argsort(ids, kind="stable"), self.ciphertexts, self.key.nn
        cuts = np.searchsorted(ids[order], np.arange(segments + 1))
        sums = (backend.product((c[u] for u in order[a:b]), nn) for a, b in pairwise(cuts))
        # The weight of all rows, not of the fullest segment: it travels, and sizes of segments are data.
        return self.holding(sums, length=segments * self.columns, weight=self.weight * self.rows)

    def compress(self, lane: int | None = None) -> CiphertextVector:
        """Return the same values in as few ciphertexts as hold them: fewer to send, fewer to decrypt.

        Rows of one column may move to a shorter `lane` that their weight still fits; nothing can be added afterwards.
        What a row holds above its lanes moves into its neighbour's: for ciphertexts of a party that may have filled
        more lanes than it declared, `mask` afterwards hides all of it from a key holder, and `mask_above` refuses.
        """
        lanes = self.lanes if lane is None else Lanes(lane, self.lanes.fraction)
        if lane is not None and (self.columns > 1 or self.lanes.limit * self.weight > lanes.limit):
            raise CryptoError(
                "values do not fit a shorter lane", expected=f"one column, |q| <= {lanes.limit}",
                found=f"{self.columns} columns, |q| <= {self.lanes.limit * self.weight}", remedy="a wider lane",
            )  # fmt: skip
        rows = lanes.capacity(self.key.bits) // self.columns  # of this vector in one ciphertext
        shift, c = mpz(1) << (lanes.lane * self.columns), self.ciphertexts
        joined = (_shifted(c[i : i + rows], shift, self.key.nn) for i in range(0, len(c), rows))
        weight = self.weight if lane is None else 1
        return self.holding(joined, lanes=lanes, columns=rows * self.columns, weight=weight, joined=True)

    def mask(self) -> tuple[CiphertextVector, Mask]:
        """Return [[m + R]], R uniform in Z_n for each ciphertext and new, made new; and the mask, which stays here.

        The key's holder decrypts to `SecretKey.residues`, uniform whatever m is, and returns them whole.
        """
        n, nn = self.key.n, self.key.nn
        R = draw_mask(n, self.rows)
        masked = self.holding(backend.multiply(self.ciphertexts, (1 + r * n for r in R), nn)).rerandomise()
        return masked, Mask(self, n, R)

    def add_plain(self, integers: np.ndarray, bits: int) -> CiphertextVector:
        """Add integers (length,) or (rows, columns), |x| < 2^bits, in units of 2^−fraction, one to each lane."""
        fits = integers.dtype.kind in "iu" and integers.size == self.length
        if not fits or np.any(integers >= 1 << bits) or np.any(integers <= -(1 << bits)):
            raise CryptoError(
                "integers do not fit an encrypted vector", expected=f"{self.length} integers below 2^{bits}",
                found=f"{integers.size}, {integers.dtype}",
            )  # fmt: skip
        n, nn = self.key.n, self.key.nn
        packed = self.lanes.pack(integers.astype(np.int64), self.columns)
        added = backend.multiply(self.ciphertexts, (1 + m % n * n for m in packed), nn)
        weight = self.weight - (1 - (1 << bits)) // self.lanes.limit  # rounded up
        return self.holding(added, weight=weight)

    def mask_above(self, secret: bytes) -> CiphertextVector:
        """Hide whatever the plaintexts hold above their lanes: for an answer to whoever holds the key.

        Adds R·2^(lane·columns), R uniform in [1, n >> (lane·columns)) by HKDF of `secret` (32 bytes or more, kept where
        the same answer is given again: two masks of one plaintext tell more than one). Lanes in ±2^(lane−1) stay exact
        and never wrap modulo n. Read it by `decrypt(..., masked=True)`.
        """
        if self.joined:
            raise CryptoError("rows side by side have no room of their own above their lanes", remedy="use mask")
        shift = self.lanes.lane * self.columns
        n, nn, choices = self.key.n, self.key.nn, (self.key.n >> shift) - 1
        length = self.key.bits // 8 + 16  # 2^-128 from uniform
        masked = []
        for i, c in enumerate(self.ciphertexts):
            drawn = int.from_bytes(hkdf(secret, frame(b"accord mask 1", i.to_bytes(8, "big")), length=length), "big")
            masked.append(c * (1 + ((1 + drawn % choices) << shift) * n) % nn)
        return self.holding(masked)

    def rerandomise(self) -> CiphertextVector:
        """Return fresh ciphertexts of the same plaintexts: nothing links them to how they were computed."""
        return self.holding(backend.multiply(self.ciphertexts, self.key.blinders(self.rows), self.key.nn))

    def to_table(self) -> pa.Table:
        """Return one column `c` over the same memory, with the key's fingerprint and the layout in the metadata."""
        values = (self.key.fingerprint, self.lanes.lane, self.lanes.fraction, self.lanes.summands, self.weight)
        metadata = dict(zip(METADATA, map(str, (*values, self.length, self.columns)), strict=True))
        column = self.ciphertexts.to_arrow()
        return pa.table([column], schema=pa.schema([pa.field("c", column.type)], metadata=metadata))

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
        ciphertexts = Residues.from_arrow(table.column("c"), key.ciphertext_bytes)
        check_units(ciphertexts, key)
        return cls(found, length, columns, weight, key, ciphertexts)


def total(vectors: Sequence[CiphertextVector]) -> CiphertextVector:
    """Return the encrypted sum of all; the order does not matter to the plaintext, and the weights add up."""
    if not vectors:
        raise CryptoError("a sum of no vectors", expected="one or more", found=0)
    first = vectors[0]
    sums: Sequence[mpz] = first.ciphertexts
    for vector in vectors[1:]:
        if vector.key != first.key:
            raise CryptoError("a sum over two keys", expected=first.key.fingerprint, found=vector.key.fingerprint)
        shape = (vector.lanes, vector.length, vector.columns)
        if shape != (first.lanes, first.length, first.columns):
            raise CryptoError("a sum over two layouts", expected=repr(first), found=repr(vector))
        sums = backend.multiply(sums, vector.ciphertexts, first.key.nn)
    return first.holding(sums, weight=sum(v.weight for v in vectors))


def _shifted(rows: Sequence[mpz], shift: mpz, nn: mpz) -> mpz:
    """Return Π rows_j^(shift^j): each row's plaintext above the one before (Horner)."""
    joined = rows[-1]
    for c in reversed(rows[:-1]):
        joined = gmpy2.powmod(joined, shift, nn) * c % nn
    return joined


def _metadata(table: pa.Table) -> dict[str, str]:
    try:
        found = {k.decode(): v.decode() for k, v in (table.schema.metadata or {}).items()}
    except UnicodeDecodeError:
        found = {}
    if set(found) != set(METADATA) or table.column_names != ["c"]:
        raise CryptoError("a table is not an encrypted vector", expected=f"column c, {', '.join(METADATA)}")
    return found


def _number(meta: dict[str, str], name: str) -> int:
    text = meta[name]
    if not (text.isascii() and text.isdigit() and len(text) <= 30):
        raise CryptoError(f"{name} of an encrypted vector is not a number", expected="decimal digits")
    return int(text)


def check_units(ciphertexts: Sequence[mpz], key: PublicKey) -> None:
    """Refuse what is not in Z*_{n²}: one gcd of a product, blinded by nothing since n is public."""
    if not all(1 <= c < key.nn for c in ciphertexts):
        raise CryptoError("a ciphertext is out of range", expected="1 <= c < n²")
    if gmpy2.gcd(backend.product(ciphertexts, key.n), key.n) != 1:
        raise CryptoError("a ciphertext is not coprime with n", expected="gcd(c, n) = 1")
