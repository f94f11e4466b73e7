import hashlib
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from align_steps import NAMED, TEXT, align, joined, written
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from base.errors import AccordError, Cancelled, ConsentError, CryptoError, DataError, StateError
from components import (
    align_ecdh,
    alignment_ids,
    alignment_matches,
    alignment_sizes,
    cardinality_pass,
    curve_buckets,
    curve_exchange,
    curve_run,
)
from components.alignment_ids import capacity
from components.registry import component
from crypto.curve import hash_to_curve
from features.spec import IdRule
from runtime.checkpoint import FileCheckpoint
from transport.body import decode
from transport.message import Message

PEOPLE = [f"person {i:04d}" for i in range(400)]
THREE = {"bank": ["7", "12", "40", "ü", "05"], "bureau": ["ü", "12", "5", "7", "99"], "shop": ["12", "7", "40", "x"]}
SMALL_ORDER = 325606250916557431795983626356110631294008115727848805560023387167927233504


def run(threads, ids, *, functions=None, attempt=1, run="run", rules=TEXT, metadata=NAMED, **params):
    """Align; the first party of `ids` is the receiver."""
    return align(threads, "align_ecdh", ids, rules=rules, metadata=metadata, params={"pad_to": 8} | params, run=run,
                 attempt=attempt, functions=functions)  # fmt: skip


def sent(outcome, name=None):
    """(sender, receiver, table) of what crossed, in the order of each sender."""
    declared = {(m.name, m.sender): m for m in align_ecdh.MESSAGES}
    return [
        (p.header.sender, p.header.receiver, decode(p.body, declared[p.header.name, "receiver" if to else "sender"]))
        for parcels in outcome.parcels.values() for p in parcels
        for to in [p.header.sender == "bank"] if name in (None, p.header.name)
    ]  # fmt: skip


# The join.


@pytest.mark.parametrize("parties", [2, 3, 4])
@pytest.mark.parametrize("buckets", [1, 3])
@pytest.mark.parametrize("counted", [False, True])
def test_all_end_with_the_same_people_in_the_same_order(threads, monkeypatch, parties, buckets, counted):
    monkeypatch.setattr(cardinality_pass, "SMALLEST", 1)
    rng = np.random.default_rng(parties)
    names = ["bank", "bureau", "shop", "clinic"][:parties]
    ids = {name: rng.permutation(PEOPLE)[: 60 + 10 * i].tolist() for i, name in enumerate(names)}
    for name in names:
        ids[name] = list(dict.fromkeys([*ids[name], *PEOPLE[:3]]))
    outcome = run(threads, ids, buckets=buckets, cardinality_pass=counted)
    assert outcome.errors == {}
    people = {name: joined(outcome, name, ids) for name in names}
    assert set(people["bank"]) == set.intersection(*map(set, ids.values()))
    assert len({tuple(found) for found in people.values()}) == 1
    for name in names:
        report = outcome.outputs[name]["report"]
        assert (report["distinct"], report["aligned"]) == (len(ids[name]), len(people[name]))
        assert not list((threads.folder / name / ".runs").rglob("curve.*"))  # forgotten


SETS = st.sets(st.sampled_from([*PEOPLE[:12], "", "ü", "\U0001d518", "0", "00"]))


@settings(deadline=None, max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sets=st.lists(SETS, min_size=3, max_size=3))
def test_the_result_is_that_of_a_plain_join(threads, sets):
    ids = dict(zip(("bank", "bureau", "shop"), map(sorted, sets), strict=True))
    outcome, common = run(threads, ids, max_tests=10**9), set.intersection(*sets)
    if common:
        assert outcome.errors == {}
        assert {frozenset(joined(outcome, party, ids)) for party in ids} == {frozenset(common)}
    else:
        assert isinstance(outcome.errors["bank"], DataError)
        assert outcome.outputs == {}


def test_one_id_is_enough_and_each_party_s_size_is_its_own(threads):
    ids = {"bank": ["7"], "bureau": [*PEOPLE[:20], "7"]}
    outcome = run(threads, ids)
    assert joined(outcome, "bank", ids) == joined(outcome, "bureau", ids) == ["7"]


def test_rows_of_duplicates_follow_the_parameter(threads):
    ids = {"bank": ["7", "8", "7"], "bureau": ["7", "9"]}
    refused = run(threads, ids)
    assert "more than one row" in str(refused.errors["bank"])
    kept = run(threads, ids, on_duplicates="all")
    assert kept.outputs["bank"]["alignment"].to_pydict() == {"row": [0], "index": [0], "first": [0]}
    assert kept.outputs["bank"]["report"]["rows_joined"] == 2


# Who learns.


def test_without_reveal_to_all_learn_and_with_it_the_others_get_a_report_alone(threads):
    for learners in (("bank",), ("bureau",), ("bank", "shop"), ("bureau", "shop")):
        outcome = run(threads, THREE, reveal_to=learners)
        assert outcome.errors == {}
        assert {p for p in THREE if "alignment" in outcome.outputs[p]} == set(learners)
        assert {frozenset(joined(outcome, p, THREE)) for p in learners} == {frozenset({"12", "7"})}
        rows = {receiver: table.num_rows for _, receiver, table in sent(outcome, "matched")}
        assert rows == dict.fromkeys(("bureau", "shop"), 1)  # also what tells a sender nothing
        for party in set(THREE) - {"bank"} - set(learners):
            assert outcome.outputs[party]["report"]["aligned"] is None
            assert "aligned" not in outcome.metrics[party]
    assert "does not take part" in str(run(threads, THREE, reveal_to=("nobody",)).errors["bank"])


def test_the_number_alone_shows_nobody(threads):
    ids = {"bank": PEOPLE[:60], "bureau": PEOPLE[20:100]}
    outcome = run(threads, ids, cardinality_only=True)
    assert outcome.errors == {}
    assert [set(outcome.outputs[p]) for p in ids] == [{"report"}] * 2
    assert [outcome.outputs[p]["report"]["aligned"] for p in ids] == [40, None]
    assert {name for _, _, table in sent(outcome) for name in table.column_names} == {
        "padded", "buckets", "rule", "point", "tag", "sealed",
    }  # fmt: skip
    assert len(sent(outcome, "matched")) == 1
    assert not sent(outcome, "order")


@pytest.mark.parametrize("how", ["cardinality_pass", "cardinality_only"])
def test_few_own_ids_are_not_counted_at_either_end(threads, how):
    """Six people and a lot of padding: each count says who."""
    people, more = PEOPLE[:60], {how: True, "min_overlap": 10, "pad_to": 64}
    for ids in ({"bank": people[:6], "bureau": people}, {"bank": people, "bureau": people[:6]}):
        outcome = run(threads, ids, **more)
        assert any("too few to be counted" in str(error) for error in outcome.errors.values())
        assert not sent(outcome, "answer")


def test_a_number_alone_is_of_twenty_people_or_more_whatever_min_overlap_says(threads):
    for n in (19, 20):
        outcome = run(threads, {"bank": PEOPLE[:n], "bureau": PEOPLE[:40]}, cardinality_only=True)
        assert ("bank" in outcome.errors) == (n < 20)


def test_padding_is_not_counted_as_ids_of_a_bucket(threads, monkeypatch):
    """Enough points in each bucket, of which six are ids: a count for each bucket would say who."""
    monkeypatch.setattr(cardinality_pass, "SMALLEST", 32)
    ids = {"bank": PEOPLE[:40], "bureau": PEOPLE[:400]}
    assert capacity(512, 4) > 32
    for swapped in (ids, {"bank": ids["bureau"], "bureau": ids["bank"]}):
        outcome = run(threads, swapped, cardinality_only=True, buckets=4, pad_to=512)
        assert any("too small to be counted" in str(error) for error in outcome.errors.values())
        assert not sent(outcome, "answer")


def test_a_third_party_reads_the_same_sizes_whoever_is_common_and_whoever_is_told(threads):
    """The ledger of every party of the run holds the sizes of all messages."""
    seen = set()
    for n, learners in ((37, ("bank", "bureau")), (90, ("bank", "bureau")), (90, ("bank",)), (90, ())):
        ids = {"bank": PEOPLE[:100], "bureau": PEOPLE[:n], "shop": PEOPLE[:100]}
        outcome = run(threads, ids, reveal_to=learners, pad_to=128)
        assert outcome.errors == {}
        heads = [p.header for p in outcome.parcels["bank"] if p.header.name == "matched"]
        seen.add(tuple(sorted((h.receiver, h.rows, h.size) for h in heads)))
    assert len(seen) == 1


def test_the_number_alone_is_for_one_sender(threads):
    outcome = run(threads, THREE, cardinality_only=True)
    assert all("one sender" in str(error) for error in outcome.errors.values())
    assert not sent(outcome)


def test_permuted_answers_do_not_show_who_and_the_others_do(threads):
    """The receiver takes the answers as if they came in the order of its points."""
    ids = {"bank": PEOPLE[:64], "bureau": PEOPLE[32:96]}

    def who(outcome, spied):
        (answer,) = [from_table(table, "tag") for _, _, table in sent(outcome, "answer")]
        theirs = set(spied["tags"])
        return {spied["entries"][k] for k, tag in enumerate(answer) if tag in theirs}

    for permuted, fewest, most in ((False, 32, 32), (True, 6, 26)):
        spied = {}
        outcome = run(threads, ids, cardinality_only=permuted, functions={"bank": spy(spied)})
        right = who(outcome, spied) & set(PEOPLE[32:64])
        assert fewest <= len(right) <= most  # by chance 16 of 32, give or take 2.8


def from_table(table, name):
    return [bytes(x) for x in table[name].to_pylist()]


def spy(found):
    """A receiver that also notes the tags of the sender's ids, and its own ids in the order in which it sends them."""

    def function(ctx, params):
        class Spying(curve_exchange.Exchange):
            def mask_again(self, b, table):
                tags = super().mask_again(b, table)
                if self.peer == "bureau":  # the patch reaches the sender's thread too
                    own, found["tags"] = self._buckets, list(map(bytes, tags))
                    ids = own._ids.values.to_pylist()
                    found["entries"] = [ids[i] if i < len(ids) else None for i in own._order(b)]
                return tags

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(align_ecdh, "Exchange", Spying)
            return align_ecdh.receiver(ctx, params)

    return function


# Too few.


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("ids", [THREE, {"bank": ["a", "b", "c"], "bureau": ["d"]}])
def test_too_few_stop_the_step_before_a_sender_learns_who_or_how_few(threads, ids, counted):
    outcome = run(threads, ids, min_overlap=4 if ids is THREE else 1, cardinality_pass=counted)
    error = outcome.errors["bank"]
    assert isinstance(error, DataError)
    assert (error.what, error.found) == ("too few in common", "fewer")
    assert all(isinstance(outcome.errors[p], Cancelled) for p in ids if p != "bank")
    assert outcome.outputs == {}
    assert not [1 for name in ("matched", "passed", "order") for _ in sent(outcome, name)]


def test_after_a_pass_with_each_sender_too_few_may_still_be_common_to_all(threads):
    ids = {"bank": PEOPLE[:20], "bureau": PEOPLE[:10], "shop": PEOPLE[10:20]}
    outcome = run(threads, ids, min_overlap=5, cardinality_pass=True)
    assert "too few" in str(outcome.errors["bank"])
    assert len(sent(outcome, "order")) == 2
    assert not sent(outcome, "matched")


def test_buckets_too_small_to_be_counted_are_refused_before_a_point_is_sent(threads):
    ids = {"bank": PEOPLE[:60], "bureau": PEOPLE[20:100]}
    for how in ("cardinality_pass", "cardinality_only"):
        outcome = run(threads, ids, buckets=4, **{how: True})
        assert any("too small to be counted" in str(error) for error in outcome.errors.values())
        assert not sent(outcome, "answer")


# What crosses.


def test_sizes_show_no_more_than_the_padding(threads):
    shapes = set()
    for size in (130, 190):
        outcome = run(threads, {"bank": PEOPLE[:size], "bureau": PEOPLE[:size]}, pad_to=64 * 3, buckets=4)
        shapes.add(
            tuple((a, b, t.schema.names[0], t.num_rows) for a, b, t in sent(outcome) if t.schema.names != ["sealed"])
        )
    (shape,) = shapes
    assert {rows for _, _, name, rows in shape if name in ("point", "tag")} == {capacity(192, 4)}


def test_no_id_and_no_hash_of_one_crosses(threads):
    ids = {"bank": PEOPLE[:60], "bureau": PEOPLE[20:100], "shop": PEOPLE[:50]}
    outcome = run(threads, ids, run="night", cardinality_pass=True)
    bodies = b"".join(p.body for parcels in outcome.parcels.values() for p in parcels)
    headers = str([p.header for parcels in outcome.parcels.values() for p in parcels])
    for person in PEOPLE[:100]:
        assert person.encode() not in bodies
        assert person not in headers
        for digest in (hashlib.sha256, hashlib.md5, hashlib.sha1, hashlib.blake2b):
            assert digest(person.encode()).digest()[:8] not in bodies
    for sender in ("bureau", "shop"):
        for row in hash_to_curve(PEOPLE[:100], f"night/step/bank/{sender}", written().hex()):
            assert bytes(row) not in bodies


def test_points_and_tags_link_neither_two_nights_nor_two_senders(threads):
    ids = {"bank": PEOPLE[:40], "bureau": PEOPLE[:40], "shop": PEOPLE[:40]}
    seen = []
    for night in ("night 1".replace(" ", "-"), "night-2"):
        outcome = run(threads, ids, run=night)
        seen += [
            frozenset(from_table(t, t.column_names[0]))
            for _, _, t in sent(outcome)
            if t.column_names[0] in ("point", "tag")
        ]
    assert len(seen) == 12
    assert len(frozenset.union(*seen)) == 12 * 40


def test_a_receiver_that_hands_one_sender_s_points_to_another_learns_nothing(threads):
    """With one hash for all senders the tags of both answers would meet."""
    ids = {"bank": PEOPLE[300:340], "bureau": PEOPLE[:40], "shop": PEOPLE[:40]}
    got = {}

    def relay(ctx, params):
        own = alignment_ids.own_ids(ctx, params)
        alignment_sizes.exchange_sizes(ctx, params, own)
        points = {p: ctx.recv("masked", p) for p in ("bureau", "shop")}
        ctx.send("masked", points["bureau"], "shop")
        ctx.send("masked", points["shop"], "bureau")
        got.update({p: set(from_table(ctx.recv("answer", p), "tag")) for p in points})
        raise DataError("seen enough")

    run(threads, ids, functions={"bank": relay})
    assert [len(tags) for tags in got.values()] == [40, 40]
    assert not got["bureau"] & got["shop"]


def test_orders_carry_nothing(threads):
    ids = {"bank": PEOPLE[:300], "bureau": PEOPLE[100:400]}
    spied = {}
    outcome = run(threads, ids, pad_to=1, functions={"bank": spy(spied)})
    bound = 4.5 / np.sqrt(200)
    for party in ids:
        rows = outcome.outputs[party]["alignment"]["row"].to_numpy()
        assert len(rows) == 200
        assert abs(spearmanr(rows, np.arange(200)).statistic) < bound
    places = {text: k for k, text in enumerate(spied["entries"])}
    assert abs(spearmanr([places[i] for i in PEOPLE[:300]], np.arange(300)).statistic) < bound
    # Where the sender's points of common people stand, in the order of the ids.
    (answer,) = [from_table(t, "tag") for _, _, t in sent(outcome, "answer")]
    at = {tag: k for k, tag in enumerate(spied["tags"])}
    theirs = [at[answer[places[i]]] for i in PEOPLE[100:300]]
    assert abs(spearmanr(theirs, np.arange(200)).statistic) < bound
    # And another order every night.
    again = {}
    run(threads, ids, pad_to=1, run="night-2", functions={"bank": spy(again)})
    assert abs(spearmanr([again["entries"].index(i) for i in spied["entries"]], np.arange(300)).statistic) < bound


# The id space.


@pytest.mark.parametrize(("people", "refused"), [(100, False), (101, True)])
@pytest.mark.parametrize("how", [{}, {"cardinality_pass": True}])
def test_one_run_tests_a_tenth_of_the_possible_ids_at_most(threads, people, refused, how):
    ids = {"bank": [f"{i:03d}" for i in range(people)], "bureau": [f"{i:03d}" for i in range(0, 1000, 11)]}
    outcome = run(threads, ids, rules=IdRule(type="integer", width=3), pad_to=1, max_tests=10**6, **how)
    assert isinstance(outcome.errors.get("bureau"), ConsentError) == refused
    assert bool(sent(outcome, "answer")) == (not refused)


@pytest.mark.parametrize("how", [{}, {"cardinality_pass": True}])
def test_a_table_that_does_not_say_how_its_ids_are_written_is_refused_before_a_point_is_sent(threads, how):
    """Nobody could say how many ids are possible, so how large a part of them a peer tests."""
    outcome = run(threads, {"bank": PEOPLE[:30], "bureau": PEOPLE[:30]}, metadata=(), **how)
    for error in outcome.errors.values():
        assert isinstance(error, ConsentError | Cancelled)
        assert isinstance(error, Cancelled) or (error.what.endswith("how its ids are written") and error.remedy)
    assert ConsentError in map(type, outcome.errors.values())
    assert not sent(outcome, "masked")


# Quota.


def test_tests_are_counted_over_runs_padding_included_and_at_both_ends(threads, tmp_path):
    parties = type(threads)(tmp_path)
    ids = {"bank": PEOPLE[:10], "bureau": PEOPLE[:30]}  # 16 and 32 points
    assert run(parties, ids, run="night-1", max_tests=63).errors == {}
    outcome = run(parties, ids, run="night-2", max_tests=63)  # 32 + 32 points of the bureau
    error = outcome.errors["bank"]
    assert isinstance(error, ConsentError)
    assert "bureau" in str(error)
    assert not sent(outcome, "answer")
    outcome = run(parties, ids, run="night-3", max_tests=31)
    assert isinstance(outcome.errors["bureau"], ConsentError) or isinstance(outcome.errors["bank"], ConsentError)
    assert not sent(outcome, "answer")


# Large sets.


@pytest.mark.spark
def test_spark_masks_large_sets_to_the_same_points(threads, spark, monkeypatch):
    """One party has so many ids that Spark works, two buckets at a time; the other has not."""
    groups = []
    mask_group = curve_buckets.OwnBuckets._mask_group
    monkeypatch.setattr(curve_buckets, "GROUP", 220)
    monkeypatch.setattr(curve_buckets.OwnBuckets, "_mask_group", lambda e, b: groups.append(b) or mask_group(e, b))
    ids = {"bank": PEOPLE[:300], "bureau": PEOPLE[200:400]}

    def with_spark(ctx, params):
        ctx = replace(ctx, services=replace(ctx.services, spark=lambda: spark))
        return align_ecdh.receiver(ctx, params)

    outcome = run(threads, ids, buckets=3, spark_above=300, functions={"bank": with_spark})
    assert outcome.errors == {}
    assert set(joined(outcome, "bank", ids)) == set(PEOPLE[200:300])
    assert joined(outcome, "bank", ids) == joined(outcome, "bureau", ids)
    assert groups == [0, 2]
    assert not list((threads.folder / "bank").rglob("*.parquet"))


# Further attempts.


class Killed(AccordError):
    """The process died."""


class Disturbed:
    """A context with another `send`."""

    def __init__(self, ctx, send):
        self._ctx, self._send = ctx, send

    def __getattr__(self, name):
        return getattr(self._ctx, name)

    def send(self, name, table, to=None):
        self._send(self._ctx, name, table, to)


def at(tmp_path, party, agreed=None, dies_at=None, change=None):
    """The party's role over a checkpoint of its own; it dies when it would send message number `dies_at` (name, n)."""
    count = {}

    def send(ctx, name, table, to):
        count[name] = count.get(name, 0) + 1
        if (name, count[name]) == dies_at:
            raise Killed("killed")
        ctx.send(name, change(name, count[name], table) if change else table, to)

    def function(ctx, params):
        ctx = replace(ctx, checkpoint=FileCheckpoint(tmp_path / party, agreed))
        role = align_ecdh.receiver if ctx.role == "receiver" else align_ecdh.sender
        return role(Disturbed(ctx, send), params)

    return function


def agreed(tmp_path, ids):
    """The highest round that all parties hold."""
    held = [set(FileCheckpoint(tmp_path / party).rounds()) for party in ids]
    common = set.intersection(*held)
    return max(common) if common else None


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize(
    ("victim", "dies_at"),
    [("bureau", ("answer", 3)), ("bank", ("masked", 7)), ("bank", ("matched", 1)), ("bank", ("masked", 1))],
)
def test_a_further_attempt_goes_on_at_the_bucket(threads, monkeypatch, tmp_path, victim, dies_at, counted):
    monkeypatch.setattr(cardinality_pass, "SMALLEST", 1)
    parties = type(threads)(tmp_path)
    ids = {"bank": PEOPLE[:90], "bureau": PEOPLE[30:150], "shop": PEOPLE[10:70]}
    common = {"run": "resumed", "buckets": 5, "cardinality_pass": counted, "max_tests": 5 * capacity(120, 5)}
    first = run(parties, ids, **common, functions={
        p: at(tmp_path / "rounds", p, dies_at=dies_at if p == victim else None) for p in ids
    })  # fmt: skip
    assert isinstance(first.errors[victim], Killed)
    start = agreed(tmp_path / "rounds", ids)
    again = run(parties, ids, **common, attempt=2, functions={p: at(tmp_path / "rounds", p, start) for p in ids})
    assert again.errors == {}  # the quota holds one run: the second attempt cost nothing
    assert {tuple(joined(again, p, ids)) for p in ids} == {tuple(joined(again, "bank", ids))}
    assert set(joined(again, "bank", ids)) == set(PEOPLE[30:70])
    done = 0 if start is None else start + 1
    assert done == {3: 2, 7: 3, 1: 5 if dies_at[0] == "matched" else 0}[dies_at[1]]
    assert len(sent(again, "answer")) == 2 * (5 - done)
    # A bucket that is repeated is sent byte by byte as before, padding too.
    before, after = (
        [t["point"].to_pylist() for a, b, t in sent(o, "masked") if (a, b) == ("bank", "bureau")]
        for o in (first, again)
    )
    assert after[: len(before) - done] == before[done:]


@pytest.mark.parametrize("limit", [8, 16])
def test_other_points_in_a_further_attempt_are_counted_again(threads, tmp_path, limit):
    """Else a party would let attempts die and test other ids in each."""
    parties = type(threads)(tmp_path)
    ids = {"bank": PEOPLE[:8], "bureau": PEOPLE[4:12]}
    common = {"run": "again", "max_tests": limit}
    first = run(parties, ids, **common, functions={p: at(tmp_path / "rounds", p, dies_at=("matched", 1)) for p in ids})
    assert isinstance(first.errors["bank"], Killed)
    other = {"bank": PEOPLE[4:8] + PEOPLE[300:304], "bureau": ids["bureau"]}
    second = run(parties, other, **common, attempt=2, functions={"bank": unbound})
    if limit == 16:
        assert second.errors == {}
    else:
        assert isinstance(second.errors["bureau"], ConsentError)
        assert not sent(second, "answer")


def unbound(ctx, params):
    """A receiver that does not keep to what the run is bound to, and does not count its peer."""

    class Unbound(curve_run.CurveRun):
        def _bind(self, bound):
            if self.peer != "bureau":  # the patch reaches the sender's thread too
                super()._bind(bound)

        def spend(self, tests, further=""):
            if self.peer != "bureau":
                super().spend(tests, further)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(curve_exchange, "CurveRun", Unbound)
        return align_ecdh.receiver(ctx, params)


def announces(points):
    """A party that says how many ids it has, and dies when it has heard how many the peer has."""

    def function(ctx, params):
        told = {"padded": pa.array([points]), "buckets": pa.array([1], pa.int32()),
                "rule": pa.array([written()], pa.binary(32))}  # fmt: skip
        ctx.send("size", pa.table(told), "bureau")
        ctx.recv("size", "bureau")
        ctx.recv("masked", "bureau")  # so the peer has counted
        raise Killed("killed")

    return function


def test_who_announced_one_id_in_an_attempt_that_died_cannot_test_many_in_the_next(threads, tmp_path):
    parties = type(threads)(tmp_path)
    ids = {"bank": PEOPLE[:64], "bureau": PEOPLE[:64]}
    common = {"run": "again", "max_tests": 65}
    first = run(parties, ids, **common, functions={"bank": announces(1)})
    assert isinstance(first.errors["bank"], Killed)
    second = run(parties, ids, **common, attempt=2, functions={"bank": unbound})
    assert (second.errors["bureau"].remedy, type(second.errors["bureau"])) == ("start a new run", StateError)
    assert not sent(second, "answer")
    assert run(parties, ids, run="new", max_tests=65).errors == {}  # 1 and 64
    assert isinstance(run(parties, ids, run="newer", max_tests=65).errors["bureau"], ConsentError)


@pytest.mark.parametrize("what", ["bank", "bureau"])
@pytest.mark.parametrize("dies_at", [("masked", 3), ("matched", 1)])
def test_a_further_attempt_with_other_ids_would_pair_different_people_and_is_refused(threads, tmp_path, what, dies_at):
    parties = type(threads)(tmp_path)
    ids = {"bank": PEOPLE[:60], "bureau": PEOPLE[20:80]}
    common = {"run": "resumed", "buckets": 4}
    first = run(parties, ids, **common, functions={
        p: at(tmp_path / "rounds", p, dies_at=dies_at if p == "bank" else None) for p in ids
    })  # fmt: skip
    assert isinstance(first.errors["bank"], Killed)
    start = agreed(tmp_path / "rounds", ids)
    other = {**ids, what: [*ids[what][3:], *PEOPLE[200:203]]}  # as many, others
    again = run(parties, other, **common, attempt=2, functions={p: at(tmp_path / "rounds", p, start) for p in ids})
    assert isinstance(again.errors[what], StateError)
    assert again.errors[what].remedy == "start a new run"
    assert again.outputs == {}


def test_what_a_run_is_bound_to_outlives_the_scalar(threads, tmp_path):
    """One party ends, another dies, and the further attempt resumes after the last bucket."""
    parties = type(threads)(tmp_path)
    ids = {"bank": PEOPLE[:60], "bureau": PEOPLE[20:80]}
    assert run(parties, ids).errors == {}
    other = {**ids, "bureau": PEOPLE[21:81]}
    again = run(parties, other, attempt=2)
    assert isinstance(again.errors["bureau"], StateError)


def test_the_first_attempt_of_a_run_takes_no_scalar_of_an_earlier_one(threads, tmp_path):
    parties = type(threads)(tmp_path)
    ids = {"bank": PEOPLE[:8], "bureau": PEOPLE[4:12]}
    first = run(parties, ids, functions={p: at(tmp_path / "rounds", p, dies_at=("matched", 1)) for p in ids})
    second = run(parties, ids)
    assert second.errors == {}
    points = [set(from_table(t, "point")) for o in (first, second) for _, _, t in sent(o, "masked")]
    assert len(set.union(*points)) == 4 * 8


# A party that deviates.


FIRST = {
    "off the curve": (2).to_bytes(32, "little"),  # on the twist
    "small order": SMALL_ORDER.to_bytes(32, "little"),
    "zero": bytes(32),
    "not canonical": b"\xff" * 32,
}
OTHER = {
    "repeated": lambda points: [points[1], *points[1:]],
    "too few": lambda points: points[:-1],
    "none": lambda points: [],
    "too many": lambda points: [*points, points[0]],
}


def changed(kind):
    """What a deviating party makes of its points."""

    def change(name, _, table):
        if name != "masked":
            return table
        points = from_table(table, "point")
        points = [FIRST[kind], *points[1:]] if kind in FIRST else OTHER[kind](points)
        return pa.table({"point": pa.array(points, pa.binary(32))})

    return change


REFUSALS = {
    "off the curve": "refused", "small order": "refused", "zero": "refused", "not canonical": "refused",
    "repeated": "repeat", "too few": "another number", "none": "another number", "too many": "another number",
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSALS)
@pytest.mark.parametrize("deviating", ["bank", "bureau"])
def test_points_of_a_deviating_party_are_refused_at_either_end(threads, tmp_path, kind, deviating):
    outcome = run(threads, THREE, functions={deviating: at(tmp_path, deviating, change=changed(kind))})
    honest = [outcome.errors[p] for p in THREE if p != deviating and isinstance(outcome.errors[p], CryptoError)]
    assert honest
    assert all(REFUSALS[kind] in str(error) for error in honest)
    assert isinstance(outcome.errors[deviating], (Cancelled, CryptoError))
    assert outcome.outputs == {}
    if deviating == "bank":
        assert not sent(outcome, "answer")  # nothing of a refused bucket is answered
    assert not [bad for error in honest for bad in [*PEOPLE, "05"] if f"'{bad}'" in str(error)]


def tampered(which, make):
    def change(name, n, table):
        return make(table) if name == which else table

    return change


@pytest.mark.parametrize(
    ("which", "make", "error"),
    [
        ("answer", lambda t: t.slice(1), "another number of tags"),
        ("answer", lambda t: pa.concat_tables([t.slice(0, 7), t.slice(0, 1)]), "tags repeat"),
        ("answer", lambda t: pa.table({"tag": pa.array([b"0" * 9] * 8, pa.binary(9))}), "another type"),
        ("order", lambda t: pa.table({"point": pa.array([0] * 8, pa.int32())}), "no permutation"),
        ("order", lambda t: t.slice(1), "no permutation"),
        ("size", lambda t: t.set_column(1, "buckets", pa.array([2], pa.int32())), "2 buckets"),
        ("size", lambda t: t.set_column(0, "padded", pa.array([1 << 40])), "too large"),
        ("size", lambda t: t.set_column(0, "padded", pa.array([0])), "sizes of bureau"),
        ("size", lambda t: t.slice(1), "sizes of bureau"),
        ("size", lambda t: pa.concat_tables([t, t]), "sizes of bureau"),
        ("size", lambda t: t.set_column(2, "rule", pa.array([b"r" * 32], pa.binary(32))), "another rule at bureau"),
    ],
)
def test_a_sender_s_wrong_answers_are_refused(threads, tmp_path, which, make, error):
    ids = {"bank": THREE["bank"], "bureau": THREE["bureau"]}
    change = tampered(which, make)
    outcome = run(threads, ids, cardinality_pass=True, functions={"bureau": at(tmp_path, "bureau", change=change)})
    assert error in str(outcome.errors["bank"])
    assert outcome.outputs == {}


def test_another_number_of_buckets_stops_both(threads):
    ids = {"bank": THREE["bank"], "bureau": THREE["bureau"]}

    def with_two(ctx, params):
        return align_ecdh.sender(ctx, params.model_copy(update={"buckets": 2}))

    outcome = run(threads, ids, functions={"bureau": with_two})
    assert set(outcome.errors) == set(ids)
    assert any("sizes of" in str(error) for error in outcome.errors.values())
    assert not sent(outcome, "answer")


@pytest.mark.parametrize(
    ("positions", "error"),
    [
        ([0, 1, 2, 3, 4, 5, 6, 7], "another number"),  # more than the sender has ids
        ([1, 1], "not among the own ids"),
        ([8], "not among the own ids"),
        ([-1], "not among the own ids"),
        (None, "matches told by bank"),
    ],
)
def test_matches_that_cannot_be_true_are_refused(threads, positions, error):
    ids = {"bank": THREE["bank"], "bureau": THREE["bureau"]}

    def lies(ctx, params):
        own = alignment_ids.own_ids(ctx, params)
        (size,) = alignment_sizes.exchange_sizes(ctx, params, own).values()
        exchange = curve_exchange.Exchange(ctx, params, own, ("bank", "bureau"), size)
        curve_exchange.meet(ctx, {"bureau": exchange}, 0)
        alignment_matches.send_matched(ctx, "bureau", None if positions is None else np.array(positions), size)
        return {}

    outcome = run(threads, ids, functions={"bank": lies})
    assert error in str(outcome.errors["bureau"])
    assert "bureau" not in outcome.outputs


def test_matches_that_nobody_may_learn_are_refused(threads):
    ids = {"bank": THREE["bank"], "bureau": THREE["bureau"]}

    def tells(ctx, params):
        return align_ecdh.receiver(ctx, params.model_copy(update={"reveal_to": ()}))

    outcome = run(threads, ids, reveal_to=("bank",), functions={"bank": tells})
    assert "matches told by bank" in str(outcome.errors["bureau"])


def test_padding_is_never_an_id_of_the_alignment(threads):
    """A receiver that names every place of the sender gets it refused: padding is among them."""
    ids = {"bank": THREE["bank"], "bureau": THREE["bureau"]}
    refused = 0
    for place in range(8):

        def lies(ctx, params, place=place):
            own = alignment_ids.own_ids(ctx, params)
            (size,) = alignment_sizes.exchange_sizes(ctx, params, own).values()
            exchange = curve_exchange.Exchange(ctx, params, own, ("bank", "bureau"), size)
            curve_exchange.meet(ctx, {"bureau": exchange}, 0)
            alignment_matches.send_matched(ctx, "bureau", np.array([place]), size)
            return {}

        refused += "bureau" in run(threads, ids, run=f"run-{place}", functions={"bank": lies}).errors
    assert 0 < refused < 8


def test_every_message_says_what_it_reveals_and_may_come_once_a_bucket():
    part = component("align_ecdh")
    assert all(isinstance(m, Message) and m.reveals for m in part.messages)
    assert {m.name: m.max_count for m in part.messages if m.name in ("masked", "answer", "order")} == {
        "masked": 1 << 16, "answer": 1 << 16, "order": 1 << 16,
    }  # fmt: skip
    assert align_ecdh._saves(part.params(tables={}, id_column="id", buckets=65536), 65535)
    assert sum(align_ecdh._saves(part.params(tables={}, id_column="id", buckets=65536), b) for b in range(65536)) <= 21
