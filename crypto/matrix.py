"""Integer matrices times encrypted rows, without the secret key.

`matvec` puts every row into the bucket of its multiplier and joins the buckets by a running product (Pippenger's
bucket method, one window per byte of the multiplier): Σ_u X_ud·[[P_u]] costs one multiplication for each entry that is
not zero and about 510 a column. `combine` looks multipliers up in byte tables of each base (fixed-base windows).
Both treat the multiplier's sign exactly; the weight that they charge to the lanes follows from shapes and types alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import gmpy2
import numpy as np
from gmpy2 import mpz

from base.errors import CryptoError
from crypto.fixed_base import FixedBase
from crypto.vector import CiphertextVector


def matvec(X: np.ndarray, rows: CiphertextVector, fraction: int = 0) -> CiphertextVector:
    """Return [[T_d]] = Σ_u X_ud·[[P_u]], d ciphertexts; X (m, d) is int8 or int16 with `fraction` bits of fraction."""
    bits = _check(X, 0, rows)
    columns = (_multiple(rows.ciphertexts, X[:, d].astype(np.int64), bits // 8, rows.key.nn) for d in range(X.shape[1]))
    return _result(rows, columns, X.shape[1], rows.weight * X.shape[0] << (bits - 1), fraction)


def combine(G: np.ndarray, T: CiphertextVector, fraction: int = 0) -> CiphertextVector:
    """Return [[s_u]] = Σ_d G_ud·[[T_d]], m ciphertexts; G (m, d) is int8 or int16 with `fraction` bits of fraction."""
    bits, nn = _check(G, 1, T), T.key.nn
    tables = [FixedBase(c, nn, bits // 8) for c in T.ciphertexts]
    # G + 2^(bits−1) has no sign; what it adds, 2^(bits−1)·Σ_d T_d, is the same for every row and taken off first.
    start = gmpy2.powmod(_product(T.ciphertexts, mpz(1), nn), -(1 << (bits - 1)), nn)
    shifted = np.ascontiguousarray((G.astype(np.int32) + (1 << (bits - 1))).astype(f"<u{bits // 8}"))
    sums = (
        _product((table.power(x.tobytes()) for table, x in zip(tables, row, strict=True)), start, nn) for row in shifted
    )
    return _result(T, sums, G.shape[0], T.weight * G.shape[1] << (bits - 1), fraction)


def _check(matrix: np.ndarray, inner: int, vector: CiphertextVector) -> int:
    """Return the bits of the multipliers, sign included."""
    size = matrix.dtype.itemsize if matrix.dtype.kind == "i" else 0
    if matrix.ndim != 2 or size not in (1, 2) or matrix.shape[inner] != len(vector.ciphertexts):
        raise CryptoError(
            "a matrix does not fit an encrypted vector",
            expected=f"int8 or int16, axis {inner} of {len(vector.ciphertexts)}",
            found=f"{matrix.dtype}, {matrix.shape}",
        )
    return 8 * size


def _result(
    source: CiphertextVector, ciphertexts: Iterable[mpz], count: int, weight: int, fraction: int
) -> CiphertextVector:
    return replace(
        source, lanes=source.lanes.scaled(fraction), length=count * source.columns, weight=weight,
        ciphertexts=tuple(ciphertexts),
    )  # fmt: skip


def _product(factors: Iterable[mpz], start: mpz, nn: mpz) -> mpz:
    for factor in factors:
        start = start * factor % nn
    return start


def _multiple(bases: tuple[mpz, ...], x: np.ndarray, size: int, nn: mpz) -> mpz:
    """Return Π bases_u^x_u for signed x of `size` bytes."""
    up, down = (_power(bases, np.where(sign * x > 0, sign * x, 0), size, nn) for sign in (1, -1))
    return up * gmpy2.invert(down, nn) % nn


def _power(bases: tuple[mpz, ...], x: np.ndarray, size: int, nn: mpz) -> mpz:
    power = mpz(1)
    for byte in reversed(range(size)):
        power = gmpy2.powmod(power, 256, nn) if power != 1 else power
        power = power * _buckets(bases, x >> (8 * byte) & 255, nn) % nn
    return power


def _buckets(bases: tuple[mpz, ...], digits: np.ndarray, nn: mpz) -> mpz:
    """Return Π bases_u^digit_u for digits 0..255."""
    buckets: dict[int, mpz] = {}
    for u in np.flatnonzero(digits):
        digit = int(digits[u])
        buckets[digit] = buckets[digit] * bases[u] % nn if digit in buckets else bases[u]
    run = power = mpz(1)
    for digit in range(max(buckets, default=0), 0, -1):
        if digit in buckets:
            run = run * buckets[digit] % nn
        power = power * run % nn
    return power
