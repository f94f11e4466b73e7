"""What one party's end of an exchange keeps in the node's key store: secrets, what they depend on, and what is counted.

*Further attempts* go on with the ids, sizes and rule of the first: rows and places of a checkpoint mean others' people
in another list. What they depend on is kept for the run, as a digest that outlives the scalar.

*Quota.* Whoever sends n points tests n ids, so each party counts the peer's points, padding included, under
`tests.PEER` over the life of the accord. The same points in a further attempt cost nothing; others are counted again.
A nightly run costs N tests each night, about 365·N in a year, though honest nights test the same ids again: a scalar of
one run cannot show that they are the same. So `max_tests` of the accord is what a deviating peer may test in all, and
one run may test a tenth of the possible ids at most.
"""

from __future__ import annotations

import hashlib

import numpy as np

from base.errors import StateError
from components.alignment import AlignParams
from components.alignment_ids import Ids
from components.contract import Context
from components.quota import raise_parameter, spend
from crypto.curve import CurveSecret
from crypto.ladder import WIDTH
from crypto.secret import Secret

_PADDING = 32  # bytes of the secret that padding comes from
_SPENDING = 8  # bytes that name a spending
_DIGEST = 32
_PAGE = 256  # buckets whose digests are kept together: 8 kB are rewritten for each bucket


class CurveRun(Secret):
    """One party's scalar, padding secret and counts for one run with one peer."""

    def __init__(self, ctx: Context, params: AlignParams, ids: Ids, pair: tuple[str, str], bound: bytes) -> None:
        """Take what an earlier attempt kept, or draw it; `StateError` where that depends on something else.

        pair    (receiver, sender)        bound   digest of what the run depends on
        """
        self._ctx, self._params = ctx, params
        (self.peer,) = set(pair) - {ctx.party}
        self.name = "/".join((ctx.run, ctx.step, *pair))
        self._place = f"run/{ctx.run}/curve.{ctx.step}.{self.peer}"
        self._bind(bound)
        kept = self._kept(ids.rule.hex())
        self.scalar = CurveSecret.from_bytes(kept[:WIDTH], self.name, ids.rule.hex())
        self.padding, self._spending = kept[WIDTH:-_SPENDING], kept[-_SPENDING:].hex()

    def spend(self, tests: int, further: str = "") -> None:
        """Count tests of the peer, once for each `further`; `ConsentError` beyond `max_tests`."""
        spend(self._ctx, f"tests.{self.peer}", tests, self._params.max_tests, self._spending + further,
              f"tests of ids of {self.peer}", raise_parameter("max_tests"))  # fmt: skip

    def count(self, b: int, points: np.ndarray) -> None:
        """Count the points of the peer's bucket b once more when they are others than those of an earlier attempt."""
        page, at = f"{self._place}.{b // _PAGE}", b % _PAGE * _DIGEST
        kept = bytearray(self._ctx.keys.get(page) or bytes(_PAGE * _DIGEST))
        before, digest = bytes(kept[at : at + _DIGEST]), hashlib.sha256(points.tobytes()).digest()
        if any(before) and before != digest:
            self.spend(len(points), f".{b}.{digest.hex()}")
        kept[at : at + _DIGEST] = digest
        self._ctx.keys.put(page, bytes(kept))

    def close(self) -> None:
        """Forget the scalar and what was counted; that the run is bound to these ids stays until the run is closed."""
        pages = range(-(-self._params.buckets // _PAGE))
        for name in (self._place, *(f"{self._place}.{page}" for page in pages)):
            self._ctx.keys.forget(name)

    def _bind(self, bound: bytes) -> None:
        """Keep what the run depends on; `StateError` for a further attempt that depends on something else."""
        ctx, name = self._ctx, f"run/{self._ctx.run}/bound.{self._ctx.step}.{self.peer}"
        if ctx.attempt > 1 and ctx.keys.get(name) not in (None, bound):
            raise StateError(
                f"the alignment with {self.peer} is not that of the earlier attempt",
                expected="ids, id rule, buckets and both sizes as before", found="others",
                where=f"{ctx.party}, step {ctx.step}", remedy="start a new run",
            )  # fmt: skip
        ctx.keys.put(name, bound)

    def _kept(self, rule: str) -> bytes:
        """Return scalar, padding secret and name of the spending: those of an earlier attempt, or new ones."""
        kept = self._ctx.keys.get(self._place) if self._ctx.attempt > 1 else None
        if kept is None:
            self.close()
            kept = CurveSecret(self.name, rule).to_bytes() + self._ctx.secret_bytes(_PADDING + _SPENDING)
            self._ctx.keys.put(self._place, kept)
        return kept
