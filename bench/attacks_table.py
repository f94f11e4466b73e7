"""Every attack of the report: what it tries, against what, and what it counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bench import attacks_ciphertexts as ciphertexts
from bench import attacks_masks as masks
from bench import attacks_moments as moments
from bench import attacks_nights as nights
from bench import attacks_orders as orders
from bench import attacks_pairs as pairs
from bench import attacks_rounds as rounds
from bench.attacks_crossing import Adversary
from bench.attacks_data import Found


@dataclass(frozen=True)
class Attack:
    """`most`: how far it may get against the default, as a share of the weakened setting; None where that is stated."""

    group: str
    unit: str
    weakened: str
    default: str
    most: float | None
    run: Callable[[Adversary], Found]
    size: float = 1.0


GROUPS = {
    "sums": "Sums of statistics: EASE, SLIST, iALS",
    "rounds": "Rounds of averaging: matrix factorisation",
    "protection": "Secure sums: what an aggregator sends, and restored snapshots",
}
ITEMS_10 = "items of 10, pairs of 3 own people"
NOTHING_OUT = "no thresholds"
ATTACKS: Mapping[str, Attack] = {
    "peel histories off G": Attack("sums", "share of all people", NOTHING_OUT, ITEMS_10, 0, pairs.peel, 2),
    "peel foreign histories off G less the own part": Attack(
        "sums", "share of foreign people", NOTHING_OUT, ITEMS_10, 0, pairs.peel_foreign
    ),
    "peel histories off what B alone gives back": Attack(
        "sums", "share of all people", NOTHING_OUT, ITEMS_10, 0, pairs.peel_weights, 3
    ),
    "cliques in G that are a history": Attack(
        "sums", "share of 100 cliques", NOTHING_OUT, ITEMS_10, 0, pairs.clique
    ),
    "the clique nearest to somebody": Attack(
        "sums", "Jaccard index; chance: somebody outside the sum", NOTHING_OUT, ITEMS_10, 0.85, pairs.clique_overlap
    ),
    "the difference of two nights' G": Attack(
        "sums", "share of one newcomer's items", "the rule of epochs off, thresholds on", "once in an epoch", 0,
        pairs.one_night,
    ),
    "the difference of two epochs' G": Attack(
        "sums", "share of newcomers whose history is read", "10 people came between", "100 people came between", None,
        pairs.epochs_apart, 2,
    ),
    "the longest run of one person's order, from ST": Attack(
        "sums", "items", NOTHING_OUT, ITEMS_10, 0.2, orders.longest, 6
    ),
    "distances between two items, from ST": Attack(
        "sums", "share of those read that are somebody's", NOTHING_OUT, ITEMS_10, None, orders.distances
    ),
    "factors from an item of one rater, iALS": Attack(
        "sums", "share of foreign people", "items of 1, d = 32", "items of 32, d = 8", 0, moments.lone_rater
    ),
    "factors where two items meet, iALS": Attack(
        "sums", "share of foreign people", "items of 10, d = 32", "items of 32, d = 8", 0, moments.meeting
    ),
    "one item of a person whose others are known, iALS": Attack(
        "sums", "area under the curve; chance: by the model itself", "items of 33, d = 32", "items of 32, d = 8", 0.9,
        moments.tested, 3,
    ),
    "ratings from two gradients in a row (FedMF)": Attack(
        "rounds", "share of ratings read right; chance: item means", "one customer's part in the clear",
        "sums over banks less the own part", 0.5, rounds.recovery, 3,
    ),
    "factors from a row of one customer": Attack(
        "rounds", "share of such rows; default: rows of fewer than 10 sent", "rows of 1", "rows of 10", 0,
        rounds.lone_rows, 3,
    ),
    "rows that are one other bank's": Attack(
        "rounds", "share of the rows less the own part", "of 1 person or more", "of 10 people or more", None,
        rounds.one_bank,
    ),
    "which items somebody rated, by how rows move": Attack(
        "rounds", "area under the curve; chance: people outside the sum", "one customer's part in the clear",
        "sums over banks less the own part", 0.85, rounds.moved_rows, 3,
    ),
    "who rated what, from a bank's sums and its start": Attack(
        "rounds", "area under the curve", "the start follows from the run's seed", "from the party's secret", 0.65,
        rounds.decoded_start,
    ),
    "the difference of two nights' counts": Attack(
        "rounds", "share of one newcomer's items", "an epoch a night", "counts once in an epoch", 0, nights.counts,
    ),
    "the difference of two nights' changes from one model": Attack(
        "rounds", "area under the curve for a newcomer's items; chance: people of both nights", "one step over all",
        "private orders", None, nights.changes, 3,
    ),
    "which rating changed between two nights": Attack(
        "rounds", "share of people whose changed item is the row that differs most", "one stream for all nights",
        "private streams follow the rows", 0.5, nights.changed_rating, 6,
    ),
    "two models from one aggregator": Attack(
        "protection", "share of the sum's values", "the context does not name the model", "the context names it", 0,
        lambda a: masks.two_models(a.world.seed), 0.1,
    ),
    "two rosters from one aggregator": Attack(
        "protection", "share of a party's values", "keys are not verified", "signed keys", 0,
        lambda a: masks.two_rosters(a.world.seed), 0.1,
    ),
    "a round again over other values": Attack(
        "protection", "share of a party's values", "rounds are not remembered", "remembered in the key store", 0,
        lambda a: masks.repeated_round(a.world.seed), 0.1,
    ),
    "a round of n and one of n − 1 parties": Attack(
        "protection", "share of the missing party's values", "rounds are not remembered", "remembered in the key store",
        0, lambda a: masks.fewer_parties(a.world.seed), 0.1,
    ),
    "pads again after a restored snapshot": Attack(
        "protection", "share of a party's values", "the key store is in the snapshot", "it is not", 0,
        lambda a: masks.restored_pads(a.world.seed), 0.1,
    ),
    "one party's part passed off as the total, Paillier": Attack(
        "protection", "share of a party's values", "check lanes are not looked at", "check lanes of every party", 0,
        lambda a: ciphertexts.lone_contributor(a.world.seed),
    ),
}  # fmt: skip
