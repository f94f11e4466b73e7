"""Vertical matrix factorisation (`target: factors, mode: sealed`): customers explained by columns nobody shows.

The label_holder ends with a model whose users are P_u + s_u, s_u = Wᵀx_u; the feature_holder ends with what it needs to
score new people later and has learned nothing of the ratings. W = (XᵀX + λI)^-1 XᵀP is never decrypted by anyone.

Encrypted least squares on a packed target: Paillier (1999) for sums and integer multiples, ridge regression of the
label_holder's factors on the columns as in Gantner et al. (2010), "Learning attribute-to-feature mappings", §4.

What hides G and X in the answer (fresh randomness, the mask above the lanes) holds against a label_holder whose modulus
was made as `SecretKey.generate` makes it. A label_holder that crafts n (a common factor of p − 1 and q − 1, or smooth
ones) reads columns of G·Xᵀ past both: it is inside its power to deviate, and outside what is claimed here.

    P     weak user factors, bias first     (m, k+1)    s    s_u of every aligned person    (m, k+1)
    X, G  features and X(XᵀX + λI)^-1       (m, d)      T    XᵀP, encrypted for good        (d, k+1)
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
import pyarrow as pa
from annotated_types import Ge, Gt, Le

from base.canonical import digest_bytes
from components.contract import Component, Context, Outputs, Params
from components.paillier_sum import CIPHERTEXTS, PUBLIC_KEY
from components.views import count_view
from crypto.matrix import matvec, multi_exp
from crypto.packing import Lanes
from crypto.paillier import CiphertextVector, PublicKey, SecretKey
from features.indexing import rating_columns
from models import vertical as mf
from models import vertical_fixed as fixed
from transport.message import Message, Protection

MESSAGES = (
    Message(
        "key", "label_holder", "feature_holder", PUBLIC_KEY, Protection.PUBLIC,
        "the label_holder's public key for this model",
    ),
    Message(
        "factors", "label_holder", "feature_holder", CIPHERTEXTS, Protection.PAILLIER,
        "how many people are aligned and k: the feature_holder has no key",
    ),
    Message(
        "explained", "feature_holder", "label_holder", CIPHERTEXTS, Protection.PAILLIER_ANSWER,
        "d, and s_u of every aligned person: k+1 numbers about its columns, to one quantum, views counted",
    ),
)  # fmt: skip


class VerticalMfParams(Params):
    """Defaults were found on random splits of MovieLens-100K, other splits than the demo's."""

    target: Literal["factors"] = "factors"
    mode: Literal["sealed"] = "sealed"
    embedding_size: Annotated[int, Ge(1), Le(32)] = 16  # k
    sweeps: Annotated[int, Ge(1), Le(100)] = 10  # alternations of the fit alone
    refit_sweeps: Annotated[int, Ge(1), Le(100)] = 3  # alternations around s
    reg_user: Annotated[float, Gt(0)] = 10.0  # ridge weights, in units of squared stars
    reg_user_refit: Annotated[float, Gt(0)] = 20.0  # of P around s: s explains most of it
    reg_item: Annotated[float, Gt(0)] = 20.0
    reg_bias: Annotated[float, Gt(0)] = 2.0
    reg_target: Annotated[float, Gt(0)] = 3.0  # λ_P of the factors that are sent
    reg_map: Annotated[float, Ge(1)] = 300.0  # λ of G, in people
    s_bits: Annotated[int, Ge(2), Le(12)] = 6  # bits of s that the label_holder sees
    s_range: Annotated[float, Gt(0), Le(16)] = 2.0  # half of the range that these bits span, in deviations of P
    max_columns: Annotated[int, Ge(1), Le(4096)] = 256  # d at most: sets the lanes without telling d
    key_bits: Literal[2048, 3072, 4096] = 3072

    @property
    def scales(self) -> fixed.Scales:
        """Scales of the integers that cross."""
        return fixed.Scales(self.reg_map, self.s_bits, self.s_range)

    def lanes(self, people: int) -> Lanes:
        """Layout of [[P]]: room for m·2^7 · max_columns·2^15 multiples, and one column more for the noise."""
        return Lanes(64, fixed.P_FRACTION, people * (self.max_columns + 1) << (fixed.X_BITS + fixed.G_BITS - 2))


def label_holder(ctx: Context, params: VerticalMfParams) -> Outputs:
    """Return the model with the fits alone and federated."""
    _one(ctx, "feature_holder")
    ratings = _ratings(ctx)
    people, k = ratings.shape[0], params.embedding_size
    ridge = mf.Ridge(params.reg_user, params.reg_item, params.reg_bias)

    # 1. Fit alone; send weak factors, zeros where there are no ratings.
    alone = mf.fit(ratings, k, ridge, params.sweeps, ctx.private_rng("Q"))
    P = mf.user_factors(alone, ratings, np.zeros((people, k + 1)), params.reg_target).P
    P_hat, σ, clipped = fixed.round_factors(P)
    secret, sealed = _seal(ctx, params, P_hat)
    ctx.send("key", pa.table({"key": [secret.public.to_bytes()]}))
    ctx.send("factors", sealed)
    ctx.metric("clipped", clipped)
    ctx.progress(1, 2, "exchange")

    # 3. Decrypt s, calibrate it by two scalars, refit P around it and Q, b with it.
    answer = ctx.recv("explained")
    lanes = params.lanes(people).scaled(fixed.X_FRACTION + params.scales.g)
    s = secret.decrypt_rows(_whole(ctx, answer, secret.public, lanes, people, k), threads=2, masked=True) * σ
    calibration = mf.calibrate(alone, ratings, s)
    s = mf.scaled(s, calibration)
    refit = mf.Ridge(params.reg_user_refit, params.reg_item, params.reg_bias)
    model = mf.refit(alone, ratings, s, refit, params.refit_sweeps)
    ctx.progress(2, 2, "exchange")
    return {
        "model": {
            "mu": np.array(model.μ), "Q": model.Q, "b_item": model.b, "P": model.P, "s": s, "calibration": calibration,
            "Q_alone": alone.Q, "b_alone": alone.b, "P_alone": alone.P,
        }
    }  # fmt: skip


def feature_holder(ctx: Context, params: VerticalMfParams) -> Outputs:
    """Return G, the inverse that makes further rows of G, the noise, and the sealed [[T]]."""
    bank = _one(ctx, "label_holder")
    X, clipped = fixed.round_features(np.asarray(ctx.inputs["features"]["X"], np.float64))
    people, d = X.shape
    ctx.require(d <= params.max_columns, "columns", expected=f"at most {params.max_columns}", found=d)
    G = fixed.round_map(X, params.scales)
    ctx.metric("clipped", clipped)

    # 2. [[T]] = X^T [[P]], [[s]] = G [[T]]; drown what is below the quantum, mask what is above the k+1 lanes; make the
    # ciphertexts new.
    key = PublicKey.from_bytes(ctx.recv("key")["key"][0].as_py())
    ctx.require(key.bits == params.key_bits, "key", expected=params.key_bits, found=key.bits)
    received = ctx.recv("factors")
    factors = _whole(ctx, received, key, params.lanes(people), people, params.embedding_size)
    view = count_view(ctx, bank, params.embedding_size + 1, d, _version(ctx, params, key, received, X))
    noise = fixed.draw_noise(ctx.private_rng(f"noise {view}"), (people, params.embedding_size + 1), params.scales)
    T = matvec(X, factors, fixed.X_FRACTION)
    s = multi_exp(G, T, params.scales.g).add_plain(noise, params.scales.half_quantum.bit_length())
    # Kept: the same view again has the same mask, as it has the same noise.
    mask = ctx.keys.keep(f"mask.{bank}.{view}", lambda: ctx.secret_bytes(32))
    ctx.send("explained", s.mask_above(mask).rerandomise().to_table())
    ctx.progress(1, 1, "exchange")
    return {"model": {"G": G, "noise": noise, "inverse": _inverse(X, params)}, "sealed": T.to_table()}


def _one(ctx: Context, role: str) -> str:
    """Return the only party of a role; the sums of several feature_holders are not offered."""
    parties = ctx.parties(role)
    ctx.require(len(parties) == 1, f"parties in the role {role}", expected=1, found=len(parties))
    return parties[0]


def _ratings(ctx: Context) -> mf.Ratings:
    tables = ctx.inputs["ratings"]
    train = tables["train"]
    shape = (tables["people"].num_rows, tables["items"].num_rows)
    ctx.require(train.num_rows > 0, "training ratings", expected="some", found=0)
    return mf.Ratings(*rating_columns(train), shape)


def _seal(ctx: Context, params: VerticalMfParams, P: np.ndarray) -> tuple[SecretKey, pa.Table]:
    """Return this model's key and [[P]], made once: a repeated attempt sends the same bytes and is no second view."""
    version = digest_bytes(P.tobytes() + params.model_dump_json().encode())[:32]
    secret = SecretKey.from_bytes(
        ctx.keys.keep(f"vertical_mf.key.{version}", lambda: SecretKey.generate(params.key_bits).to_bytes())
    )

    def encrypt() -> bytes:
        table = secret.encrypt_rows(P / 2**fixed.P_FRACTION, params.lanes(len(P)), "P").to_table()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return bytes(sink.getvalue())

    return secret, pa.ipc.open_stream(ctx.keys.keep(f"vertical_mf.factors.{version}", encrypt)).read_all()


def _whole(ctx: Context, table: pa.Table, key: PublicKey, lanes: Lanes, people: int, k: int) -> CiphertextVector:
    """Return the vector of one ciphertext per aligned person, or refuse it."""
    vector = CiphertextVector.from_table(table, key, lanes)
    expected = (people, k + 1, people * (k + 1))
    found = (len(vector.ciphertexts), vector.columns, vector.length)
    ctx.require(found == expected, "the encrypted factors", expected=expected, found=found)
    return vector


def _version(ctx: Context, params: VerticalMfParams, key: PublicKey, received: pa.Table, X: np.ndarray) -> str:
    """Name what a view depends on: key, [[P]], the columns, the parameters, and the stream that its noise comes from.

    The key belongs to it: the same bytes under another key are other factors.
    """
    noise = ctx.private_rng("noise of a run").bytes(32)
    sent = key.to_bytes() + b"".join(received["c"].to_pylist())
    return digest_bytes(sent + X.tobytes() + params.model_dump_json().encode() + noise)


def _inverse(X: np.ndarray, params: VerticalMfParams) -> np.ndarray:
    real = X / 2**fixed.X_FRACTION
    return np.asarray(np.linalg.inv(real.T @ real + params.reg_map * np.eye(X.shape[1])))


COMPONENT = Component(
    name="vertical_mf",
    roles={"label_holder": label_holder, "feature_holder": feature_holder},
    params=VerticalMfParams,
    messages=MESSAGES,
    inputs={"ratings": "split ratings by aligned index", "features": "encoded columns X by aligned index"},
    optional_inputs=("ratings", "features"),
    outputs={
        "model": "this party's part of the model",
        "sealed": "[[T]] under the label_holder's key, at the feature_holder: for people who come later",
    },
    min_parties={"label_holder": 1, "feature_holder": 1},
    adversary=(
        "Semi-honest, static; two parties, so collusion leaves nothing to protect. The label_holder sees s_u, k+1 "
        "numbers about each person's columns to a quantum, as often as the node's count of views allows: they tell "
        "some attributes better than chance. Not protected: the feature_holder knows who is aligned and cannot "
        "inspect W; the label_holder's key lives as long as the model; a label_holder that crafts its modulus reads "
        "more."
    ),
)
