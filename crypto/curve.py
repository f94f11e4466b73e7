"""Private set intersection on Curve25519: each party multiplies hashed ids by a secret scalar that lives for one run.

"One run" is one exchange of two parties in one step of one run, with all its attempts: its name says all of these.

Meadows (1986); Huberman, Franklin and Hogg (1999). x-only arithmetic of RFC 7748, section 5:

    E        v² = f(u) = u³ + 486662u² + u over Z_p, p = 2^255 − 19;  #E = 8l, l prime, E cyclic
    H(id)    u = SHA-256(domain, run, id rule, id, i) mod 2^255 for the first i = 0, 1, ... with u < p and f(u) a square
    k        scalar, a multiple of 8 (clamped): k·H(id) is uniform in the subgroup of order l. Up to the sign, which an
             x coordinate does not show, the clamped scalars are all exponents but a fraction of about 2^−126
    k_a·(k_b·H(id)) = k_b·(k_a·H(id)), and so on for any number of parties in any order
    tag      SHA-256(domain, run, k_a·k_b·H(id)), cut to 40 + log2(N_a·N_b) bits or more

Why f(u) must be a square. For about half of all u it is not; (u, v) then lies on the *twist*, another group. A
ladder stays in the group where it starts: f(u(k·P)) is a square exactly when f(u(P)) is. With a raw hash as u, whoever
sees a masked id therefore reads the bit "H(id) is on the twist", whatever k is, and rules out half of all candidates
for each point; an id that can be followed through r runs loses r bits. Here the bit is the same for every id.

ASSUMPTIONS: SHA-256 is a random oracle, and DDH in the subgroup of order l, against parties that follow the protocol.
Against one that deviates, one-more gap Diffie-Hellman (Jarecki and Liu 2010): n points sent for masking test n ids and
no more. Which ids they are is the party's choice: nothing proves that an id belongs to a customer, so whoever uses this
counts points against a quota. The twist of Curve25519 is secure too (Bernstein 2006; RFC 7748, section 7): a wrong
point would not give k away, and is refused all the same.

What is not constant time: the search for i and gmpy2's Jacobi symbol take a time that depends on H(id), so they tell
something about OWN ids to whoever measures on the OWN machine. A peer sees one time for a whole batch; never hash one
id on a peer's demand. On received points the same test sees what the peer knows already. Multiplication by k is
constant time (`crypto.ladder`).

What an order may carry. The result of each function is in the order of its input. Shuffle ids with private randomness
before `mask`, or send the points sorted by their bytes: else positions tell of rows, time or ids. `mask_again` answers
in the order in which the points came: the peer needs it and learns nothing from it. Where a peer may learn the number
of common ids alone, shuffle the answer too.

Symbols: N_a, N_b sizes of the sets; points are arrays (n, 32) uint8, little-endian u, contiguous.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import gmpy2
import numpy as np
import pyarrow as pa
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from gmpy2 import mpz

from base.errors import CryptoError, StateError
from crypto.agreement import frame
from crypto.ladder import WIDTH, as_points, multiply
from crypto.secret import Secret

P = mpz(2**255 - 19)
A = 486662
POINT = pa.binary(WIDTH)
FALSE_MATCH = 40  # two different ids of the two sets have the same tag with probability at most 2^−40, over all pairs
_HASH, _TAG = b"accord curve hash 1", b"accord curve tag 1"
_LOW_255 = 2**255 - 1
_SMALL_ORDER = frozenset(  # u of order 4, 8 and 8 on the curve; u = 0 has order 2, and f(0) = 0 is no proper square
    (
        1,
        325606250916557431795983626356110631294008115727848805560023387167927233504,
        39382357235489614581723060781553021112529911719440698176882885853963445705823,
    )
)


class CurveSecret(Secret):
    """One party's scalar for one run, drawn anew for each object; dropped with the run.

    A further attempt of the same run may go on with it: `to_bytes` is for the sealed store of the party's node
    (`ctx.keys.put`, `get` and, as soon as the run ends, `forget`) and for nothing else.
    """

    def __init__(self, run: str, rule: str) -> None:
        """Draw the scalar; `run` names what it is for, `rule` says how the ids were normalised."""
        self._run, self._rule = run, rule
        self._key = X25519PrivateKey.generate()

    def to_bytes(self) -> bytes:
        """Return the scalar, 32 bytes: whoever has it can test ids against every point of this party in the run."""
        return self._key.private_bytes_raw()

    @classmethod
    def from_bytes(cls, data: bytes, run: str, rule: str) -> CurveSecret:
        """Return the scalar that `to_bytes` gave, for the same run and rule; `CryptoError` for another length."""
        if len(data) != WIDTH:
            raise CryptoError("a kept scalar of another length", expected=f"{WIDTH} bytes", found=len(data))
        secret = cls(run, rule)
        secret._key = X25519PrivateKey.from_private_bytes(data)
        return secret

    def mask(self, ids: Sequence[str], run: str) -> np.ndarray:
        """Return k·H(id) for each of the different own ids, (n, 32); `StateError` for another run than the scalar's."""
        self._check(run)
        return _different(multiply(self._key, hash_to_curve(ids, run, self._rule)))

    def mask_again(self, points: np.ndarray, run: str) -> np.ndarray:
        """Return k·point for each of a peer's points, (n, 32).

        `CryptoError` for what `check_points` refuses and for points that are different and have the same multiple,
        which no honest party sends: they differ by a point of small order.
        """
        self._check(run)
        check_points(points)
        return _different(multiply(self._key, points))

    def _check(self, run: str) -> None:
        if run != self._run:
            raise StateError("a curve scalar is used in a second run", remedy="draw a new CurveSecret for each run")


def hash_to_curve(ids: Sequence[str], run: str, rule: str) -> np.ndarray:
    """Return H(id) for each id, (n, 32); never sent: whoever sees it can test ids."""
    prefix = frame(_HASH, run.encode(), rule.encode())
    return as_points(b"".join([_find(prefix + frame(identifier.encode())) for identifier in ids]))


def check_points(points: np.ndarray) -> None:
    """Raise `CryptoError` unless `points` are different canonical points of the curve, (n, 32), none of small order."""
    if points.dtype != np.uint8 or points.ndim != 2 or points.shape[1] != WIDTH:
        raise CryptoError("points of another shape", expected=f"(n, {WIDTH}) uint8", found=points.shape)
    data = points.tobytes()
    numbers = (int.from_bytes(data[i : i + WIDTH], "little") for i in range(0, len(data), WIDTH))
    wrong = sum(1 for u in numbers if u in _SMALL_ORDER or not _on_curve(u))
    if wrong:
        raise CryptoError("points are refused", expected="on the curve, canonical, not of small order", found=wrong)
    _different(points)


def tag_bytes(na: int, nb: int) -> int:
    """Return the bytes of a tag for sets of these sizes; with more parties, the sum of all sizes for both."""
    if min(na, nb) < 1:
        raise CryptoError("a set to align is empty", expected="1 id or more", found=min(na, nb))
    return -(-(FALSE_MATCH + (na * nb - 1).bit_length()) // 8)


def tags(points: np.ndarray, run: str, width: int) -> np.ndarray:
    """Return a tag for each final point, (n, width) uint8, in the same order; `width` from `tag_bytes`, at most 32."""
    if not FALSE_MATCH // 8 <= width <= 32:
        raise CryptoError("a tag of another width", expected=f"{FALSE_MATCH // 8} to 32 bytes", found=width)
    framed, data, sha256 = frame(_TAG, run.encode(), bytes(WIDTH)), points.tobytes(), hashlib.sha256
    prefix = framed[:-WIDTH]  # of frame(_TAG, run, point), once for all points
    cut = [sha256(prefix + data[i : i + WIDTH]).digest()[:width] for i in range(0, len(data), WIDTH)]
    return np.frombuffer(b"".join(cut), np.uint8).reshape(-1, width)


def to_column(points: np.ndarray) -> pa.FixedSizeBinaryArray:
    """Return points or tags (n, width) as an Arrow column over the same memory."""
    rows, width = points.shape
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), rows, [None, pa.py_buffer(points)])


def from_column(column: pa.ChunkedArray, width: int = WIDTH) -> np.ndarray:
    """Return a received column as (n, width), over its memory where it is one chunk; `CryptoError` for another type."""
    if column.type != pa.binary(width) or column.null_count:
        raise CryptoError("a column of another type", expected=f"binary({width}), no nulls", found=column.type)
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    data = array.buffers()[1] or b""
    return np.frombuffer(data, np.uint8, len(array) * width, array.offset * width).reshape(-1, width)


def _find(message: bytes) -> bytes:
    i = 0
    while True:  # ends after two steps on average
        u = int.from_bytes(hashlib.sha256(message + i.to_bytes(4, "big")).digest(), "little") & _LOW_255
        if _on_curve(u):
            return u.to_bytes(WIDTH, "little")
        i += 1


def _on_curve(u: int) -> bool:
    return u < P and bool(gmpy2.jacobi(u * (u * (u + A) + 1), P) == 1)


def _different(points: np.ndarray) -> np.ndarray:
    repeats = len(points) - len(set(points.view(f"V{WIDTH}").ravel().tolist()))
    if repeats:
        raise CryptoError("points repeat", expected="different ids, each once", found=f"{repeats} repeats")
    return points
