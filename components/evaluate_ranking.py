"""How high the item that a person took next stands: HR and NDCG over all data_holders; no person's rank leaves.

Every data_holder ends with the same metrics; the aggregator ends with nothing. A party scores its own people with its
part of the model and adds up, for each part (validation, test) and arm, how many there are, their hits and their gains,
against drawn candidates and against all of the pool (`models.ranking`, which says why only the pool `clean` is honest).
Those sums are added by one secure sum, bound to what the parts of the model share. Who has no held-out item in a part
does not count there.

Arms: *federated* (the model), *alone* (the same algorithm on the bank's own statistics, nothing exchanged: a gain that
this control shows too is none of the federation), *popularity* (the bank's own most frequent items for everyone).

With `least_gain` the step is a gate: when the model's HR on validation items is not that much above *alone*'s, every
data_holder stops with the figures in the error, and nothing behind the step runs, registration first of all.

Adversary: as in `secure_sum`. Not protected: what the totals say; two evaluations of one model show what the people in
the one and not in the other add. A party with fewer than `min_count` people in a part stops before it sends anything.

    n_j, Σ HR, Σ NDCG   people of party j, their hits and gains, for each part; hits and gains for each arm, twice
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Le

from components.contract import Component, Context, Outputs
from components.secure_sum import ADVERSARY, MIN_PARTIES, SumParams, add_once, open_total, sum_messages
from components.split_tables import bound_to, catalogue_digest, histories
from crypto.packing import Lanes
from features.indexing import rating_columns
from models import popularity, ranking
from models.histories import Counts, Histories
from models.scoring import KINDS

MESSAGES = sum_messages("number of people, sums of hits and gains over all parties, for each part and arm")
PARTS = ("validation", "test")
ARMS = ("federated", "alone", "popularity")
FIGURES = ("hr", "ndcg", "full.hr", "full.ndcg")
Scorer = Callable[[Counts], np.ndarray]  # users -> (len(users), I)


class EvaluateRankingParams(SumParams):
    """What is scored, against what, and how small a party may be."""

    kind: Literal["ease", "slist", "ials", "ncf", "mf"]  # of both models
    at: Annotated[int, Ge(1)] = 10  # places that count
    negatives: Annotated[int, Ge(1)] = 99  # candidates beside the held-out item
    negative_pool: ranking.Pool = "clean"  # official and isolate leak: for comparison with published figures alone
    min_count: Annotated[int, Ge(20)] = 100  # people with a held-out item, in each part at each party
    least_gain: Annotated[float, Ge(-1), Le(1)] | None = None  # HR on validation items above alone's, or it stops


def data_holder(ctx: Context, params: EvaluateRankingParams) -> Outputs:
    """Return {arm}.{part}.hr10, .ndcg10, .full.hr10, .full.ndcg10 and {part}.n over all parties."""
    # 1. Own hits and gains, of enough people to hide one.
    train, held_out = _histories(ctx), _held_out(ctx, params)
    sums = _sums(ctx, params, train, held_out)  # (parts, 1 + arms · figures)

    # 2. One protected sum, bound to the model that all must share.
    lanes = Lanes(lane=64, fraction=16, summands=len(ctx.parties("data_holder")))
    bound = bound_to(ctx.inputs["model"], KINDS[params.kind].shared)
    total = open_total(ctx, params)(sums, lanes, 0, bound, "hits and gains")

    # 3. Everyone finishes alike.
    metrics: dict[str, float] = {}
    for part, (n, *found) in zip(PARTS, total.reshape(sums.shape), strict=True):
        metrics[f"{part}.n"] = int(n)
        names = [f"{arm}.{part}.{figure}{params.at}" for arm in ARMS for figure in FIGURES]
        metrics |= {name: float(Σ / n) for name, Σ in zip(names, found, strict=True)}
    for name, value in metrics.items():
        ctx.metric(name, value)
    if params.least_gain is not None:
        _require_gain(ctx, metrics, f"validation.hr{params.at}", params.least_gain)
    return {"metrics": metrics}


def _require_gain(ctx: Context, metrics: Mapping[str, float], figure: str, least: float) -> None:
    """Refuse a model that a bank has no use for; everyone has the same metrics, so all stop or none."""
    federated, alone = (metrics[f"{arm}.{figure}"] for arm in ("federated", "alone"))
    ctx.require(
        federated >= alone + least, "what was trained together is not better than a bank alone",
        expected=f"{figure} of {alone + least:.4f} or more, {least:g} above alone", found=f"{federated:.4f}",
        remedy="do not register it; raise dp.epsilon, lower thresholds or tune, in an epoch that the parties sign",
    )  # fmt: skip


def _histories(ctx: Context) -> Histories:
    """Return the training histories; `DataError` without both models, or for a model of another catalogue."""
    tables = ctx.inputs["ratings"]
    catalogue = catalogue_digest(tables)
    for name in ("model", "alone"):
        ctx.require(
            name in ctx.inputs, f"no input {name}", expected="a model of this kind", found="nothing",
            remedy="give the step model and alone; alone is the control, trained on own statistics only",
        )  # fmt: skip
        of = bytes(ctx.inputs[name]["catalogue"]).hex()
        ctx.require(
            of == catalogue, f"the catalogue of the split is not the one of {name}", expected=of[:16],
            found=catalogue[:16], remedy="train on this split",
        )  # fmt: skip
    return histories(tables)


def _held_out(ctx: Context, params: EvaluateRankingParams) -> np.ndarray:
    """Return the held-out items (parts, U); `DataError` for parts of too few people."""
    tables = ctx.inputs["ratings"]
    for part in PARTS:
        n = tables[part].num_rows
        ctx.require(
            n >= params.min_count, f"too few people in {part}", expected=params.min_count, found=n,
            remedy="lower min_history in the split, or bring more people",
        )  # fmt: skip
    columns = (rating_columns(tables[part])[:2] for part in PARTS)
    return np.array([ranking.held_out_items(user, item, tables["users"].num_rows) for user, item in columns])


def _sums(ctx: Context, params: EvaluateRankingParams, train: Histories, held_out: np.ndarray) -> np.ndarray:
    """Return n and Σ of each arm's figures for each part; a block of people is scored once for all parts."""
    arms, blocks = _arms(ctx, params, train), ranking.blocks(held_out, train.items)
    streams = [ctx.shared_rng(f"candidates of {part} at {ctx.party}") for part in PARTS]
    found = np.zeros((len(PARTS), 1 + len(arms) * len(FIGURES)))
    for done, block in enumerate(blocks, 1):
        scores = [arm(block) for arm in arms]
        for n, rng in enumerate(streams):
            there = np.flatnonzero(held_out[n, block] != ranking.NONE)
            users, positive = block[there], held_out[n, block[there]]
            rivals = ranking.without(ranking.source(params.negative_pool, train, held_out, users), positive)
            drawn = ranking.candidates(rng, rivals, params.negatives)
            figures = [_figures(of_arm[there], positive, (drawn, rivals), params.at) for of_arm in scores]
            found[n] += np.concatenate([[len(users)], *figures])
        ctx.progress(done, len(blocks), "blocks")
    return found


def _arms(ctx: Context, params: EvaluateRankingParams, train: Histories) -> list[Scorer]:
    """Return what scores items in each of `ARMS`."""
    scores = KINDS[params.kind].scores
    models = [partial(scores, ctx.inputs[name], train) for name in ("model", "alone")]
    return [*models, partial(popularity.scores, popularity.statistics(train), train)]


def _figures(scores: np.ndarray, positive: np.ndarray, against: Sequence[np.ndarray], at: int) -> list[float]:
    """Return Σ of `FIGURES` over people."""
    found = [ranking.ranks(scores, positive, rivals) for rivals in against]
    return [float(figure(r, at).sum()) for r in found for figure in (ranking.hit_ratio, ranking.ndcg)]


COMPONENT = Component(
    name="evaluate_ranking",
    roles={"data_holder": data_holder, "aggregator": add_once},
    params=EvaluateRankingParams,
    messages=MESSAGES,
    inputs={
        "ratings": "ratings split by split_leave_one_out",
        "model": "this party's part of the model",
        "alone": "a model of the same kind from this party's own statistics, nothing exchanged",
    },
    optional_inputs=("ratings", "model", "alone"),  # the aggregator has none
    outputs={"metrics": "HR and NDCG by arm and part, and n of each part; the same document at every data_holder"},
    min_parties={"data_holder": MIN_PARTIES, "aggregator": 1},
    adversary=ADVERSARY + "Only sums over min_count people or more of each part leave a party.\n"
    "Not protected: what the totals say; two evaluations of one model differ by the people in one of them.",
)
