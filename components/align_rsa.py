"""Align two parties' people by blind RSA signatures: both end with (own row -> aligned index), and no other id.

De Cristofaro and Tsudik (2010), fig. 3. The receiver learns the intersection first and tells the sender its side.
Ids are in normal form already (`validate_tables`; the rule's digest is part of the run plan). The sender's key lives in
its key store, one for each receiver; its life is the accord's to say.

Adversary: semi-honest, static, two parties. Both learn who is common to both, and each the other's number of ids up to
`batch`. Within the key's life the receiver sees when a tag appears or vanishes and can test an id that was signed
against every stored night; so the sender counts its signatures for each receiver, padding included, and stops at
`max_signatures`. Not protected: a receiver that lies about the result or asks for ids that are not its own.

    x, y   ids of receiver and sender, distinct, sorted; row = position        N_x, N_y
    H, σ   full-domain hash and signature H^d mod n                            tag = SHA-256(domain, run, σ)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import numpy as np
import pyarrow as pa
from annotated_types import Ge
from gmpy2 import mpz

from base.errors import CryptoError
from components.contract import Component, Context, Outputs, Params
from components.quota import spend
from components.secure_sum import SEALED
from crypto.blind_rsa import Blinding, tag
from crypto.primes import random_unit
from crypto.rsa import RsaPublicKey, RsaSecretKey
from transport.message import FIXED_BINARY, Message, Protection, WireSchema

NUMBERS = WireSchema("rsa_numbers", {"number": FIXED_BINARY})
TAGS = WireSchema("tags", {"tag": pa.binary(32)})
# fmt: off
MESSAGES = (
    #       name       from        to          schema   protection                   what it reveals
    Message("key",     "sender",   "receiver", NUMBERS, Protection.PUBLIC,           "nothing: a modulus and the proof that it signs one to one"),  # noqa: E501
    Message("tags",    "sender",   "receiver", TAGS,    Protection.HASHED_SIGNATURE, "N_y up to the batch; a tag to whoever holds that id's signature"),  # noqa: E501
    Message("blinded", "receiver", "sender",   NUMBERS, Protection.BLINDED,          "N_x up to the batch"),
    Message("signed",  "sender",   "receiver", NUMBERS, Protection.BLINDED,          "the signatures of the receiver's own ids"),  # noqa: E501
    Message("matched", "receiver", "sender",   SEALED,  Protection.WRAPPED,          "which of the sender's people the receiver has too, in the aligned order"),  # noqa: E501
)
# fmt: on


class AlignRsaParams(Params):
    """Whose column is aligned, and how."""

    tables: Mapping[str, str]  # party -> table that holds its ids
    id_column: str  # text, normal form, no nulls
    key_bits: Literal[2048, 3072, 4096] = 3072  # bits of the RSA modulus
    batch: Annotated[int, Ge(1)] = 1024  # both sides pad to a multiple of it, so that sizes show no more
    max_signatures: Annotated[int, Ge(1)] = (
        100_000  # over the key's life, padding included; the accord sets the ceiling
    )
    min_overlap: Annotated[int, Ge(1)] = 100  # people in common; with fewer the step stops and the sender learns no one


def receiver(ctx: Context, params: AlignRsaParams) -> Outputs:
    """Return the rows of the own ids in the aligned order."""
    (sender,) = ctx.parties("sender")
    x = _ids(ctx, params)

    # 1. The sender's key, checked to sign one to one, and the tags of its people.
    n, *roots = _read(ctx.recv("key"))
    key = RsaPublicKey(int(n))
    key.check_proof(roots)
    tags = ctx.recv("tags")["tag"].to_pylist()
    _refuse_repeats(tags)

    # 2. The own ids, hashed, padded and blinded.
    padding = [random_unit(key.n) for _ in range(-len(x) % params.batch)]
    blinding = Blinding(key, [*(key.hash(i.encode()) for i in x), *padding])
    ctx.send("blinded", _table(key, blinding.blinded))

    # 3. Signatures of the own ids, verified, and the tags in common.
    signatures = blinding.unblind(_read(ctx.recv("signed")))[: len(x)]
    position = {t: i for i, t in enumerate(tags)}
    pairs = [(row, position.get(tag(key, σ, ctx.run))) for row, σ in enumerate(signatures)]
    common = np.array([(row, at) for row, at in pairs if at is not None], dtype=np.int64).reshape(-1, 2)
    # How few is not said: an error is shown to the sender too.
    ctx.require(len(common) >= params.min_overlap, "too few in common", expected=params.min_overlap, found="fewer")

    # 4. One order for both, drawn by the receiver alone: it says nothing about rows, ids or time.
    common = ctx.private_rng("alignment").permutation(common)
    sealed = ctx.keys.wrap(sender, common[:, 1].astype("<i8").tobytes(), _context(ctx))
    ctx.send("matched", pa.table({"sealed": pa.array([sealed], pa.binary())}))
    return _finish(ctx, len(x), common[:, 0])


def sender(ctx: Context, params: AlignRsaParams) -> Outputs:
    """Return the rows of the own ids in the aligned order."""
    (receiver,) = ctx.parties("receiver")
    y = _ids(ctx, params)

    # 1. The key with its proof; tags of the own people, padded, in the order of their bytes.
    name = f"rsa.{receiver}.{params.key_bits}"
    secret = RsaSecretKey.from_bytes(ctx.keys.keep(name, lambda: RsaSecretKey.generate(params.key_bits).to_bytes()))
    key = secret.public
    ctx.send("key", _table(key, [key.n, *secret.prove()]))
    own = [tag(key, σ, ctx.run) for σ in secret.sign([key.hash(i.encode()) for i in y])]
    padded = own + [ctx.secret_bytes(32) for _ in range(-len(y) % params.batch)]
    order = sorted(range(len(padded)), key=padded.__getitem__)
    ctx.send("tags", pa.table({"tag": pa.array([padded[i] for i in order], pa.binary(32))}))

    # 2./3. Sign what cannot be read; every signature counts against the accord's quota, whatever key it is made with.
    blinded = _read(ctx.recv("blinded"))
    key.check(blinded)
    remedy = "sign a new accord with a new key, or raise max_signatures after weighing it against the id space"
    version = f"{ctx.run}/{ctx.attempt}"
    spend(ctx, f"signatures.{receiver}", len(blinded), params.max_signatures, version, "blind signatures", remedy)
    ctx.metric("signatures", len(blinded))
    ctx.send("signed", _table(key, secret.sign(blinded)))

    # 4. The order of the receiver; what it says is about the own tags alone.
    matched = ctx.keys.unwrap(receiver, ctx.recv("matched")["sealed"][0].as_py(), _context(ctx))
    return _finish(ctx, len(y), _rows(np.frombuffer(matched, "<i8"), np.array(order), len(y)))


def _ids(ctx: Context, params: AlignRsaParams) -> list[str]:
    """Return the distinct ids, sorted: a row of the alignment is a position in this list."""
    ctx.require(ctx.party in params.tables, "no table to align", expected=f"tables.{ctx.party}", found="none")
    ids: set[str] = set(ctx.inputs["tables"][params.tables[ctx.party]][params.id_column].to_pylist())
    ctx.require(None not in ids, "an id to align is null", expected="ids in normal form", found="null")
    return sorted(ids)


def _rows(positions: np.ndarray, order: np.ndarray, count: int) -> np.ndarray:
    """Return the sender's rows at the receiver's positions; `CryptoError` for repeats, padding, or beyond the end."""
    inside = (positions >= 0) & (positions < len(order))
    if not inside.all() or len(np.unique(positions)) != len(positions) or (order[positions] >= count).any():
        raise CryptoError(
            "the receiver's matches are not among the tags", expected="different tags of this sender's ids"
        )
    rows: np.ndarray = order[positions]
    return rows


def _finish(ctx: Context, ids: int, rows: np.ndarray) -> Outputs:
    ctx.metric("ids", ids)
    ctx.metric("aligned", len(rows))
    return {"alignment": pa.table({"row": rows.astype(np.int64), "index": np.arange(len(rows), dtype=np.int64)})}


def _context(ctx: Context) -> bytes:
    return f"accord alignment 1/{ctx.run}/{ctx.step}/{ctx.attempt}".encode()


def _refuse_repeats(tags: Sequence[bytes]) -> None:
    if len(set(tags)) != len(tags):
        raise CryptoError("tags repeat", expected="each tag once", found=f"{len(tags) - len(set(tags))} repeats")


def _table(key: RsaPublicKey, numbers: Sequence[mpz]) -> pa.Table:
    return pa.table({"number": pa.array([key.to_bytes(x) for x in numbers], pa.binary(key.bits // 8))})


def _read(table: pa.Table) -> list[mpz]:
    return [mpz(int.from_bytes(x, "big")) for x in table["number"].to_pylist()]


COMPONENT = Component(
    name="align_rsa",
    roles={"receiver": receiver, "sender": sender},
    params=AlignRsaParams,
    messages=MESSAGES,
    inputs={"tables": "validated tables, ids in normal form"},
    outputs={"alignment": "row of the party's own sorted distinct ids, aligned index; sorted by index"},
    min_parties={"receiver": 1, "sender": 1},
    adversary="Semi-honest, static, two parties. Both learn who is common to both; each the other's size to `batch`.\n"
    "Within the key's life the receiver can test signed ids against every stored night: signatures are counted.\n"
    "Not protected: a receiver that lies about the result or asks for ids that are not its own.",
)
