"""Our encrypted and masked vectors: each method does the work once and returns how much of it a CPU-second does."""

from __future__ import annotations

import os
import time
from functools import cached_property

import numpy as np

from bench.crypto_meter import BITS, Meter, Sizes, check
from crypto import masks
from crypto.matrix import matvec
from crypto.packing import Lanes
from crypto.paillier import CiphertextVector, PublicKey, SecretKey

LANES = Lanes(32, 20, 2)
PRODUCTS = Lanes(64, 0, 2**40)  # X^T[[d]]: sums of products with 16-bit multipliers
WIDTH = LANES.capacity(BITS)


class Vectors(Meter):
    """The product's keys and what is measured with them."""

    def __init__(self, sizes: Sizes, sent: dict[str, float]) -> None:
        """Make the keys; bytes for each value or id are put into `sent`."""
        super().__init__(sizes, sent)
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
        check(bool(np.abs(found - x - y).max() < 1e-5))
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
        check(bool(np.abs(found - parts.sum(axis=0, dtype=np.float64)).max() < 1e-5))
        self._sent["end to end: accord, pairwise masks"] = words.nbytes / size
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
