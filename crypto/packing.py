"""Fixed point in signed lanes: many small numbers in one big one, exact under additions and integer multiples.

A value v becomes q = round(v·2^f) with |q| < 2^(b−1). A packed integer is Σ_l q_l·2^(lane·l) with SIGNED q_l, so a sum,
a difference or a negative multiple of packed integers is the packed integer of the lanes' results as long as every
lane stays within ±2^(lane−1). Decoding adds 2^(lane−1) to every lane first; then each lane is a plain field of bits.

    lane      bits of a lane: 8, 10, 16, 24, 32 for sums; 64, 96 for products       b = lane − ceil(log2 summands)
    summands  how many values of b bits a lane can hold in sum: Σ|multiplier| over all that is added to it
    fraction  f, bits after the point
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from gmpy2 import mpz

from base.errors import CryptoError

LANE_BITS = (8, 10, 16, 24, 32, 64, 96)
SPARE_BITS = 16  # bits between the top lane and the modulus; they must decrypt to zero
_CHUNK = 1 << 16  # values unpacked at a time: bounds the bit matrix to 4 MiB


@dataclass(frozen=True)
class Lanes:
    """The layout of a vector: both ends must hold the same one."""

    lane: int = 16
    fraction: int = 0
    summands: int = 1

    def __post_init__(self) -> None:
        """Refuse a layout without room for a sign and a value."""
        known = self.lane in LANE_BITS and self.summands >= 1 and 0 <= self.fraction <= 256
        if not (known and self.value_bits >= 2):
            raise CryptoError(
                "a lane layout has no room for its values",
                expected=f"a lane of {LANE_BITS} bits, two bits or more per value",
                found=f"lane {self.lane}, {self.summands} summands, fraction {self.fraction}",
            )

    @property
    def value_bits(self) -> int:
        """b: bits of one summand, sign included; at most 64, since values are int64."""
        return min(self.lane - (self.summands - 1).bit_length(), 64)

    @property
    def limit(self) -> int:
        """Largest |q| of one summand: 2^(b−1) − 1."""
        return (1 << (self.value_bits - 1)) - 1

    def scaled(self, fraction: int) -> Lanes:
        """Return the layout of products with multipliers that have `fraction` bits after the point."""
        return replace(self, fraction=self.fraction + fraction)

    def capacity(self, bits: int) -> int:
        """Return how many lanes fit into a modulus of `bits` bits."""
        return (bits - SPARE_BITS) // self.lane

    def clip(self, values: np.ndarray, name: str = "vector") -> tuple[np.ndarray, int]:
        """Return the values within the range of the lanes, and how many were outside: report it as `saturated`."""
        _numbers(values, name)
        largest = self.limit >> max(0, self.value_bits - 54) << max(0, self.value_bits - 54)  # that a float64 holds
        bound = self.limit if _exact(values, self.fraction) else np.ldexp(float(largest), -self.fraction)
        outside = (values > bound) | (values < -bound)
        return np.clip(values, -bound, bound), int(np.count_nonzero(outside))

    def quantise(self, values: np.ndarray, name: str = "vector") -> np.ndarray:
        """Return q = round(v·2^f), int64, halves to even; `CryptoError` by name for NaN, infinity, overflow."""
        _numbers(values, name)
        scaled = (
            values if _exact(values, self.fraction) else np.rint(np.ldexp(values.astype(np.float64), self.fraction))
        )
        bound = 1 << (self.value_bits - 1)
        # Strict against a power of two, which a float64 holds exactly: at 64 bits the limit itself is not one.
        outside = int(np.count_nonzero((scaled >= bound) | (scaled <= -bound) | _rounded(values, self.fraction)))
        if outside:
            raise CryptoError(
                f"values of {name} do not fit their lanes",
                expected=f"|value| <= {self.limit} / 2^{self.fraction}",
                found=f"{outside} of {values.size} values outside",
                remedy="use wider lanes, fewer fraction bits, or Lanes.clip and report `saturated`",
            )
        return scaled.astype(np.int64)

    def pack(self, q: np.ndarray, columns: int) -> list[mpz]:
        """Return the signed packed integers of q (int64), `columns` lanes each; the last may hold fewer."""
        padded = np.zeros(-(-q.size // columns) * columns, dtype=np.int64)
        padded[: q.size] = q.ravel()
        per = max(1, _CHUNK // columns) * columns
        rows = (row for i in range(0, padded.size, per) for row in self._join(padded[i : i + per], columns))
        offset = self.offset(columns)
        return [mpz(int.from_bytes(row, "little")) - offset for row in rows]

    def unpack(self, packed: Sequence[mpz], columns: int) -> np.ndarray:
        """Return the lanes (rows, columns), int64, or float64 (exact to 53 bits) for lanes over 64 bits.

        `CryptoError` when bits outside the lanes are set.
        """
        offset, bits = self.offset(columns), self.lane * columns
        shifted = [int(m + offset) for m in packed]
        outside = sum(1 for m in shifted if not 0 <= m < 1 << bits)
        if outside:
            raise CryptoError(
                "bits outside the lanes are set", expected="0", found=f"{outside} of {len(shifted)} plaintexts",
                remedy="another key, another layout, or a lane that overflowed",
            )  # fmt: skip
        q = np.empty((len(shifted), columns), dtype=np.int64 if self.lane <= 64 else np.float64)
        per = max(1, _CHUNK // columns)
        for i in range(0, len(shifted), per):
            q[i : i + per] = self._split(shifted[i : i + per], columns)
        return q

    def reduce(self, packed: mpz, columns: int) -> mpz:
        """Return the signed packed integer of the low `columns` lanes alone."""
        offset = self.offset(columns)
        return (packed + offset) % (mpz(1) << (self.lane * columns)) - offset

    def offset(self, columns: int) -> mpz:
        """Return Σ_l 2^(lane−1)·2^(lane·l)."""
        return (mpz(1) << (self.lane - 1)) * (((mpz(1) << (self.lane * columns)) - 1) // ((mpz(1) << self.lane) - 1))

    def _join(self, q: np.ndarray, columns: int) -> list[bytes]:
        """Return the little-endian bytes of Σ_l (q_l + 2^(lane−1))·2^(lane·l) of each row."""
        fields = np.empty((q.size, 2), "<u8")  # 128 bits of q + 2^(lane−1), low word first
        if self.lane <= 64:
            fields[:, 0] = q.view(np.uint64) + np.uint64(1 << (self.lane - 1))  # the carry is above the lane
        else:
            fields[:, 0] = q.view(np.uint64)
            fields[:, 1] = (q >> 63).view(np.uint64) + np.uint64(1 << (self.lane - 65))
        if self.lane % 8 == 0:
            cells = fields.view(np.uint8).reshape(-1, 16)[:, : self.lane // 8]
            return [row.tobytes() for row in cells.reshape(-1, columns * self.lane // 8)]
        bits = np.unpackbits(fields.view(np.uint8).reshape(-1, 16), axis=1, bitorder="little")
        rows = np.packbits(bits[:, : self.lane].reshape(-1, columns * self.lane), axis=1, bitorder="little")
        return [row.tobytes() for row in rows]

    def _split(self, shifted: list[int], columns: int) -> np.ndarray:
        """Return the lanes (rows, columns) of what `_join` made."""
        width = -(-self.lane * columns // 8)
        data = np.frombuffer(b"".join(m.to_bytes(width, "little") for m in shifted), np.uint8).reshape(-1, width)
        cells = np.zeros((len(shifted) * columns, 16), np.uint8)
        if self.lane % 8 == 0:
            cells[:, : self.lane // 8] = data.reshape(-1, self.lane // 8)
        else:
            bits = np.unpackbits(data, axis=1, bitorder="little")[:, : self.lane * columns].reshape(-1, self.lane)
            packed = np.packbits(bits, axis=1, bitorder="little")
            cells[:, : packed.shape[1]] = packed
        low, high = np.ascontiguousarray(cells.view("<u8").reshape(len(shifted), columns, 2).transpose(2, 0, 1))
        if self.lane <= 64:
            return np.asarray((low - np.uint64(1 << (self.lane - 1))).view(np.int64))
        # The low word as signed, so that a small negative value is not a difference of two large floats.
        high = (high - np.uint64(1 << (self.lane - 65)) + (low >> np.uint64(63))).view(np.int64)
        return np.asarray(np.ldexp(high.astype(np.float64), 64) + low.view(np.int64).astype(np.float64))


def _exact(values: np.ndarray, fraction: int) -> bool:
    return np.issubdtype(values.dtype, np.integer) and fraction == 0


def _numbers(values: np.ndarray, name: str) -> None:
    if values.dtype.kind not in "iuf" or not np.isfinite(values).all():
        raise CryptoError(
            f"{name} has NaN or infinity",
            expected="finite numbers",
            found=f"{values.dtype}, {np.count_nonzero(~np.isfinite(values))} others",
        )


def _rounded(values: np.ndarray, fraction: int) -> np.ndarray | bool:
    """Tell which integers a float64 would change on the way to their fixed point."""
    return bool(fraction) and values.dtype.kind in "iu" and ((values > 2**53) | (values < -(2**53)))
