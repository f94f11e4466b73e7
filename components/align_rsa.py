"""Align people by blind RSA signatures, two and more parties: each ends with (own row -> aligned index), no other id.

De Cristofaro and Tsudik (2010), fig. 3, for one receiver and one or more senders. Signatures serve as long as the
sender's key lives: a night signs only ids that are new since the last one (`components.signature_cache`), so a later
night costs what has changed. Batches of `pad_to` ids are what is sent, what is kept and where a killed run goes on.

*The key's life.* The sender has one key for each receiver, length and `key_period`, a label of the accord. Another
label makes another key: each side destroys all that it kept for the other, keys of every length and what was signed of
every table, and all ids are signed again. ERASING A PERSON ASKS FOR A NEW `key_period`, or for `accord erase` at the
sender: until then the receiver keeps what tests for that person, and an honest one for eight runs after the person has
left its table.

Adversary: semi-honest, static. Over a key's life the receiver can test each id that was signed against the sender's
tags of every night, those before it was signed and those after it has left the receiver's table, if it stores them: it
sees when that person comes and goes. It cannot test other ids, and nights do not link for them. So a sender counts the
signatures for a receiver, padding included: at most `max_signatures`, itself at most a tenth of the possible ids. The
receiver also learns whom it has in common with EACH sender. Each learns the other's N and number of new ids, up to
`pad_to`; no new id looks like `pad_to` of them. Senders that collude learn nothing more than each alone; the receiver
and one sender read that sender's signatures, not another's, since keys differ. Not protected: a receiver that lies
about the result or asks for ids that are not its own.

    x, y   ids of receiver and sender, distinct, sorted; row = position        N_x, N_y up to `pad_to`
    H, σ   full-domain hash and signature H^d mod n           digest = SHA-256(σ), tag = SHA-256(domain, run, digest)
"""

from __future__ import annotations

import numpy as np

from components.alignment import INPUTS, OUTPUTS
from components.alignment_ids import ANY_SIZE, LARGEST_BUCKET, Ids, capacity, own_ids
from components.alignment_matches import MATCHED, common_to_all, receive_matched, require_enough, rows_at, send_matched
from components.alignment_report import finish
from components.alignment_rule import require_sparse
from components.alignment_sizes import SIZE_MESSAGES, exchange_sizes
from components.cardinality_pass import PASS_MESSAGES, be_counted, count_common, pass_exchanges
from components.contract import Component, Context, Outputs
from components.curve_exchange import close_all
from components.rsa_batches import BATCHES, NUMBERS, TAGS, AlignRsaParams, Answering, Asking
from transport.message import MAX_COUNT, Message, Protection

# fmt: off
MESSAGES = (
    #       name       from        to          schema   protection                   what it reveals
    *SIZE_MESSAGES,
    *PASS_MESSAGES,
    Message("key",     "sender",   "receiver", NUMBERS, Protection.PUBLIC,           "nothing: a modulus and the proof that it signs one to one"),  # noqa: E501
    Message("new",     "receiver", "sender",   BATCHES, Protection.PUBLIC,           "how many of the receiver's ids are new since the last night, up to pad_to; no new one looks like pad_to of them"),  # noqa: E501
    Message("new",     "sender",   "receiver", BATCHES, Protection.PUBLIC,           "how many of the sender's ids are new since the last night, up to pad_to; no new one looks like pad_to of them"),  # noqa: E501
    Message("blinded", "receiver", "sender",   NUMBERS, Protection.BLINDED,          "nothing more: uniform numbers, a batch of pad_to new ids and padding"),  # noqa: E501
    Message("signed",  "sender",   "receiver", NUMBERS, Protection.BLINDED,          "the signatures of the receiver's own new ids; each tests one id against all nights of the key's life"),  # noqa: E501
    Message("working", "sender",   "receiver", BATCHES, Protection.PUBLIC,           "a sign of life: own batches that the sender has still to sign"),  # noqa: E501
    Message("tags",    "sender",   "receiver", TAGS,    Protection.HASHED_SIGNATURE, "a tag to whoever holds that id's signature: over the key's life the receiver sees when a person that it had signed comes and goes"),  # noqa: E501
    MATCHED,
)
# fmt: on


def receiver(ctx: Context, params: AlignRsaParams) -> Outputs:
    """Return the rows of the own ids in the aligned order, where the receiver may learn it, and the report."""
    # 1. Sizes first; then, if the accord asks, how many are common, by a cardinality pass.
    learners, ids = params.learners(ctx), _own_ids(ctx, params)
    sizes = exchange_sizes(ctx, params, ids)
    exchanges = pass_exchanges(ctx, params, ids, sizes)
    counted = count_common(ctx, params, ids, exchanges) if exchanges else {}
    if params.cardinality_only:
        close_all(exchanges)
        return finish(ctx, params, ids, None, *counted.values())

    # 2. Each sender's key, checked to sign one to one; how many ids are new.
    asking = {s: Asking(ctx, params, ids, s, points * params.buckets) for s, points in sizes.items()}

    # 3. Signatures of the own new ids, a batch with each sender at a time, verified and kept.
    rounds = max(one.rounds for one in asking.values())
    for b in range(rounds):
        for one in asking.values():
            one.ask(b)
        for one in asking.values():
            one.hear(b)
        ctx.progress(b + 1, rounds, "batches")

    # 4. Equal tags are people in common.
    found = {s: one.matches() for s, one in asking.items()}
    common = common_to_all({s: rows for s, (rows, _) in found.items()})
    require_enough(ctx, params, len(common))
    for one in asking.values():
        one.cache.compact()

    # 5. One order for all, drawn by the receiver alone: it says nothing about rows, ids or time.
    common = ctx.private_rng("alignment").permutation(common)
    for s, (rows, positions) in found.items():
        ascending = np.argsort(rows)
        at = ascending[np.searchsorted(rows, common, sorter=ascending)]
        send_matched(ctx, s, positions[at] if s in learners else None, sizes[s] * params.buckets)
    close_all(exchanges)
    return finish(ctx, params, ids, common if ctx.party in learners else None, len(common))


def sender(ctx: Context, params: AlignRsaParams) -> Outputs:
    """Return the rows of the own ids in the aligned order, where this sender may learn it, and the report."""
    # 1.
    learners, ids = params.learners(ctx), _own_ids(ctx, params)
    sizes = exchange_sizes(ctx, params, ids)
    exchanges = pass_exchanges(ctx, params, ids, sizes)
    for exchange in exchanges.values():
        be_counted(ctx, params, ids, exchange)
    if params.cardinality_only:
        close_all(exchanges)
        return finish(ctx, params, ids, None, None)

    # 2. The key with its proof; how many ids are new. What the receiver asks for is paid before anything is signed.
    ((receiver, points),) = sizes.items()
    require_sparse(ctx, params, params.max_signatures, "so many signatures", "lower max_signatures")
    answering = Answering(ctx, params, ids, receiver, points * params.buckets)

    # 3. Sign what cannot be read, and the own new ids.
    for b in range(answering.rounds):
        answering.answer(b)
        answering.sign_own(b)
        ctx.progress(b + 1, answering.rounds, "batches")

    # 4. Tags of the own people, padded, in the order of their bytes.
    order = answering.send_tags(capacity(ids.padded, params.buckets) * params.buckets)

    # 5. The order of the receiver; what it says is about the own tags alone.
    positions = receive_matched(ctx, ids, learners)
    rows = None if positions is None else rows_at(positions, order, len(ids.values))
    answering.close()
    close_all(exchanges)
    return finish(ctx, params, ids, rows, None)


def _own_ids(ctx: Context, params: AlignRsaParams) -> Ids:
    """Return the ids; only a cardinality pass needs buckets that fit into memory."""
    ids = own_ids(ctx, params, LARGEST_BUCKET if params.counts else ANY_SIZE)
    batches = -(-len(ids.values) // params.pad_to)
    ctx.require(batches <= MAX_COUNT, "more batches than a step may send", expected=f"up to {MAX_COUNT}",
                found=batches, remedy="a larger pad_to, at all parties")  # fmt: skip
    return ids


COMPONENT = Component(
    name="align_rsa",
    roles={"receiver": receiver, "sender": sender},
    params=AlignRsaParams,
    messages=MESSAGES,
    inputs=INPUTS,
    outputs=OUTPUTS,
    optional_inputs=("report",),
    min_parties={"receiver": 1, "sender": 1},
    adversary="Semi-honest, static. All in reveal_to learn who is common; the receiver also who is with each sender.\n"
    "Over a key's life the receiver sees signed ids come and go at the sender: signatures are counted, and erasing a"
    " person asks for a new key_period, or accord erase at the sender.\n"
    "Not protected: a receiver that lies about the result or asks for ids that are not its own.",
)
