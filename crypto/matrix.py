"""Integer matrices times encrypted rows, without the secret key.

    matvec     [[T_d]] = Σ_u X_ud·[[P_u]]      rows to columns: buckets (`backend.in_buckets`) over signed bytes of X
    multi_exp  [[s_u]] = Σ_d G_ud·[[T_d]]      one small integer for each packed column: byte tables of each base

A signed byte costs one product for each entry that is not zero and 256 a column; a negative one uses the inverse of
its base, made once for all. Both charge the lanes a weight that follows from shapes and types alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import gmpy2
import numpy as np
from gmpy2 import mpz

from base.errors import CryptoError
from crypto import backend
from crypto.fixed_base import FixedBase
from crypto.parallel import spread
from crypto.residues import Residues
from crypto.vector import CiphertextVector

_DIGIT = 1 << 7  # digits are in −128..128


def matvec(X: np.ndarray, rows: CiphertextVector, fraction: int = 0) -> CiphertextVector:
    """Return [[T_d]], d ciphertexts; X (m, d) is int8 or int16 with `fraction` bits of fraction."""
    bits = _check(X, 0, rows)
    columns = spread(_columns, np.ascontiguousarray(X.T), 2 * X.size, bits // 8, *_public(rows))
    return _result(rows, columns, X.shape[1], rows.weight * X.shape[0] << (bits - 1), fraction)


def multi_exp(G: np.ndarray, T: CiphertextVector, fraction: int = 0) -> CiphertextVector:
    """Return [[s_u]], m ciphertexts; G (m, d) is int8 or int16 with `fraction` bits of fraction."""
    bits = _check(G, 1, T)
    sums = spread(_sums, G, G.size * bits // 8, bits, *_public(T))
    return _result(T, sums, G.shape[0], T.weight * G.shape[1] << (bits - 1), fraction)


def _check(matrix: np.ndarray, inner: int, vector: CiphertextVector) -> int:
    """Return the bits of the multipliers, sign included."""
    size = matrix.dtype.itemsize if matrix.dtype.kind == "i" else 0
    if matrix.ndim != 2 or size not in (1, 2) or matrix.shape[inner] != vector.rows:
        raise CryptoError(
            "a matrix does not fit an encrypted vector",
            expected=f"int8 or int16, axis {inner} of {vector.rows}",
            found=f"{matrix.dtype}, {matrix.shape}",
        )
    return 8 * size


def _public(vector: CiphertextVector) -> tuple[bytes, int, int]:
    """Return what another process needs of a vector: its buffer, the width of a number, n²."""
    return vector.ciphertexts.data.to_pybytes(), vector.ciphertexts.width, int(vector.key.nn)


def _result(
    source: CiphertextVector, ciphertexts: Iterable[mpz], count: int, weight: int, fraction: int
) -> CiphertextVector:
    lanes = source.lanes.scaled(fraction)
    return source.holding(ciphertexts, lanes=lanes, length=count * source.columns, weight=weight)


def _columns(X: np.ndarray, size: int, data: bytes, width: int, nn: int) -> list[mpz]:
    """Return Π_u base_u^x_u for each row x of X (d, m), multipliers of `size` bytes."""
    m = mpz(nn)
    bases = Residues(width, data=data).numbers
    both = (bases, tuple(backend.inverses(bases, m)))
    return [_multiple(both, x.astype(np.int64), size, m) for x in X]


def _multiple(bases: tuple[tuple[mpz, ...], tuple[mpz, ...]], x: np.ndarray, size: int, m: mpz) -> mpz:
    digits = []
    for _ in range(size - 1):
        digits.append((x + _DIGIT) % (2 * _DIGIT) - _DIGIT)
        x = (x - digits[-1]) // (2 * _DIGIT)
    power = mpz(1)
    for digit in (x, *reversed(digits)):
        used = np.flatnonzero(digit)
        signed = [bases[int(digit[u] < 0)][u] for u in used]
        power = gmpy2.powmod(power, 2 * _DIGIT, m) * backend.in_buckets(signed, np.abs(digit[used]).tolist(), m) % m
    return power


def _sums(G: np.ndarray, bits: int, data: bytes, width: int, nn: int) -> list[mpz]:
    """Return Π_d base_d^g_d for each row g of G (m, d)."""
    m, shift = mpz(nn), 1 << (bits - 1)
    bases = Residues(width, data=data).numbers
    tables = [FixedBase(base, m, bits // 8) for base in bases]
    # G + 2^(bits−1) has no sign; what it adds, 2^(bits−1)·Σ_d T_d, is the same for every row and taken off first.
    start = gmpy2.powmod(backend.product(bases, m), -shift, m)
    shifted = np.ascontiguousarray((G.astype(np.int32) + shift).astype(f"<u{bits // 8}"))
    return [start * backend.product(map(_power, tables, row), m) % m for row in shifted]


def _power(table: FixedBase, multiplier: np.unsignedinteger[Any]) -> mpz:
    return table.power(multiplier.tobytes())
