"""A party's own buckets as they are sent: masked, padded, in an order that it alone knows.

*Padding* is the hash of a secret random text, masked like an id. *Order* and padding come from secrets that last for
the run: a further attempt that repeats a bucket sends the same bytes again. With padding drawn anew, the peer would
see which points stay, which are the real ones.

    place   bucket·n + position within what was sent, of n points in each bucket
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa

from base.errors import CryptoError, StateError
from components.alignment import AlignParams
from components.alignment_ids import Ids, bucket_salt, capacity
from components.contract import Context
from components.curve_run import CurveRun
from crypto.curve import CurveSecret
from crypto.ladder import WIDTH
from crypto.secret import Secret
from features.id_partition import Work, partition, read_bucket

GROUP = 1 << 21  # ids that Spark masks before the first of them is sent


@dataclass(frozen=True)
class _Group:
    """Buckets that Spark has masked, in a folder."""

    buckets: range
    rows: np.ndarray  # of the ids in them, ascending
    folder: Path


class OwnBuckets(Secret):
    """The own ids for one exchange, bucket by bucket."""

    def __init__(self, ctx: Context, params: AlignParams, ids: Ids, run: CurveRun) -> None:
        """Mask with the scalar of `run`; with Spark where there are many ids."""
        self._ctx, self._ids, self._run, self._buckets = ctx, ids, run, params.buckets
        self._size = capacity(ids.padded, params.buckets)
        self._large, self._group = len(ids.values) >= params.spark_above, cast(_Group | None, None)

    def masked(self, b: int) -> np.ndarray:
        """Return bucket b as it is sent, (n, 32): masked points, padding among them, in the private order."""
        rows, run = self._ids.bucket(b), self._run
        ids = self._by_spark(b, rows) if self._large else run.scalar.mask(self._texts(rows), run.name)
        padding = run.scalar.mask([self._pad(b, i) for i in range(self._size - len(rows))], run.name)
        points: np.ndarray = np.concatenate([ids, padding])[self._order(b)]
        return points

    def rows(self, places: np.ndarray) -> np.ndarray:
        """Return the rows of the own ids at these places; `CryptoError` for repeats, padding, or beyond the end."""
        inside = (places >= 0) & (places < self._size * self._buckets)
        rows = np.full(len(places), -1)
        if inside.all() and len(np.unique(places)) == len(places):
            for b, here in by_bucket(places, self._size):
                bucket = self._ids.bucket(b)
                entries = self._order(b)[places[here] % self._size]
                rows[here] = np.append(bucket, -1)[np.minimum(entries, len(bucket))]
        if (rows < 0).any():
            raise CryptoError("matches are not among the own ids", expected="different places of ids, not of padding",
                              where=f"matches with {self._run.peer}")  # fmt: skip
        return rows

    def _texts(self, rows: np.ndarray) -> list[str]:
        found: list[str] = self._ids.values.take(pa.array(rows)).to_pylist()
        return found

    def _pad(self, b: int, i: int) -> str:
        return hmac.digest(self._run.padding, f"{b}/{i}".encode(), "sha256").hex()

    def _order(self, b: int) -> np.ndarray:
        return self._ctx.private_rng(f"order {self._run.name} {b}").permutation(self._size)

    def _by_spark(self, b: int, rows: np.ndarray) -> np.ndarray:
        """Return the masked ids of bucket b; Spark masks it with those that follow, to disk, GROUP ids at a time.

        So a peer waits for a group and not for all of them, and a further attempt repeats no bucket that is done.
        """
        if self._group is None or b not in self._group.buckets:
            self._group = self._mask_group(b)
        found, points = read_bucket(self._group.folder, b)
        if not np.array_equal(self._group.rows[found], rows):
            raise StateError("Spark returned other ids", expected="those of the bucket", found="others",
                             where=f"{self._ctx.party}, step {self._ctx.step}")  # fmt: skip
        return points

    def _mask_group(self, b: int) -> _Group:
        ctx, cuts = self._ctx, self._ids.cuts
        end = max(int(np.searchsorted(cuts, cuts[b] + GROUP, side="right")) - 1, b + 1)
        group = _Group(range(b, end), np.sort(self._ids.order[cuts[b] : cuts[end]]), ctx.spill())
        work = _masking(self._run.scalar.to_bytes(), self._run.name, self._ids.rule.hex())
        values = self._ids.values.take(pa.array(group.rows))
        partition(ctx.spark(), values, self._buckets, bucket_salt(ctx), work, WIDTH, group.folder)
        return group


def by_bucket(places: np.ndarray, size: int) -> list[tuple[int, np.ndarray]]:
    """Return (bucket, indices of the places that lie in it) for each bucket that holds one."""
    order = np.argsort(places // size, kind="stable")
    buckets, starts = np.unique(places[order] // size, return_index=True)
    return list(zip(buckets.tolist(), np.split(order, starts[1:]), strict=True)) if len(places) else []


def _masking(scalar: bytes, run: str, rule: str) -> Work:
    """Return what masks ids on Spark's executors: they get the scalar as bytes, see `features.id_partition`."""
    return lambda texts: CurveSecret.from_bytes(scalar, run, rule).mask(texts, run)
