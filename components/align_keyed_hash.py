"""Align people by keyed hashes, two parties: each ends with (own row -> aligned index). The cheapest and the weakest.

Both agree on a key with X25519 keys that live for one attempt and that their nodes sign. The sender sends a tag
HMAC-SHA-256(key, id) for each of its ids, the receiver makes the same tags of its own ids, keeps them, and compares.
Tags go ONE WAY: if both sent them, both could try ids on the other's; so only the receiver can, and it learns who is
common first in every alignment. The key depends on run, step, attempt, both parties and the id rule: tags of two nights
have nothing in common, and a node key that leaks later opens no stored night.

WEAKNESS: WHOEVER HOLDS THE KEY ENUMERATES A SMALL ID SPACE. The receiver can try every id that it can think of on the
sender's tags, without asking and without being counted: with telephone numbers it reads the sender's whole list. So ids
that can be counted through (`features.id_entropy`: numbers, also those that are declared as text) are refused, at both
parties and before anything is sent, unless `allow_low_entropy` is set, which the accord has to allow
(`low_entropy_keyed_hash`). A column that the spec does not call an id is always refused. `align_ecdh` and `align_rsa`
cost more and do not have this weakness.

Adversary: semi-honest, static, and a receiver that keeps the key to itself. The receiver learns who is common, the
sender's N, and of any id that it tries whether the sender has it. The sender learns the receiver's N, and who is common
where `reveal_to` names it. Whoever has neither the key nor an X25519 secret of the attempt learns N. `max_tests` counts
what is sent and announced, padding included, once for each attempt, since its key and tags are new, and once more for a
cardinality pass; ids that the receiver tries besides leave no trace. Not protected: as in `align_ecdh`, ids that a
party invents and a receiver that lies about the result; padding hides N of ids that cannot be tried.

With `cardinality_pass` or `cardinality_only` the number in common is found by the curve (`components.curve_exchange`):
below `min_overlap`, or for the number alone, no tag is sent. A further attempt takes a new key and sends all tags.

    x, y   ids of receiver and sender, distinct, sorted; row = position        N_x, N_y up to `pad_to`
    tags   (N_y, 32) bytes in ascending order, random ones for padding among them; position = place among them
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from base.errors import ConsentError, CryptoError, DataError
from components.alignment import INPUTS, OUTPUTS, AlignParams
from components.alignment_ids import ANY_SIZE, LARGEST_BUCKET, Ids, own_ids
from components.alignment_matches import MATCHED, receive_matched, require_enough, rows_at, send_matched
from components.alignment_report import finish
from components.alignment_rule import require_column
from components.alignment_sizes import SIZE_MESSAGES, exchange_sizes
from components.cardinality_pass import PASS_MESSAGES, be_counted, count_common, pass_exchanges
from components.contract import Component, Context, Outputs
from components.curve_exchange import close_all
from components.quota import raise_parameter, spend
from components.sorted_tags import TAG, match_tags, send_tags
from crypto.agreement import frame
from crypto.keyed_hash import EphemeralKey, TagKey
from features.id_entropy import low_entropy, mostly_digits
from features.spec import Column
from transport.message import Message, Protection, WireSchema

KEY = WireSchema("signed_key", {"public": pa.binary(32), "signature": pa.binary(64)})
KEYED_TAGS = WireSchema("keyed_tags", {"tag": pa.binary(TAG)})
_KEY = "nothing: a public key of this attempt, signed"
# fmt: off
MESSAGES = (
    *SIZE_MESSAGES,
    *PASS_MESSAGES,
    Message("key",  "receiver", "sender",   KEY,        Protection.PUBLIC,     _KEY),
    Message("key",  "sender",   "receiver", KEY,        Protection.PUBLIC,     _KEY),
    Message("tags", "sender",   "receiver", KEYED_TAGS, Protection.KEYED_HASH, "which of the receiver's ids the sender has; the receiver holds the key: it can try any other id too, and reads ALL of the sender's ids where the id space is small"),  # noqa: E501
    MATCHED,
)
# fmt: on


class AlignKeyedHashParams(AlignParams):
    """Whose column is aligned; `buckets` and `spark_above` are those of a cardinality pass."""

    allow_low_entropy: bool = False  # ids that the receiver can count through; the accord has to allow it


def receiver(ctx: Context, params: AlignKeyedHashParams) -> Outputs:
    """Return the rows of the own ids in the aligned order, where the receiver may learn it, and the report."""
    # 1. Sizes and the id rule; if the accord asks, how many are common.
    learners, ids = _begin(ctx, params)
    sizes = exchange_sizes(ctx, params, ids)
    ((sender, points),) = sizes.items()
    exchanges = pass_exchanges(ctx, params, ids, sizes)
    counted = count_common(ctx, params, ids, exchanges) if exchanges else {}
    if params.cardinality_only:
        close_all(exchanges)
        return finish(ctx, params, ids, None, counted[sender])

    # 2. The key of this attempt.
    key = _agree(ctx, params, sender, points * params.buckets, ids)

    # 3. Tags of the sender's ids, compared with those of the own.
    rows, positions = match_tags(ctx, _tags(ids, key), sender, points * params.buckets)
    require_enough(ctx, params, len(rows))
    ascending = np.argsort(rows)  # tags are new in each attempt: the aligned order must not follow them
    rows, positions = rows[ascending], positions[ascending]

    # 4. One order for both, drawn by the receiver alone: it says nothing about rows, ids or time.
    order = ctx.private_rng("alignment").permutation(len(rows))
    send_matched(ctx, sender, positions[order] if sender in learners else None, points * params.buckets)
    close_all(exchanges)
    return finish(ctx, params, ids, rows[order] if ctx.party in learners else None, len(rows))


def sender(ctx: Context, params: AlignKeyedHashParams) -> Outputs:
    """Return the rows of the own ids in the aligned order, where the sender may learn it, and the report."""
    # 1.
    learners, ids = _begin(ctx, params)
    sizes = exchange_sizes(ctx, params, ids)
    ((receiver, points),) = sizes.items()
    exchanges = pass_exchanges(ctx, params, ids, sizes)
    for exchange in exchanges.values():
        be_counted(ctx, params, ids, exchange)
    if params.cardinality_only:
        close_all(exchanges)
        return finish(ctx, params, ids, None, None)

    # 2.
    key = _agree(ctx, params, receiver, points * params.buckets, ids)

    # 3. Padded, in the order of the tags' bytes.
    order = send_tags(ctx, _padded(ctx, _tags(ids, key), ids.points))

    # 4.
    positions = receive_matched(ctx, ids, learners)
    rows = None if positions is None else rows_at(positions, order, len(ids.values))
    close_all(exchanges)
    return finish(ctx, params, ids, rows, None)


def _begin(ctx: Context, params: AlignKeyedHashParams) -> tuple[tuple[str, ...], Ids]:
    """Return who learns and the ids; `ConsentError` for ids that can be counted through."""
    senders = ctx.parties("sender")
    ctx.require(len(senders) == 1, "keyed hashes are for two parties: one key for more would open all to each",
                expected="one sender", found=len(senders), remedy="align_ecdh")  # fmt: skip
    learners = params.learners(ctx)
    ids = own_ids(ctx, params, LARGEST_BUCKET if params.counts else ANY_SIZE)
    column = _column(ctx, params)
    numbers = column.normal_form.type == "text" and mostly_digits(ids.values)
    if (numbers or low_entropy(column.normal_form)) and not params.allow_low_entropy:
        raise ConsentError(
            "ids of this kind can be tried one by one by the party that holds the key", expected="ids of a large space",
            found=f"type {column.normal_form.type}{', digits' if numbers else ''}",
            where=f"{ctx.party}, step {ctx.step}, column {params.id_column}",
            remedy="align_ecdh or align_rsa; or allow_low_entropy, which the accord has to allow",
        )  # fmt: skip
    return learners, ids


def _column(ctx: Context, params: AlignKeyedHashParams) -> Column:
    """Return what the spec says about the column; `DataError` unless it is an id.

    Categories and texts have a rule of ids too, and a handful of values: nothing else would refuse them.
    """
    column = require_column(ctx, params)
    if column.type != "id":
        raise DataError("the column to align is not an id", expected="type id in the feature spec",
                        found=f"type {column.type}", where=f"{ctx.party}, step {ctx.step}, column {params.id_column}",
                        remedy="a column of ids")  # fmt: skip
    return column


def _agree(ctx: Context, params: AlignKeyedHashParams, peer: str, theirs: int, ids: Ids) -> TagKey:
    """Count the peer's ids, then agree on the key of this attempt.

    `PeerForeign` for a key that the peer's node did not sign for this run, step, attempt and pair of parties.
    """
    spend(ctx, f"tests.{peer}", theirs, params.max_tests, ctx.secret_bytes(8).hex(), f"tests of ids of {peer}",
          raise_parameter("max_tests"))  # fmt: skip
    own = EphemeralKey()
    pair = (*ctx.parties("receiver"), *ctx.parties("sender"))
    context = frame(*(part.encode() for part in (ctx.run, ctx.step, str(ctx.attempt), *pair)), ids.rule)
    values = {"public": own.public, "signature": ctx.keys.sign(_signed(ctx, ctx.party, own.public))}
    ctx.send("key", pa.table({name: pa.array([value], KEY.columns[name]) for name, value in values.items()}), peer)
    found = ctx.recv("key", peer).to_pylist()
    if len(found) != 1:
        raise CryptoError("a key of another form", expected="one signed key", where=f"key of {peer}")
    ctx.keys.verify(peer, _signed(ctx, peer, found[0]["public"]), found[0]["signature"])
    return own.agree(found[0]["public"], context)


def _signed(ctx: Context, party: str, public: bytes) -> bytes:
    """Return what a node signs: its key, for this attempt and as this party."""
    attempt = (part.encode() for part in (ctx.run, ctx.step, str(ctx.attempt), party))
    return frame(b"accord keyed hash key 1", *attempt, public)


def _padded(ctx: Context, tags: np.ndarray, count: int) -> np.ndarray:
    """Return the tags with random ones behind them, `count` in all."""
    padding = np.frombuffer(ctx.secret_bytes(TAG * (count - len(tags))), np.uint8).reshape(-1, TAG)
    return np.concatenate([tags, padding])


def _tags(ids: Ids, key: TagKey) -> np.ndarray:
    """Return the tags of the own ids, (n, 32), by row."""
    found = bytearray()
    for start in range(0, len(ids.values), LARGEST_BUCKET):
        found += b"".join(key.tags(ids.values.slice(start, LARGEST_BUCKET).to_pylist()))
    return np.frombuffer(bytes(found), np.uint8).reshape(-1, TAG)


COMPONENT = Component(
    name="align_keyed_hash",
    roles={"receiver": receiver, "sender": sender},
    params=AlignKeyedHashParams,
    messages=MESSAGES,
    inputs=INPUTS,
    optional_inputs=("report",),
    outputs=OUTPUTS,
    min_parties={"receiver": 1, "sender": 1},
    adversary="Semi-honest, static, two parties. WHOEVER HOLDS THE KEY, the receiver, can try any id on the sender's\n"
    "tags, uncounted: with a small id space it reads all of them. Such ids are refused unless the accord allows them.\n"
    "Not protected: invented ids, a receiver that lies about the result or passes the key on.",
)
