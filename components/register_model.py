"""All parties sign one manifest of a model's parts; each then registers its own part in its own MLflow.

Every data_holder ends with the same manifest: the digest of every party's part, of what all parts share, and every
party's signature. Promotion later moves the alias at all parties or at none, and needs this manifest.

Adversary: semi-honest, static. A part's digest is salted with the party's own secret, so nobody can test a guessed
part against it; the salt is the party's, and an auditor may be given it. A party that signs and then registers another
part is outside the claim; its own store shows it.

    part_j     arrays of party j
    shared     the arrays that must be equal everywhere (item factors)
    manifest   parts, model digest, signatures
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from base.canonical import canonical_bytes, digest
from base.errors import SpecMismatch
from components.contract import Arrays, Component, Context, Outputs, Params
from transport.message import Message, Protection, WireSchema

PART = WireSchema("part", {"shared": pa.string(), "own": pa.string()})
SIGNATURE = WireSchema("signature", {"signature": pa.binary()})
DOMAIN = b"accord/1/manifest\n"

MESSAGES = (
    Message("part", "data_holder", "data_holder", PART, Protection.PUBLIC, "salted digest of the sender's part"),
    Message(
        "signature", "data_holder", "data_holder", SIGNATURE, Protection.PUBLIC, "that the sender signs the manifest"
    ),
)


class RegisterModelParams(Params):
    """Which arrays all parties share."""

    shared: tuple[str, ...] = ()  # empty: the parts have nothing in common (vertical)


def data_holder(ctx: Context, params: RegisterModelParams) -> Outputs:
    """Return the signed manifest."""
    model: Arrays = ctx.inputs["model"]
    peers = [party for party in ctx.parties("data_holder") if party != ctx.party]

    # 1. Tell the digests of the own part.
    shared = _digest({name: model[name] for name in params.shared}, b"")
    own = _digest(model, ctx.private_rng("part salt").bytes(16))
    ctx.send("part", pa.table({"shared": [shared], "own": [own]}))
    parts = {ctx.party: {"shared": shared, "own": own}}
    for party in peers:
        parts[party] = ctx.recv("part", from_=party).to_pylist()[0]
        _same(shared, parts[party]["shared"], party)

    # 2. Everyone signs the same manifest, or nobody registers.
    manifest: dict[str, Any] = {"parts": parts, "model": digest({"parts": parts})}
    signed = DOMAIN + canonical_bytes({"run": ctx.run, "attempt": ctx.attempt, **manifest})
    signatures = {ctx.party: ctx.keys.sign(signed).hex()}
    ctx.send("signature", pa.table({"signature": [bytes.fromhex(signatures[ctx.party])]}))
    for party in peers:
        signature = ctx.recv("signature", from_=party)["signature"][0].as_py()
        ctx.keys.verify(party, signed, signature)
        signatures[party] = signature.hex()
    return {"manifest": {**manifest, "run": ctx.run, "attempt": ctx.attempt, "signatures": signatures}}


def _digest(arrays: Mapping[str, np.ndarray], salt: bytes) -> str:
    """SHA-256 over names, types, shapes and bytes, sorted by name."""
    h = hashlib.sha256(salt)
    for name in sorted(arrays):
        x = np.asarray(arrays[name], order="C")
        h.update(canonical_bytes([name, x.dtype.str, list(x.shape)]))
        h.update(x.tobytes())
    return h.hexdigest()


def _same(ours: str, theirs: str, party: str) -> None:
    if ours != theirs:
        raise SpecMismatch(
            f"the shared part of {party} is another one", expected=ours[:16], found=theirs[:16],
            remedy="run the training step again at all parties",
        )  # fmt: skip


COMPONENT = Component(
    name="register_model",
    roles={"data_holder": data_holder},
    params=RegisterModelParams,
    messages=MESSAGES,
    inputs={"model": "this party's part of the model", "metrics": "what the evaluation found"},
    optional_inputs=("metrics",),
    outputs={"manifest": "parts, model digest and signatures; the same at every data_holder"},
    min_parties={"data_holder": 2},
    adversary=(
        "Semi-honest, static. Digests are salted with each party's own secret. "
        "Not protected: a party that registers another part than it signed."
    ),
    registers=True,
)
