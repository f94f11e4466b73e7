"""Our private set intersections, both parties in this process: each method returns ids a side for a CPU-second."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from bench.crypto_meter import BITS, Meter, check
from crypto.blind_rsa import Blinding, digest, tag
from crypto.curve import CurveSecret, tag_bytes, tags
from crypto.rsa import RsaSecretKey

RUN, RULE = "bench", "0" * 64


class Intersections(Meter):
    """Half of each side's ids are common."""

    def curve(self) -> float:
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
        check(found == n - n // 2)
        self._sent["curve PSI: accord"] = 64 + width
        return rate

    def rsa(self) -> float:
        """Return ids a side for both parties' work with blind RSA signatures."""
        n = self._sizes.rsa_ids
        ours, theirs = _ids(n)
        key = self._rsa

        def work() -> int:
            public = key.public
            published = {tag(digest(public, s), RUN) for s in key.sign([public.hash(i.encode()) for i in theirs])}
            blinding = Blinding(public, [public.hash(i.encode()) for i in ours])
            public.check(blinding.blinded)
            signatures = blinding.unblind(key.sign(blinding.blinded))
            return len(published & {tag(digest(public, s), RUN) for s in signatures})

        rate, found = self._timed(n, work)
        check(found == n - n // 2)
        self._sent["RSA PSI: accord"] = 2 * BITS // 8 + 32
        return rate

    @cached_property
    def _rsa(self) -> RsaSecretKey:
        return RsaSecretKey.generate(BITS)


def _ids(n: int) -> list[list[str]]:
    return [[f"person-{i + shift:09}" for i in range(n)] for shift in (0, n // 2)]


def _rows_of(table: np.ndarray) -> set[bytes]:
    return {row.tobytes() for row in table}
