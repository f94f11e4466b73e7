"""Align people on Curve25519, two and more parties: each ends with (own row -> aligned index), and no other id.

One receiver and one or more senders. The receiver compares its ids with each sender's (`components.curve_exchange`:
protocol, padding, order, quota), takes what is common to all, draws one order for it, and tells each sender named in
`reveal_to` where its own people stand in that order. Scalars live for one run, so nothing can be kept from night to
night, and nothing links two nights.

Adversary: semi-honest, static. The receiver learns whom it has in common with EACH sender, also those who are not
common to all, and every N; a sender learns N of the receiver, and who of its own people is common to all, or only that
`min_overlap` is reached. Senders that collude learn nothing more than each alone. A sender that colludes with the
receiver learns what that one knows.

A party that deviates tests as many ids as it sends points, whichever they are, so points are counted (`max_tests`).
Points off the curve, of small order, repeated, too many or too few are refused. Not protected: ids that a party does
not have but invents; a receiver that lies about the result: it tells a sender another order, leaves people out, adds
the sender's people that it has chosen, or says that too few are common; a sender that answers wrongly, so that fewer
are found. Whatever the receiver says of `min_overlap`, it has seen who is common, unless `cardinality_pass` is set:
then the sender permutes its answers and tells the permutation only after the receiver has said that enough are common;
that stops a receiver that follows the protocol. One that deviates masks each id with a scalar of its own and reads the
permuted answers at once (`curve_exchange`): it has its tests counted, and nothing else holds it.

`cardinality_only`: answers are permuted and the permutation is never told; for one sender, since permuted answers of
several do not say how many are common to all. A receiver that follows the protocol does not learn who; since one that
deviates does, the accord names it among those that may learn the alignment.

    x, y     ids of receiver and sender, distinct, sorted; row = position
    places   of a party's points in what it sends: bucket and position (`curve_exchange`)
    matches  (common, 2): place of the receiver's point in the answer, place of the sender's point
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from base.errors import CryptoError
from components.alignment import INPUTS, OUTPUTS, AlignParams
from components.alignment_ids import Ids, own_ids
from components.alignment_matches import MATCHED, common_to_all, receive_matched, require_enough, send_matched
from components.alignment_report import finish
from components.alignment_sizes import SIZE_MESSAGES, exchange_sizes
from components.cardinality_pass import PASSED, pass_on, require_countable
from components.contract import Component, Context, Outputs
from components.curve_buckets import by_bucket
from components.curve_exchange import MOST, Exchange, answer, close_all, exchange_messages, meet
from transport.message import Message, Protection, WireSchema

PERMUTATION = WireSchema("permutation", {"point": pa.int32()})
SAVES = 20  # in a run: each writes all matches so far
# fmt: off
MESSAGES = (
    *SIZE_MESSAGES,
    *exchange_messages("which of the receiver's ids the sender has; with cardinality_pass or cardinality_only a receiver that follows the protocol sees how many in each bucket, one that deviates sees which"),  # noqa: E501
    PASSED,
    Message("order", "sender", "receiver", PERMUTATION, Protection.PUBLIC, "after the count: which of the receiver's ids the sender has", max_count=MOST, only_if=(("cardinality_pass", True),)),  # noqa: E501
    MATCHED,
)
# fmt: on


def receiver(ctx: Context, params: AlignParams) -> Outputs:
    """Return the rows of the own ids in the aligned order, for those that may learn it, and the report."""
    # 1. Own ids and sizes; secrets of the run, one for each sender.
    learners, ids = params.learners(ctx), own_ids(ctx, params)
    sizes = exchange_sizes(ctx, params, ids)
    exchanges = {sender: Exchange(ctx, params, ids, (ctx.party, sender), m) for sender, m in sizes.items()}

    # 2. Bucket by bucket with every sender.
    matches = _meet_all(ctx, params, ids, exchanges)
    common = min(map(len, matches.values()))

    # 3. Enough with each sender: only then do the senders tell how they permuted their answers.
    if params.cardinality_only:
        require_enough(ctx, params, common)
    elif params.cardinality_pass:
        pass_on(ctx, params, {sender: len(found) for sender, found in matches.items()})
        matches = {sender: _in_order(ctx, params, exchanges[sender], found) for sender, found in matches.items()}

    # 4. Who is common to all, in an order that says nothing about rows, ids or time.
    order = None if params.cardinality_only else _tell(ctx, params, exchanges, matches, learners)
    if order is None:
        for sender in exchanges:
            send_matched(ctx, sender, None, exchanges[sender].theirs * params.buckets)
    close_all(exchanges)
    rows = order if ctx.party in learners else None
    return finish(ctx, params, ids, rows, common if order is None else len(order))


def sender(ctx: Context, params: AlignParams) -> Outputs:
    """Return the rows of the own ids in the aligned order, where this sender may learn it, and the report."""
    # 1.
    learners, ids = params.learners(ctx), own_ids(ctx, params)
    ((receiver, theirs),) = exchange_sizes(ctx, params, ids).items()
    exchange = Exchange(ctx, params, ids, (receiver, ctx.party), theirs)

    # 2.
    permuted = _permuted(ctx, params, ids)
    for b in range(_first(ctx), params.buckets):
        answer(ctx, exchange, b, permuted)
        if _saves(params, b):
            ctx.checkpoint.save(b, {"bucket": np.array([b])})
        ctx.progress(b + 1, params.buckets, "buckets")

    # 3.
    if params.cardinality_pass and not params.cardinality_only:
        ctx.recv("passed", receiver)
        for b in range(params.buckets):
            ctx.send("order", pa.table({"point": exchange.permutation(b).astype(np.int32)}), receiver)

    # 4.
    places = receive_matched(ctx, ids, learners)
    rows = None if places is None else exchange.rows(places)
    exchange.close()
    return finish(ctx, params, ids, rows, None)


def _permuted(ctx: Context, params: AlignParams, ids: Ids) -> bool:
    """Return whether senders permute their answers; refuse buckets in which that hides nothing."""
    if params.counts:
        require_countable(ctx, params, ids)
    return params.counts


def _meet_all(ctx: Context, params: AlignParams, ids: Ids, exchanges: Mapping[str, Exchange]) -> dict[str, np.ndarray]:
    """Return the matches with each sender, those of an earlier attempt included."""
    _permuted(ctx, params, ids)
    kept = ctx.checkpoint.resume()
    matches = {sender: [kept[1][sender] if kept else np.empty((0, 2), np.int64)] for sender in exchanges}
    for b in range(_first(ctx), params.buckets):
        for sender, found in meet(ctx, exchanges, b).items():
            matches[sender].append(found)
        if _saves(params, b):
            matches = {sender: [np.concatenate(found)] for sender, found in matches.items()}
            ctx.checkpoint.save(b, {sender: found for sender, (found,) in matches.items()})
        ctx.progress(b + 1, params.buckets, "buckets")
    return {sender: np.concatenate(found) for sender, found in matches.items()}


def _in_order(ctx: Context, params: AlignParams, exchange: Exchange, matches: np.ndarray) -> np.ndarray:
    """Hear how a sender permuted its answers; return the matches with the places of the points in what was sent."""
    within = dict(by_bucket(matches[:, 0], exchange.own))
    matches = matches.copy()
    for b in range(params.buckets):
        order = ctx.recv("order", exchange.peer)["point"].to_numpy().astype(np.int64)
        if not np.array_equal(np.sort(order), np.arange(exchange.own)):
            raise CryptoError("an order is no permutation", expected="each point of the bucket once",
                              where=f"order of {exchange.peer}")  # fmt: skip
        if b in within:
            matches[within[b], 0] = order[matches[within[b], 0] % exchange.own] + b * exchange.own
    return matches


def _tell(
    ctx: Context, params: AlignParams, exchanges: Mapping[str, Exchange], matches: Mapping[str, np.ndarray],
    learners: tuple[str, ...],
) -> np.ndarray:  # fmt: skip
    """Return the own rows in the aligned order, and tell each sender that may learn it where its people stand."""
    rows = {sender: exchanges[sender].rows(found[:, 0]) for sender, found in matches.items()}
    common = common_to_all(rows)
    require_enough(ctx, params, len(common))
    order: np.ndarray = ctx.private_rng("alignment").permutation(common)
    for sender, found in matches.items():
        ascending = np.argsort(rows[sender])
        at = ascending[np.searchsorted(rows[sender], order, sorter=ascending)]
        points = exchanges[sender].theirs * params.buckets
        send_matched(ctx, sender, found[at, 1] if sender in learners else None, points)
    return order


def _first(ctx: Context) -> int:
    """Return the bucket to go on with: the one after the checkpoint that all parties hold, or 0."""
    kept = ctx.checkpoint.resume()
    return 0 if kept is None else kept[0] + 1


def _saves(params: AlignParams, b: int) -> bool:
    return b + 1 == params.buckets or (b + 1) % -(-params.buckets // SAVES) == 0


COMPONENT = Component(
    name="align_ecdh",
    roles={"receiver": receiver, "sender": sender},
    params=AlignParams,
    messages=MESSAGES,
    inputs=INPUTS,
    optional_inputs=("report",),
    outputs=OUTPUTS,
    min_parties={"receiver": 1, "sender": 1},
    adversary="Semi-honest, static. The receiver learns every pairwise intersection with its senders and all sizes to\n"
    "pad_to; a sender its people common to all, unless reveal_to leaves it out. Each point sent is a counted test.\n"
    "Not protected: invented ids, a receiver that lies about the result, a sender that hides matches. A count hides who"
    " from a receiver that follows the protocol, not from one that deviates.",
)
