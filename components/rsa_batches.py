"""The two ends of signing in batches: what the receiver asks, what a sender answers, and the tags that come of it.

A batch is `pad_to` numbers, always. The receiver keeps a batch when it is verified, the sender one of its own ids when
it is signed: there a further attempt goes on. A night without new ids has one batch of padding.

    rows   positions of new ids among the own ones; batch b is `batches[b]`         digests, tags  (n, 32) bytes
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
import pyarrow as pa
from annotated_types import Ge, Le
from gmpy2 import mpz
from pydantic import StringConstraints

from base.errors import CryptoError
from components.alignment import AlignParams
from components.alignment_ids import Ids
from components.contract import Context
from components.signature_cache import DIGEST, SignatureCache
from components.signature_quota import Signing
from components.sorted_tags import match_tags, send_tags
from crypto.agreement import frame
from crypto.blind_rsa import Blinding, digest, tag
from crypto.primes import random_unit
from crypto.rsa import RsaPublicKey, RsaSecretKey
from crypto.secret import Secret
from transport.message import FIXED_BINARY, WireSchema

NUMBERS = WireSchema("rsa_numbers", {"number": FIXED_BINARY})
TAGS = WireSchema("tags", {"tag": pa.binary(DIGEST)})
BATCHES = WireSchema("batches", {"batches": pa.int32()})


class AlignRsaParams(AlignParams):
    """Whose column is aligned, and how. `pad_to` is the size of a batch; `buckets` are those of a cardinality pass."""

    pad_to: Annotated[int, Ge(1), Le(100_000)] = 1024  # sizes are multiples of it; a batch, within any message
    key_bits: Literal[2048, 3072, 4096] = 3072  # bits of the RSA modulus
    key_period: Annotated[str, StringConstraints(pattern=r"^[a-z0-9_-]{0,32}$")] = ""  # another label: another key
    max_signatures: Annotated[int, Ge(1)] = 100_000  # for one receiver in a key_period, padding included


class Asking(Secret):
    """The receiver's dealings with one sender."""

    def __init__(self, ctx: Context, params: AlignRsaParams, ids: Ids, sender: str, tags: int) -> None:
        """Take the sender's key, tell how many ids are new, hear how many are; `tags` stand for the sender's ids."""
        self._ctx, self._ids, self._sender, self._pad_to, self._count = ctx, ids, sender, params.pad_to, tags
        n, *roots = _read(ctx.recv("key", sender)) or [mpz(0)]  # of no length: refused below
        self._key = RsaPublicKey(int(n))
        if self._key.bits != params.key_bits:
            raise CryptoError("a key of another length", expected=params.key_bits, found=self._key.bits, party=sender)
        self._key.check_proof(roots)
        self.cache = _cache(ctx, params, ids, sender, self._key)
        self._batches = _batches(self.cache, params.pad_to)
        ctx.send("new", _number(len(self._batches)), sender)
        self._theirs = _heard(ctx, sender, tags, params.pad_to)
        self.rounds = max(len(self._batches), self._theirs)

    def ask(self, b: int) -> None:
        """Send batch b of the new ids, hashed, padded and blinded."""
        if b < len(self._batches):
            hashes = _hashed(self._key, self._ids, self._batches[b])
            padding = [random_unit(self._key.n) for _ in range(self._pad_to - len(hashes))]
            self._blinding = Blinding(self._key, [*hashes, *padding])
            self._ctx.send("blinded", _table(self._key, self._blinding.blinded), self._sender)

    def hear(self, b: int) -> None:
        """Verify and keep the signatures of batch b; hear that the sender works on its own ids."""
        if b < len(self._batches):
            rows = self._batches[b]
            signatures = self._blinding.unblind(_read(self._ctx.recv("signed", self._sender)))
            self.cache.add(rows, [digest(self._key, σ) for σ in signatures[: len(rows)]])
        if b < self._theirs:
            self._ctx.recv("working", self._sender)

    def matches(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (own rows, positions among the sender's tags) of equal tags, read slice by slice.

        `CryptoError` for tags that repeat, stand in another order, or are of another number than announced.
        """
        return match_tags(self._ctx, _tags(self._ctx, self.cache.digests), self._sender, self._count)


class Answering(Secret):
    """A sender's dealings with the receiver."""

    def __init__(self, ctx: Context, params: AlignRsaParams, ids: Ids, receiver: str, most: int) -> None:
        """Show the key with its proof; hear how many ids are new, have them paid, tell how many own ones are.

        `most` stand for the receiver's ids. `ConsentError` when the receiver has had what it may get.
        """
        self._ctx, self._ids, self._pad_to = ctx, ids, params.pad_to
        self._secret = _own_key(ctx, params, receiver)
        self._key = self._secret.public
        ctx.send("key", _table(self._key, [self._key.n, *self._secret.prove()]))
        self._cache = _cache(ctx, params, ids, receiver, self._key)
        self._batches = _batches(self._cache, params.pad_to)
        self._asked = _heard(ctx, receiver, most, params.pad_to)
        self._signing = Signing(ctx, receiver, params.key_period, params.max_signatures)
        self._signing.reserve(self._asked * params.pad_to)
        ctx.send("new", _number(len(self._batches)))
        self.rounds = max(self._asked, len(self._batches))

    def answer(self, b: int) -> None:
        """Sign the receiver's batch b; it is counted before the signatures leave."""
        if b < self._asked:
            blinded = _read(self._ctx.recv("blinded"))
            if len(blinded) != self._pad_to:
                raise CryptoError("a batch of another size", expected=self._pad_to, found=len(blinded))
            self._key.check(blinded)
            signed = self._secret.sign(blinded)
            self._signing.issue(len(signed))
            self._ctx.send("signed", _table(self._key, signed))

    def sign_own(self, b: int) -> None:
        """Sign and keep batch b of the own new ids, and tell that there is work going on."""
        if b < len(self._batches):
            signatures = self._secret.sign(_hashed(self._key, self._ids, self._batches[b]))
            self._cache.add(self._batches[b], [digest(self._key, σ) for σ in signatures])
            self._ctx.send("working", _number(len(self._batches) - b - 1))

    def send_tags(self, count: int) -> np.ndarray:
        """Send `count` tags, those of the own ids among them; return which digest each position stands for, (count,).

        Own ids come first among the digests, then padding.
        """
        padding = self._cache.padding(count - len(self._ids.values))
        return send_tags(self._ctx, _tags(self._ctx, np.vstack([self._cache.digests, padding])))

    def close(self) -> None:
        """Put batches together, drop ids that are gone, forget what a further attempt would need."""
        self._cache.compact()
        self._signing.close()


def _own_key(ctx: Context, params: AlignRsaParams, receiver: str) -> RsaSecretKey:
    """Return the key for a receiver, made when there is none of this length."""
    _begin_period(ctx, params, receiver)
    name = f"peer/{receiver}/key.{params.key_bits}"
    kept = ctx.keys.get(name)
    if kept is not None:
        return RsaSecretKey.from_bytes(kept)
    secret = RsaSecretKey.generate(params.key_bits)
    ctx.keys.put(name, secret.to_bytes())
    return secret


def _begin_period(ctx: Context, params: AlignRsaParams, peer: str) -> None:
    """Destroy every key and every cache of a peer when they are of another `key_period`: all lengths and tables.

    The period is noted in the same folder, after all else went: a crash in between begins here again.
    """
    name, period = f"peer/{peer}/period", params.key_period.encode()
    if ctx.keys.get(name) != period:
        ctx.keys.forget_peer(peer)
        ctx.keys.put(name, period)


def _cache(ctx: Context, params: AlignRsaParams, ids: Ids, peer: str, key: RsaPublicKey) -> SignatureCache:
    """Return what is kept of this table's ids under this key, at either side; columns may have any name."""
    _begin_period(ctx, params, peer)
    place = frame(*(str(part).encode() for part in (params.key_bits, params.tables[ctx.party], params.id_column)))
    name = f"peer/{peer}/{ctx.role}.{hashlib.sha256(place).hexdigest()[:32]}"
    return SignatureCache(ctx, name, key.fingerprint, ids.values)


def _batches(cache: SignatureCache, size: int) -> list[np.ndarray]:
    """Return the rows to sign, batch by batch; a night without new ids has one batch of padding, unless it had one."""
    rows = cache.missing()
    if not len(rows) and not cache.added_in_this_run():
        return [rows]
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def _heard(ctx: Context, peer: str, ids: int, size: int) -> int:
    """Return how many batches the peer has; `CryptoError` for more than `ids` fill."""
    told, most = ctx.recv("new", peer)["batches"].to_pylist(), -(-ids // size)
    if len(told) != 1:
        raise CryptoError("a number of another form", expected="one number", found=len(told), where=f"new of {peer}")
    (found,) = told
    if not 0 <= found <= most:
        raise CryptoError("more new ids than there are ids", expected=f"up to {most} batches", found=found, party=peer)
    return int(found)


def _hashed(key: RsaPublicKey, ids: Ids, rows: np.ndarray) -> list[mpz]:
    return [key.hash(i.encode()) for i in ids.values.take(pa.array(rows)).to_pylist()]


def _tags(ctx: Context, digests: np.ndarray) -> np.ndarray:
    """Return the tags (n, 32) of this run."""
    data = digests.tobytes()
    found = bytearray()
    for start in range(0, len(data), DIGEST):
        found += tag(data[start : start + DIGEST], f"{ctx.run}/{ctx.step}")
    return np.frombuffer(bytes(found), np.uint8).reshape(-1, DIGEST)


def _number(count: int) -> pa.Table:
    return pa.table({"batches": pa.array([count], pa.int32())})


def _table(key: RsaPublicKey, numbers: Sequence[mpz]) -> pa.Table:
    return pa.table({"number": pa.array([key.to_bytes(x) for x in numbers], pa.binary(key.bits // 8))})


def _read(table: pa.Table) -> list[mpz]:
    return [mpz(int.from_bytes(x, "big")) for x in table["number"].to_pylist()]
