"""Our side of `accord bench crypto`: each method does the work once and returns how much of it a CPU-second does.

CPU seconds are those of all threads of this process and of the processes that the work starts and ends.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

from base.errors import StateError
from crypto import masks
from crypto.blind_rsa import Blinding
from crypto.blind_rsa import tag as rsa_tag
from crypto.curve import CurveSecret, tag_bytes, tags
from crypto.matrix import matvec
from crypto.packing import Lanes
from crypto.paillier import CiphertextVector, PublicKey, SecretKey
from crypto.rsa import RsaSecretKey

BITS = 2048
LANES = Lanes(32, 20, 2)
PRODUCTS = Lanes(64, 0, 2**40)  # X^T[[d]]: sums of products with 16-bit multipliers
WIDTH = LANES.capacity(BITS)
RUN, RULE = "bench", "0" * 64

Result = TypeVar("Result")


@dataclass(frozen=True)
class Sizes:
    """How much is done for one figure; chosen so that five repetitions take minutes on two cores."""

    ciphertexts: int = 300
    additions: int = 30_000
    packed: int = 400 * WIDTH
    one_by_one: int = 200
    people: int = 6_040
    columns: int = 8
    masked: int = 1_000_000
    curve_ids: int = 2_000
    transfer_ids: int = 50_000
    rsa_ids: int = 200
    peer_rows: int = 250  # rows of X that peers sum over; their cost for an entry does not depend on it
    peer_columns: int = 2


class Ours:
    """The product's keys and what is measured with them."""

    def __init__(self, sizes: Sizes, sent: dict[str, float]) -> None:
        """Make the keys; bytes for each value or id are put into `sent`."""
        self._sizes, self._sent, self._draw = sizes, sent, np.random.default_rng(1)
        self._secret = SecretKey.generate(BITS)
        self._public = PublicKey.from_bytes(self._secret.public.to_bytes())  # as another party has it

    def encrypt(self) -> float:
        """Return encryptions under another party's key, h_s^r with |r| = |n| / 2."""
        return self._rate(self._sizes.ciphertexts, lambda: self._public.encrypt(self._full, LANES))

    def encrypt_own(self) -> float:
        """Return encryptions under the own key, by CRT."""
        return self._rate(self._sizes.ciphertexts, lambda: self._secret.encrypt(self._full, LANES))

    def encrypt_pooled(self) -> float:
        """Return encryptions whose obfuscators were made before, which does not count."""
        packed, pool = LANES.pack(LANES.quantise(self._full), WIDTH), self._public.pool
        with pool.filling(len(packed)):
            while len(pool) < len(packed):
                time.sleep(0.01)
        return self._rate(len(packed), lambda: self._public.encrypt_packed(packed))

    def decrypt(self) -> float:
        """Return decryptions, unpacking included."""
        vector = self._vector
        return self._rate(self._sizes.ciphertexts, lambda: self._secret.decrypt(vector))

    def add(self) -> float:
        """Return additions of ciphertexts."""
        times = -(-self._sizes.additions // self._sizes.ciphertexts)
        a, b = self._vector, self._vector
        return self._rate(times * self._sizes.ciphertexts, lambda: [a.add(b) for _ in range(times)])

    def end_to_end(self) -> float:
        """Return values encrypted twice, added and decrypted."""
        x, y = self._draw.normal(size=(2, self._sizes.packed))
        made: list[CiphertextVector] = []

        def work() -> np.ndarray:
            made.extend(self._public.encrypt(v, LANES) for v in (x, y))
            return self._secret.decrypt(made[0].add(made[1]))

        rate, found = self._timed(x.size, work)
        _check(bool(np.abs(found - x - y).max() < 1e-5))
        self._sent["end to end: accord"] = made[0].to_table().nbytes / x.size
        return rate

    def matvec(self) -> float:
        """Return entries of X^T[[d]], X int16."""
        rows, sizes = self._rows, self._sizes
        X = self._draw.integers(-32767, 32768, (sizes.people, sizes.columns)).astype(np.int16)
        return self._rate(X.size, lambda: matvec(X, rows))

    def one_hot(self) -> float:
        """Return rows of a one-hot X, which are additions."""
        ids = self._draw.integers(0, 20, self._sizes.people)
        return self._rate(ids.size, lambda: self._rows.segment_sum(ids, 20))

    def pairwise_masks(self) -> float:
        """Return values summed over three parties with pairwise and self masks: all three and the aggregator."""
        size, lanes = self._sizes.masked, Lanes(32, 20, 3)
        parts = self._draw.normal(size=(3, size)).astype(np.float32)
        s01, s02, s12, *own = (os.urandom(32) for _ in range(6))
        pads: tuple[tuple[list[bytes], list[bytes]], ...] = (([s01, s02], []), ([s12], [s01]), ([], [s02, s12]))
        words = np.zeros(0, np.uint64)

        def work() -> np.ndarray:
            nonlocal words
            words = masks.pack(parts[0], lanes)
            masks.add_pads(words, [own[0], *pads[0][0]], pads[0][1])
            for i in (1, 2):
                masked = masks.pack(parts[i], lanes)
                masks.add_pads(masked, [own[i], *pads[i][0]], pads[i][1])
                words += masked
            masks.add_pads(words, [], own)
            return masks.unpack(words, lanes, size, len(parts))

        rate, found = self._timed(size, work)
        _check(bool(np.abs(found - parts.sum(axis=0, dtype=np.float64)).max() < 1e-5))
        self._sent["end to end: accord, pairwise masks"] = words.nbytes / size
        return rate

    def curve_psi(self) -> float:
        """Return ids a side for both parties' work on Curve25519: two passes, tags, comparison."""
        n = self._sizes.curve_ids
        ours, theirs = _ids(n)
        width = tag_bytes(n, n)

        def work() -> int:
            a, b = CurveSecret(RUN, RULE), CurveSecret(RUN, RULE)
            mine, sent = a.mask(ours, RUN), b.mask(theirs, RUN)
            answer = tags(b.mask_again(mine, RUN), RUN, width)
            return len(_rows_of(answer) & _rows_of(tags(a.mask_again(sent, RUN), RUN, width)))

        rate, found = self._timed(n, work)
        _check(found == n - n // 2)
        self._sent["curve PSI: accord"] = 64 + width
        return rate

    def rsa_psi(self) -> float:
        """Return ids a side for both parties' work with blind RSA signatures."""
        n = self._sizes.rsa_ids
        ours, theirs = _ids(n)
        key = self._rsa

        def work() -> int:
            public = key.public
            published = {rsa_tag(public, s, RUN) for s in key.sign([public.hash(i.encode()) for i in theirs])}
            blinding = Blinding(public, [public.hash(i.encode()) for i in ours])
            public.check(blinding.blinded)
            signatures = blinding.unblind(key.sign(blinding.blinded))
            return len(published & {rsa_tag(public, s, RUN) for s in signatures})

        rate, found = self._timed(n, work)
        _check(found == n - n // 2)
        self._sent["RSA PSI: accord"] = 2 * BITS // 8 + 32
        return rate

    @cached_property
    def _full(self) -> np.ndarray:
        return self._draw.normal(size=self._sizes.ciphertexts * WIDTH)

    @cached_property
    def _vector(self) -> CiphertextVector:
        return self._public.encrypt(self._full, LANES)

    @cached_property
    def _rows(self) -> CiphertextVector:
        return self._public.encrypt_rows(self._draw.integers(-100, 100, (self._sizes.people, 16)), PRODUCTS)

    @cached_property
    def _rsa(self) -> RsaSecretKey:
        return RsaSecretKey.generate(BITS)

    def _rate(self, count: int, work: Callable[[], object]) -> float:
        return self._timed(count, work)[0]

    def _timed(self, count: int, work: Callable[[], Result]) -> tuple[float, Result]:
        start = _cpu()
        result = work()
        return count / (_cpu() - start), result


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _ids(n: int) -> list[list[str]]:
    return [[f"person-{i + shift:09}" for i in range(n)] for shift in (0, n // 2)]


def _rows_of(table: np.ndarray) -> set[bytes]:
    return {row.tobytes() for row in table}


def _check(holds: bool) -> None:
    if not holds:
        raise StateError("a measured result is wrong", expected="the right sum or intersection")
