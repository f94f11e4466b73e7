"""Digests of RSA signatures that a party has already, so that a night signs new ids only.

Sealed in the node's key store, in segments: one for each batch since the last compaction, which is where a killed run
goes on, and large ones from before. An id stands there as a keyed hash of 16 bytes, with a key of this cache alone. Two
records with equal hashes would take 2^64 ids.

A generation is a set of segments under one key. Whatever replaces them all (ids that went away, another RSA key) writes
the next generation first, then the head that names it, then removes the old one: a crash in between loses nothing.

Two pipelines may align a table of one name with other rows, so an id that one run does not see is kept for the next:
it drops out when UNSEEN runs in a row ended without it.

    ids    distinct, as `alignment.Ids.values` has them; row = position
    record hash (16 bytes), digest (32), runs in a row that ended without the id (1)
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa

from base.errors import CryptoError
from components.contract import Context
from crypto.agreement import frame

HASH, DIGEST = 16, 32
RECORD = HASH + DIGEST + 1
UNSEEN = 8  # runs: a week of nights, and one
SEGMENT = 1 << 18  # records of a compacted segment: 12 MB


@dataclass(frozen=True)
class Head:
    """Which generation holds, for which RSA key, and the run and step that added to it last."""

    bound: str
    key: str  # hex, of the hash of ids
    generation: int = 0
    run: str = ""


class SignatureCache:
    """What is known of `ids`, and what is still to be signed."""

    def __init__(self, ctx: Context, name: str, bound: str, ids: pa.Array) -> None:
        """Read what is kept under `name`, or begin anew when it was kept for another RSA key than `bound` names.

        `CryptoError` for what this node did not seal as this cache.
        """
        self._ctx, self._name = ctx, name
        self.digests = np.zeros((len(ids), DIGEST), np.uint8)
        self.known = np.zeros(len(ids), bool)
        self._segments = self._records = 0
        self._others = np.zeros((0, RECORD), np.uint8)  # records of ids that this run does not see
        self._head = self._opened(bound)
        self._hashes = _hashes(ids, bytes.fromhex(self._head.key))
        self._order = np.argsort(as_keys(self._hashes))
        self._read()

    def missing(self) -> np.ndarray:
        """Return the rows whose signature is not known, ascending."""
        return np.flatnonzero(~self.known)

    def added_in_this_run(self) -> bool:
        """Tell whether an earlier attempt of this step added a batch."""
        return self._head.run == f"{self._ctx.run}/{self._ctx.step}"

    def add(self, rows: np.ndarray, digests: list[bytes]) -> None:
        """Keep a batch: it is on the disk when this returns. A batch of padding alone is an empty segment."""
        self.digests[rows] = np.frombuffer(b"".join(digests), np.uint8).reshape(-1, DIGEST)
        self.known[rows] = True
        self._put(self._head.generation, self._segments, self._of(rows))
        self._segments += 1
        self._records += len(rows)
        if not self.added_in_this_run():
            self._switch(self._head.generation, run=f"{self._ctx.run}/{self._ctx.step}")

    def compact(self) -> None:
        """Put batches together and drop what is known of ids that are gone: a run ends, for what it did not see."""
        self._others[:, -1] += 1
        others = self._others[self._others[:, -1] < UNSEEN]
        others = others[np.argsort(as_keys(others[:, :HASH]))]
        rows = self._order[self.known[self._order]]  # by keyed hash: what is kept has no order of ids
        total = len(rows) + len(others)
        starts = range(0, total, SEGMENT)
        if not len(self._others) and (self._records, self._segments) == (total, len(starts)):
            return
        before, after = self._head.generation, self._head.generation + 1
        self._forget(after)
        for k, start in enumerate(starts):
            first, last = (max(at - len(rows), 0) for at in (start, start + SEGMENT))
            self._put(after, k, np.vstack([self._of(rows[start : start + SEGMENT]), others[first:last]]))
        self._switch(after, run=self._head.run)
        self._forget(before)
        self._segments, self._records = len(starts), total

    def padding(self, count: int) -> np.ndarray:
        """Return (count, 32) digests of nobody, the same as long as the cache lives.

        Drawn anew they would differ between two attempts of a run, where those of people stay the same.
        """
        key = bytes.fromhex(self._head.key)
        found = [
            hashlib.sha256(frame(b"accord rsa padding 1", key, i.to_bytes(8, "big"))).digest() for i in range(count)
        ]
        return np.frombuffer(b"".join(found), np.uint8).reshape(-1, DIGEST)

    def _opened(self, bound: str) -> Head:
        kept = self._ctx.keys.get(f"{self._name}.head")
        head = Head(**json.loads(kept)) if kept else None
        if head and head.bound == bound:
            if head.generation:
                self._forget(head.generation - 1)  # of a crash after the switch
            return head
        self._head = Head(bound, self._ctx.secret_bytes(32).hex(), head.generation + 1 if head else 0)
        self._forget(self._head.generation)
        self._switch(self._head.generation, run="")
        if head:
            self._forget(head.generation)
        return self._head

    def _switch(self, generation: int, run: str) -> None:
        self._head = Head(self._head.bound, self._head.key, generation, run)
        self._ctx.keys.put(f"{self._name}.head", json.dumps(asdict(self._head)).encode())

    def _read(self) -> None:
        ordered, others = as_keys(self._hashes)[self._order], [self._others]
        while (data := self._segment(self._head.generation, self._segments)) is not None:
            if len(data) % RECORD:
                raise CryptoError("kept signatures are cut off", expected=f"a multiple of {RECORD} bytes",
                                  found=len(data))  # fmt: skip
            records = np.frombuffer(data, np.uint8).reshape(-1, RECORD)
            at = find(as_keys(records[:, :HASH]), ordered)
            rows = self._order[at[at >= 0]]
            self.digests[rows] = records[at >= 0, HASH : HASH + DIGEST]
            self.known[rows] = True
            others.append(records[at < 0])
            self._segments += 1
            self._records += len(records)
        self._others = np.vstack(others)

    def _of(self, rows: np.ndarray) -> np.ndarray:
        """Return the records of own ids, seen in this run."""
        return np.hstack([self._hashes[rows], self.digests[rows], np.zeros((len(rows), 1), np.uint8)])

    def _segment(self, generation: int, k: int) -> bytes | None:
        return self._ctx.keys.get(f"{self._name}.{generation}.{k}")

    def _put(self, generation: int, k: int, records: np.ndarray) -> None:
        self._ctx.keys.put(f"{self._name}.{generation}.{k}", records.tobytes())

    def _forget(self, generation: int) -> None:
        """Remove a generation from its end: what a crash leaves of it is found again from its beginning."""
        count = 0
        while self._segment(generation, count) is not None:
            count += 1
        for k in reversed(range(count)):
            self._ctx.keys.forget(f"{self._name}.{generation}.{k}")


def as_keys(rows: np.ndarray) -> np.ndarray:
    """Return (n, w) bytes as n keys that numpy sorts and compares; of one width, so ends of zeros tell them apart."""
    return np.ascontiguousarray(rows).view(f"S{rows.shape[1]}").ravel()


def find(keys: np.ndarray, ordered: np.ndarray) -> np.ndarray:
    """Return where each key stands in `ordered` (ascending, distinct), -1 where it does not."""
    if not len(ordered):
        return np.full(len(keys), -1)
    at = np.minimum(np.searchsorted(ordered, keys), len(ordered) - 1)
    return np.where(ordered[at] == keys, at, -1)


def _hashes(ids: pa.Array, key: bytes) -> np.ndarray:
    """Return the keyed hashes (n, 16)."""
    found = bytearray()
    for start in range(0, len(ids), SEGMENT):
        texts = ids.slice(start, SEGMENT).to_pylist()
        found += b"".join(hashlib.blake2b(i.encode(), digest_size=HASH, key=key).digest() for i in texts)
    return np.frombuffer(bytes(found), np.uint8).reshape(-1, HASH)
