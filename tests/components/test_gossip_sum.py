"""Sums without an aggregator: exact, the same at everyone, and of nobody's part."""

import itertools

import numpy as np
import pyarrow as pa
import pytest

from base.canonical import digest
from base.errors import ConsentError, CryptoError, SpecMismatch, StateError
from components import gossip_shares, secure_sum, words
from components.contract import Component, Params
from components.gossip_sum import Summer, neighbourhoods, sum_messages
from components.private_sum import Privacy, PrivateTotal
from components.secure_sum import SumParams, add_once, open_total
from crypto.masks import pack
from crypto.noise import honest_shares
from crypto.packing import Lanes

NAMES = ("a", "b", "c", "d", "e", "f", "g", "h", "i")


class Rounds(Params):
    rounds: tuple[int, ...] = (0,)


def holder(ctx, params):
    summer, given = Summer(ctx), ctx.inputs
    return {"sums": [summer.total(given["v"], given["lanes"], r, given.get("bound", bytes(32))) for r in params.rounds]}


PART = Component("sums", {"data_holder": holder}, Rounds, sum_messages("the sum"))


def inputs(n, lanes, size=20, **bounds):
    rng = np.random.default_rng(n)
    bound = np.ldexp(float(lanes.limit - 1), -lanes.fraction)
    return {
        name: {"v": rng.uniform(-bound, bound, size), "lanes": lanes, "bound": bounds.get(name, bytes(32))}
        for name in NAMES[:n]
    }


def run(threads, given, name, params=None, **more):
    return threads(PART, {"data_holder": tuple(given)}, given, params, run=name, **more)


def plain(given, lanes):
    q = sum(lanes.quantise(one["v"]) for one in given.values())
    return np.ldexp(q.astype(np.float64), -lanes.fraction) if lanes.fraction else q


@pytest.mark.parametrize(
    ("n", "lanes"),
    [
        (3, Lanes(16, 4, 3)), (5, Lanes(64, 20, 5)), (6, Lanes(64, 20, 6)), (7, Lanes(10, 0, 7)), (9, Lanes(24, 8, 9)),
    ],
)  # fmt: skip
def test_everybody_ends_with_the_sum_to_the_last_bit(threads, n, lanes):
    given = inputs(n, lanes)
    outcome = run(threads, given, f"exact-{n}-{lanes.lane}", {"rounds": [0, 1]})
    assert outcome.errors == {}
    for name in given:
        for found in outcome.outputs[name]["sums"]:
            assert found.tobytes() == plain(given, lanes).tobytes()


def test_steps_of_halves_give_the_same(threads, monkeypatch):
    halves = ((1,), (2,), (1,), (1,), (2,)) * 4 + ((1,),) * 4
    monkeypatch.setattr(gossip_shares, "schedule", lambda nodes, rng: halves)
    lanes = Lanes(16, 4, 9)
    given = inputs(9, lanes)
    outcome = run(threads, given, "halves")
    assert outcome.errors == {}
    assert outcome.outputs["i"]["sums"][0].tobytes() == plain(given, lanes).tobytes()
    assert sum(p.header.name == "share" for p in outcome.parcels["a"]) == len(halves)


@pytest.mark.parametrize("size", [2, 100])
def test_vectors_may_be_shorter_than_three_or_longer_than_a_message(threads, size, monkeypatch):
    monkeypatch.setattr(words, "PIECE", 4)
    monkeypatch.setattr(gossip_shares, "PIECE", 9)
    lanes = Lanes(32, 4, 6)
    given = inputs(6, lanes, size)
    outcome = run(threads, given, f"size-{size}")
    assert outcome.errors == {}
    assert outcome.outputs["f"]["sums"][0].tobytes() == plain(given, lanes).tobytes()


def test_neighbourhoods_have_three_to_five_members_and_everybody_is_in_one():
    for n in range(3, 60):
        roster = tuple(f"bank_{i:02}" for i in range(n))
        found = neighbourhoods(roster)
        assert tuple(itertools.chain(*found)) == roster
        assert {3, 4, 5} >= {len(members) for members in found}


def test_fewer_than_three_are_refused(threads):
    outcome = run(threads, inputs(2, Lanes(16, 4, 2)), "two")
    assert any(isinstance(error, ConsentError) for error in outcome.errors.values())
    assert not any(outcome.parcels.values())


def test_lanes_for_the_neighbours_alone_are_too_short(threads):
    outcome = run(threads, inputs(6, Lanes(16, 4, 3)), "short")
    assert any(isinstance(error, StateError) for error in outcome.errors.values())
    assert not any(p.header.name == "hidden" for parcels in outcome.parcels.values() for p in parcels)


# As a step chooses it


def chosen(ctx, params):
    return {"sums": [open_total(ctx, params)(ctx.inputs["v"], ctx.inputs["lanes"], 0, bytes(32))]}


CHOSEN = Component(
    "sums", {"data_holder": chosen, "aggregator": add_once}, SumParams, secure_sum.sum_messages("the sum")
)


@pytest.mark.parametrize(("n", "lanes"), [(3, Lanes(16, 4, 3)), (6, Lanes(16, 4, 6))])
def test_with_and_without_an_aggregator_the_total_is_the_same_to_the_last_bit(threads, n, lanes):
    given, found = inputs(n, lanes), []
    for topology, more in (("aggregator", {"aggregator": ("bureau",)}), ("gossip", {})):
        roles = {"data_holder": tuple(given), **more}
        outcome = threads(CHOSEN, roles, given, {"topology": topology}, run=f"{topology}-{n}")
        assert outcome.errors == {}
        found += [outcome.outputs[name]["sums"][0].tobytes() for name in given]
    assert set(found) == {found[0]}


def ratings(name):
    rng = np.random.default_rng(NAMES.index(name))
    rare = np.arange(12) == 11  # by too few: nobody shares it
    user, item = np.nonzero(rng.random((30, 12)) < np.where(rare, 0.1, 0.7))
    value = np.where(item == 11, 1 + 4 * (NAMES.index(name) % 2), 1 + item % 5)  # disliked, or liked
    rows = pa.table({"user": user.astype(np.int32), "item": item.astype(np.int32),
                     "rating": value.astype(np.float32)})  # fmt: skip
    items = [f"{i:02}" for i in range(12)]
    tables = {"train": rows[:-40], "validation": rows[-40:], "items": pa.table({"item_id": items}),
              "users": pa.table({"user_id": [f"{name}{u}" for u in range(30)]})}  # fmt: skip
    return {"ratings": tables, "statistics": {"n": 1, "mean": 3.0, "deviation": 1.0, "catalogue": digest(items)}}


def test_a_model_trained_without_an_aggregator_is_the_same_to_the_last_bit(threads):
    given, models = {name: ratings(name) for name in NAMES[:6]}, []
    params = {"embedding_size": 3, "rounds": 3, "local_epochs": 4, "early_stopping": True}
    adding = {"aggregator": ("bureau",)}
    late = {"on_dropout": "continue", "early_stopping": False}  # the loss falls in these rounds: all are run anyway
    for way, more in (({}, adding), ({"topology": "gossip"}, {}), (late, adding)):
        roles = {"data_holder": tuple(given), **more}
        outcome = threads("horizontal_mf", roles, given, params | way, run=f"mf-{next(iter(way), 'stop')}")
        assert outcome.errors == {}
        models += [outcome.outputs[name]["model"] for name in given]
    assert np.abs(models[0]["Q"]).max(axis=1).astype(bool).tolist() == [True] * 11 + [False]
    assert {model["Q"].tobytes() + model["b_item"].tobytes() for model in models} == {
        models[0]["Q"].tobytes() + models[0]["b_item"].tobytes()
    }


def test_messages_between_data_holders_are_admitted_for_this_topology_alone():
    between = {m.name for m in CHOSEN.table({"topology": "gossip"}) if m.receiver == m.sender == "data_holder"}
    assert between == {m.name for m in PART.messages}
    assert not [m for m in CHOSEN.table({}) if m.name in between]


def test_noise_is_enough_for_the_smallest_neighbourhood(threads):
    privacy, found = Privacy(epsilon=1, delta=1e-5, clip=1, data_set="ratings"), {}

    def shares(ctx, params):
        return {"shares": PrivateTotal(ctx, params, privacy, None)._shares}

    for topology in ("aggregator", "gossip"):
        roles = {"data_holder": NAMES[:7]}
        outcome = threads(CHOSEN, roles, {}, {"topology": topology}, functions=dict.fromkeys(NAMES, shares))
        found[topology] = {one["shares"] for one in outcome.outputs.values()}
    assert found == {"aggregator": {honest_shares(7, 0)}, "gossip": {honest_shares(3, 0)}}


# Who disagrees


@pytest.mark.parametrize(("n", "other"), [(3, ["c"]), (6, ["f"]), (6, ["d", "e", "f"])])
def test_parties_with_another_model_give_no_total(threads, n, other):
    given = inputs(n, Lanes(16, 4, n), **dict.fromkeys(other, b"m" * 32))
    outcome = run(threads, given, f"models-{n}-{len(other)}")
    assert any(isinstance(error, SpecMismatch) for error in outcome.errors.values())
    assert not any(outcome.outputs.values())
    if len(other) == 1:  # its own neighbours notice before a seed is given
        sent = {p.header.name for name in neighbourhoods(tuple(given))[-1] for p in outcome.parcels[name]}
        assert "self_mask" not in sent


def test_a_round_is_summed_once_and_again_only_over_the_same_values_and_roster(threads):
    lanes = Lanes(16, 4, 7)
    given = inputs(6, lanes)
    outcome = run(threads, given, "twice", {"rounds": [0, 0]})
    assert any(isinstance(error, StateError) for error in outcome.errors.values())
    assert run(threads, given, "again").errors == {}
    assert run(threads, given, "again", attempt=2).errors == {}
    changed = given | {"e": given["e"] | {"v": np.zeros(20)}}
    seventh = given | {"g": given["a"]}  # a, b, c keep their neighbours, and still do not sum again
    for attempt, other in ((3, changed), (4, seventh)):
        outcome = run(threads, other, "again", attempt=attempt)
        assert any(isinstance(error, StateError) for error in outcome.errors.values())
        assert not any(outcome.outputs.values())


def tampering(message, change):
    """A data_holder who changes what it sends under the name `message`, for each receiver."""

    def function(ctx, params):
        send = ctx.send

        def changed(name, table, to=None):
            send(name, change(table, to) if name == message else table, to)

        object.__setattr__(ctx, "send", changed)
        return holder(ctx, params)

    return function


def one_more(table):
    """Return the table with a bit of its first number changed."""
    numbers = table.column(0).to_numpy().copy()
    numbers[0] ^= 1 << 14
    return table.set_column(0, table.schema.field(0), [numbers])


@pytest.mark.parametrize("message", ["hidden", "third", "share"])
def test_whoever_tells_two_parties_two_things_stops_the_sum(threads, message):
    lanes = Lanes(16, 4, 9)
    shown = {"hidden": "c", "third": "c", "share": "d"}  # to one of those who are sent it
    liar = tampering(message, lambda table, to: one_more(table) if to == shown[message] else table)
    outcome = run(threads, inputs(9, lanes), f"two-things-{message}", functions={"a": liar})
    kind = SpecMismatch if message == "hidden" else CryptoError
    assert any(isinstance(error, kind) for error in outcome.errors.values())
    assert not any(outcome.outputs.values())
    if message == "hidden":
        sent = {p.header.name for name in "abc" for p in outcome.parcels[name]}
        assert "self_mask" not in sent


# What a party sees


SECRET = 1234.0


def spying(seen):
    """A data_holder who notes the words that reach it from neighbours, before any self mask is out."""

    def function(ctx, params):
        recv = ctx.recv

        def noted(name, from_=None):
            table = recv(name, from_)
            if name in seen:
                seen[name].append((from_, table.column(0).to_numpy().copy()))
            return table

        object.__setattr__(ctx, "recv", noted)
        return holder(ctx, params)

    return function


def test_what_a_neighbour_sees_is_uniform_until_all_have_committed(threads):
    """b has the vectors of a and c, and its own pairwise masks with both; it has noise until their seeds come."""
    lanes, size = Lanes(16, 0, 3), 4000
    given = {name: {"v": np.full(size, SECRET), "lanes": lanes} for name in NAMES[:3]}
    seen = {"hidden": [], "self_mask": []}
    outcome = run(threads, given, "uniform", functions={"b": spying(seen)})
    assert outcome.errors == {}
    a, c = (next(w for party, w in seen["hidden"] if party == name) for name in "ac")
    part = pack(given["a"]["v"], lanes)
    for guess in (a, c, a + c, a - part, a + c - 2 * part):  # what it can form: no combination shows a number
        assert _looks_uniform(guess)


def test_without_self_masks_whoever_speaks_last_knows_the_sum_before_it_commits(threads, monkeypatch):
    """Weakened: pairwise masks alone. b adds what came to its own vector, and could now choose what to send."""
    import crypto.secagg

    real = crypto.secagg.add_pads
    monkeypatch.setattr(crypto.secagg, "add_pads", lambda w, plus, minus: real(w, list(plus)[1:], minus))
    lanes, size = Lanes(16, 0, 3), 4000
    given = {name: {"v": np.full(size, SECRET), "lanes": lanes} for name in NAMES[:3]}
    seen, own = {"hidden": []}, []

    def function(ctx, params):
        send = ctx.send

        def kept(name, table, to=None):
            if name == "hidden":
                own.append(table.column(0).to_numpy())
            send(name, table, to)

        object.__setattr__(ctx, "send", kept)
        return spying(seen)(ctx, params)

    run(threads, given, "weak", functions={"b": function})
    total = own[0] + sum(w for _, w in seen["hidden"])
    assert (total == sum([pack(given["a"]["v"], lanes)] * 3)).all()


def _looks_uniform(numbers):
    """Tell whether the bytes are uniform: χ² of 256 counts within five deviations."""
    counts = np.bincount(np.ascontiguousarray(numbers).view(np.uint8), minlength=256)
    expected = counts.sum() / 256
    return abs(((counts - expected) ** 2 / expected).sum() - 255) < 5 * np.sqrt(2 * 255)


def test_another_neighbourhood_sees_sums_over_three_and_no_part(threads):
    lanes, size = Lanes(16, 0, 6), 300
    rng = np.random.default_rng(5)
    given = {name: {"v": rng.integers(-900, 900, size), "lanes": lanes} for name in NAMES[:6]}
    seen = {name: {"share": [], "hidden": [], "third": []} for name in "def"}
    functions = {name: spying(seen[name]) for name in "def"}
    outcome = run(threads, given, "aggregates", functions=functions)
    assert outcome.errors == {}
    # All three together put the thirds in order: the sum over a, b, c, cut into halves.
    halves = np.concatenate([seen[name]["share"][0][1] for name in "def"])
    assert (halves >> 13 == sum(given[name]["v"] for name in "abc")).all()
    assert {party for name in "def" for kind in ("hidden", "third") for party, _ in seen[name][kind]} <= set("def")
    assert [party for name in "def" for party, _ in seen[name]["share"]] == ["a", "b", "c"]


def test_all_other_neighbours_together_read_a_part_and_two_of_three_do_not(threads):
    """What the head of the component says: a and b leave the part of c; a alone has those of b and c together."""
    lanes, size = Lanes(16, 0, 6), 300
    rng = np.random.default_rng(6)
    given = {name: {"v": rng.integers(-900, 900, size), "lanes": lanes} for name in NAMES[:6]}
    seen = {"share": []}
    run(threads, given, "colluding", functions={"d": spying(seen)})
    third = seen["share"][0][1] >> 13  # of the sum over a, b, c: from outside
    outside = third - sum(given[name]["v"][: len(third)] for name in "ab")
    assert (outside == given["c"]["v"][: len(third)]).all()
    alone = third - given["a"]["v"][: len(third)]
    assert abs(np.corrcoef(alone, given["c"]["v"][: len(third)])[0, 1]) < 0.9


def test_a_part_is_not_sent_in_the_clear(threads):
    lanes = Lanes(16, 4, 6)
    given = {name: {"v": np.full(40, 1.0), "lanes": lanes} for name in NAMES[:6]}
    outcome = run(threads, given, "clear")
    readable = pack(given["a"]["v"], lanes)[:9].tobytes()
    bodies = [bytes(p.body) for parcels in outcome.parcels.values() for p in parcels]
    assert not any(readable in body for body in bodies)
    assert {p.header.name for parcels in outcome.parcels.values() for p in parcels} == {m.name for m in PART.messages}
