"""Keyed hashes of two parties: the join, who learns, what is refused, and what a deviating party gets."""

import align_steps
import numpy as np
import pyarrow as pa
import pytest
from align_steps import NAMED, TEXT, joined

from base.errors import AccordError, Cancelled, ConsentError, CryptoError, DataError, PeerForeign
from components import align_keyed_hash
from components.alignment_ids import capacity
from components.registry import catalogue
from crypto.keyed_hash import EphemeralKey
from features.spec import Column, FeatureSpec, IdRule
from pipelines.alignment_terms import AlignmentTerms, admit_alignment
from pipelines.load import loads
from transport.body import decode

BANK = ["7", "3", "12", "40", "05", "ü"]
BUREAU = ["ü", "12", "5", "7", "99", "40"]
PEOPLE = [f"person {i:04d}" for i in range(400)]
LOW = [
    IdRule(type="phone", region="DE"), IdRule(type="national_id", kind="nl_bsn"), IdRule(type="integer"),
    IdRule(type="integer", width=8), IdRule(type="integer", width=13), IdRule(type="integer", width=32),
    IdRule(type="hashed", algorithm="sha256"),
]  # fmt: skip


@pytest.fixture
def parties(threads, tmp_path):
    """Parties that have never met."""
    return type(threads)(tmp_path)


def align(parties, ids, *, rules=TEXT, functions=None, metadata=NAMED, run="run", attempt=1, **params):
    return align_steps.align(parties, "align_keyed_hash", ids, rules=rules, metadata=metadata,
                             params={"pad_to": 32} | params, functions=functions, run=run, attempt=attempt)  # fmt: skip


def rows(outcome, name=None):
    """(sender, message, rows) of what crossed."""
    return [
        (p.header.sender, p.header.name, p.header.rows)
        for parcels in outcome.parcels.values() for p in parcels if name in (None, p.header.name)
    ]  # fmt: skip


def tags(outcome):
    (declared,) = (m for m in align_keyed_hash.MESSAGES if m.name == "tags")
    return [t for p in outcome.parcels["bureau"] if p.header.name == "tags"
            for t in decode(p.body, declared)["tag"].to_pylist()]  # fmt: skip


# The join.


@pytest.mark.parametrize("how", [{}, {"cardinality_pass": True}, {"buckets": 3}])
def test_both_end_with_the_same_people_in_the_same_order(parties, how):
    ids = {"bank": BANK, "bureau": BUREAU}
    outcome = align(parties, ids, **how)
    assert outcome.errors == {}
    assert joined(outcome, "bank", ids) == joined(outcome, "bureau", ids)
    assert set(joined(outcome, "bank", ids)) == {"7", "12", "40", "ü"}
    assert [outcome.outputs[p]["report"]["aligned"] for p in ids] == [4, 4]
    assert not list(parties.folder.rglob("curve.*"))  # scalars of the pass are forgotten


@pytest.mark.parametrize("slices", [1, 7, 64])
def test_tags_that_cross_in_slices_are_compared_alike(parties, monkeypatch, slices):
    monkeypatch.setattr("components.sorted_tags.SLICE", slices)
    ids = {"bank": PEOPLE[:50], "bureau": PEOPLE[20:120]}
    outcome = align(parties, ids)
    assert outcome.errors == {}
    assert joined(outcome, "bank", ids) == joined(outcome, "bureau", ids)
    assert set(joined(outcome, "bank", ids)) == set(PEOPLE[20:50])
    assert [n for _, _, n in rows(outcome, "tags")] == [min(slices, 128 - at) for at in range(0, 128, slices)]


def test_tags_whose_ends_are_zeros_are_told_apart(parties, monkeypatch):
    """numpy's fixed-width bytes leave zeros at the end out when they are read one by one."""
    ends = {"a": b"x" * 31 + b"\0", "b": b"x" * 31 + b"\1", "c": b"x" * 30 + b"\0\0", "d": bytes(32)}
    monkeypatch.setattr("crypto.keyed_hash.TagKey.tags", lambda _, ids: [ends[i] for i in ids])
    ids = {"bank": ["a", "c", "d"], "bureau": ["b", "c", "d"]}
    outcome = align(parties, ids)
    assert outcome.errors == {}
    assert set(joined(outcome, "bank", ids)) == set(joined(outcome, "bureau", ids)) == {"c", "d"}


def test_rows_of_duplicates_follow_the_parameter_and_the_report_counts(parties):
    ids = {"bank": ["p7", "p8", "p7"], "bureau": ["p7", "p9"]}
    assert "more than one row" in str(align(parties, ids).errors["bank"])
    kept = align(parties, ids, on_duplicates="all")
    assert kept.outputs["bank"]["alignment"].to_pydict() == {"row": [0], "index": [0], "first": [0]}
    assert kept.outputs["bank"]["report"] == {
        "table": "t", "read": None, "null": 0, "invalid": {}, "dropped_duplicates": 0,
        "rows": 3, "distinct": 2, "duplicate": 1, "padded": 32,
        "buckets": 1, "aligned": 1, "rows_joined": 2,
    }  # fmt: skip
    assert align(parties, ids, on_duplicates="first").outputs["bank"]["report"]["rows_joined"] == 1


def test_a_party_without_ids_ends_in_too_few_and_not_in_a_crash(parties):
    for ids in ({"bank": [], "bureau": BUREAU}, {"bank": BANK, "bureau": []}):
        assert "too few in common" in str(align(parties, ids).errors["bank"])


# Who learns.


def test_tags_go_one_way_padded_and_the_receiver_s_ids_stay_where_they_are(parties):
    outcome = align(parties, {"bank": BANK, "bureau": BUREAU})
    assert sorted(rows(outcome)) == [
        ("bank", "key", 1), ("bank", "matched", 1), ("bank", "size", 1), ("bureau", "key", 1), ("bureau", "size", 1),
        ("bureau", "tags", 32),
    ]  # fmt: skip


@pytest.mark.parametrize("learner", ["bank", "bureau"])
def test_who_is_not_named_gets_a_report_alone(parties, learner):
    ids = {"bank": BANK, "bureau": BUREAU}
    outcome = align(parties, ids, reveal_to=(learner,))
    assert outcome.errors == {}
    assert {p for p in ids if "alignment" in outcome.outputs[p]} == {learner}
    assert set(joined(outcome, learner, ids)) == {"7", "12", "40", "ü"}
    assert rows(outcome, "matched") == [("bank", "matched", 1)]


def test_the_number_alone_is_counted_without_a_key_or_a_tag(parties, monkeypatch):
    monkeypatch.setattr("components.cardinality_pass.FEWEST", 1)
    outcome = align(parties, {"bank": BANK, "bureau": BUREAU}, cardinality_only=True)
    assert outcome.errors == {}
    assert [outcome.outputs[p]["report"]["aligned"] for p in ("bank", "bureau")] == [4, None]
    assert [set(found) for found in outcome.outputs.values()] == [{"report"}] * 2
    assert {name for _, name, _ in rows(outcome)} == {"size", "masked", "answer", "passed"}


@pytest.mark.parametrize("counted", [False, True])
def test_too_few_stop_before_the_sender_learns_who_and_with_a_pass_before_a_tag(parties, counted):
    outcome = align(parties, {"bank": BANK, "bureau": BUREAU}, min_overlap=5, cardinality_pass=counted)
    error = outcome.errors["bank"]
    assert isinstance(error, DataError)
    assert (error.what, error.found) == ("too few in common", "fewer")
    assert isinstance(outcome.errors["bureau"], Cancelled)
    assert not rows(outcome, "matched")
    assert bool(rows(outcome, "tags")) is not counted


def test_three_parties_are_refused(parties):
    outcome = align(parties, {"bank": BANK, "bureau": BUREAU, "shop": BANK})
    assert all("two parties" in str(error) for error in outcome.errors.values())
    assert not rows(outcome)


# Ids that can be tried one by one.


@pytest.mark.parametrize("rule", LOW, ids=lambda rule: f"{rule.type}{rule.width or ''}")
def test_ids_that_can_be_counted_through_are_refused_at_both_ends_before_anything_is_sent(parties, rule):
    ids = {"bank": BANK, "bureau": BUREAU}
    outcome = align(parties, ids, rules=rule)
    assert set(outcome.errors) == set(ids)
    for error in outcome.errors.values():
        assert isinstance(error, ConsentError)
        assert "tried one by one" in str(error)
        assert "'" + BANK[-1] not in str(error)
    assert not rows(outcome)
    assert align(parties, ids, rules=rule, allow_low_entropy=True).errors == {}


@pytest.mark.parametrize("rule", [TEXT, IdRule(type="email")])
def test_ids_of_a_large_space_need_no_consent(parties, rule):
    assert align(parties, {"bank": BANK, "bureau": BUREAU}, rules=rule).errors == {}


@pytest.mark.parametrize("numbers", [["+49151120000", "0151/12.00-02"], ["4111 1111 1111 1111", "17"]])
@pytest.mark.parametrize("party", ["bank", "bureau"])
def test_numbers_that_were_declared_as_text_are_refused_by_what_they_are(parties, numbers, party):
    ids = {"bank": BANK, "bureau": BUREAU} | {party: numbers}
    error = align(parties, ids).errors[party]
    assert isinstance(error, ConsentError)
    assert "type text, digits" in str(error)
    assert not any(number in str(error) for number in numbers)
    both = {"bank": numbers, "bureau": numbers}
    assert align(parties, both, allow_low_entropy=True).errors == {}


@pytest.mark.parametrize("kind", ["category", "text"])
def test_a_column_that_is_no_id_is_refused_whatever_the_accord_allows(parties, monkeypatch, kind):
    """A category has a rule of ids too, and a handful of values."""
    jobs = ["nurse", "doctor", "lawyer"]
    column = Column(type=kind, owner=("data_holder",), sensitivity="internal", rule=IdRule())
    columns = {"k": align_steps.spec().columns["id"], "id": column}
    other = FeatureSpec(name="t", description="people", key=("k",), columns=columns)
    monkeypatch.setattr(align_steps, "spec", lambda _: other)
    for allow in (False, True):
        outcome = align(parties, {"bank": jobs, "bureau": jobs[:2]}, allow_low_entropy=allow)
        assert set(outcome.errors) == {"bank", "bureau"}
        for error in outcome.errors.values():
            assert isinstance(error, DataError)
            assert f"type {kind}" in str(error)
        assert not rows(outcome)


def test_a_table_that_does_not_say_how_its_ids_are_written_is_refused(parties):
    outcome = align(parties, {"bank": BANK, "bureau": BUREAU}, metadata=(), allow_low_entropy=True)
    for error in outcome.errors.values():
        assert isinstance(error, ConsentError)
        assert "does not say how its ids are written" in error.what
        assert error.remedy
    assert not rows(outcome)


PIPELINE = """\
pipeline: pair
accord: demo
seed: 1
initiator: bank
roles: {data_holder: [bank, bureau], receiver: [bank], sender: [bureau]}
steps:
  load: {component: load_tables, params: {data_sets: {bank: [t], bureau: [t]}}}
  align:
    component: align_keyed_hash
    inputs: {tables: load.tables}
    params: {tables: {bank: t, bureau: t}, id_column: id, allow_low_entropy: ALLOW}
"""


def test_the_accord_has_to_allow_it():
    """By the entry of the catalogue, as a node looks at a pipeline."""
    assert catalogue()["align_keyed_hash"]["params"]["properties"]["allow_low_entropy"]["default"] is False
    terms = {"learns_alignment": ["bank", "bureau"], "max_tests": 100_000}

    def admit(allow, **more):
        pipeline = loads(PIPELINE.replace("ALLOW", allow), "pair.yaml")
        admit_alignment(AlignmentTerms(**terms, **more), pipeline.spec, "align", pipeline.at)

    with pytest.raises(ConsentError, match="allow_low_entropy"):
        admit("true")
    admit("false")
    admit("true", low_entropy_keyed_hash=True)


# Keys and tags of one attempt.


def test_tags_of_two_runs_attempts_or_rules_have_nothing_in_common(parties):
    ids = {"bank": PEOPLE[:20], "bureau": PEOPLE[:32]}  # 32 and no padding
    found = [
        set(tags(align(parties, ids, **how)))
        for how in ({"run": "night-1"}, {"run": "night-2"}, {"run": "night-2", "attempt": 2},
                    {"run": "night-3", "rules": IdRule(type="email")})
    ]  # fmt: skip
    assert [len(one) for one in found] == [32] * 4
    assert len(set.union(*found)) == 4 * 32


class Disturbed:
    """A context that sends something else."""

    def __init__(self, ctx, change):
        self._ctx, self._change = ctx, change

    def __getattr__(self, name):
        return getattr(self._ctx, name)

    def send(self, name, table, to=None):
        for one in self._change(name, table):
            self._ctx.send(name, one, to)


def under(change):
    """The roles, with the context that `change` puts in place."""

    def function(ctx, params):
        role = align_keyed_hash.receiver if ctx.role == "receiver" else align_keyed_hash.sender
        return role(change(ctx), params)

    return function


def disturbed(which, make):
    return under(lambda ctx: Disturbed(ctx, lambda name, t: make(t) if name == which else [t]))


def signed(**more):
    """A key of another attempt or party, signed by the right node, or another key under the same signature."""

    def change(ctx):
        def make(name, table):
            if name != "key":
                return [table]
            key = EphemeralKey().public if "public" not in more else more["public"]
            said = {"run": ctx.run, "step": ctx.step, "attempt": ctx.attempt, "party": ctx.party} | more
            text = align_keyed_hash.frame(
                b"accord keyed hash key 1", *(str(said[k]).encode() for k in ("run", "step", "attempt", "party")), key
            )
            row = {"public": key, "signature": ctx.keys.sign(text)}
            return [pa.table({k: pa.array([v], table.schema.field(k).type) for k, v in row.items()})]

        return Disturbed(ctx, make)

    return under(change)


def other_public(table):
    return [table.set_column(0, "public", pa.array([EphemeralKey().public], pa.binary(32)))]


KEYS = {
    "not the one that was signed": (disturbed("key", other_public), PeerForeign, "does not verify"),
    "of another run": (signed(run="yesterday"), PeerForeign, "does not verify"),
    "of another step": (signed(step="other"), PeerForeign, "does not verify"),
    "of another attempt": (signed(attempt=2), PeerForeign, "does not verify"),
    "of another party": (signed(party="shop"), PeerForeign, "does not verify"),
    "of small order": (signed(public=bytes(32)), CryptoError, "small order"),
    "none": (disturbed("key", lambda t: [t.slice(1)]), CryptoError, "another form"),
}  # fmt: skip


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("deviating", ["bank", "bureau"])
def test_a_key_that_the_peer_s_node_did_not_sign_for_this_attempt_is_refused(parties, kind, deviating):
    function, error, text = KEYS[kind]
    outcome = align(parties, {"bank": BANK, "bureau": BUREAU}, functions={deviating: function})
    (honest,) = {"bank", "bureau"} - {deviating}
    assert isinstance(outcome.errors[honest], error)
    assert text in str(outcome.errors[honest])
    if honest == "bureau":
        assert not rows(outcome, "tags")
    else:
        assert not rows(outcome, "matched")


def test_the_changed_key_is_as_the_honest_one_but_for_the_change(parties):
    """Else every refusal above could have another reason."""
    outcome = align(parties, {"bank": BANK, "bureau": BUREAU}, functions={"bank": signed()})
    assert rows(outcome, "tags") == [("bureau", "tags", 32)]  # accepted: only the two keys differ then


def test_another_id_rule_at_the_peer_is_named(parties):
    rules = {"bank": IdRule(case="lower"), "bureau": IdRule(case="upper")}
    outcome = align(parties, {"bank": BANK, "bureau": BUREAU}, rules=rules)
    assert any("another rule" in str(error) for error in outcome.errors.values())
    assert not rows(outcome, "tags")


TAGS = {
    "unsorted": lambda t: [t.take(list(range(len(t)))[::-1])],
    "repeated": lambda t: [pa.concat_tables([t.slice(0, 1), t.slice(0, 31)])],
    "too few": lambda t: [t.slice(1)],
    "too many": lambda t: [pa.concat_tables([t, pa.table({"tag": pa.array([b"\xff" * 32], pa.binary(32))})])],
    "none": lambda t: [t.slice(32)],
}


@pytest.mark.parametrize("kind", TAGS)
def test_tags_of_another_order_or_number_are_refused(parties, kind):
    outcome = align(parties, {"bank": BANK, "bureau": BUREAU}, functions={"bureau": disturbed("tags", TAGS[kind])})
    assert isinstance(outcome.errors["bank"], CryptoError)
    assert not rows(outcome, "matched")


def test_a_tag_that_repeats_across_slices_is_refused(parties, monkeypatch):
    monkeypatch.setattr("components.sorted_tags.SLICE", 8)
    first = []

    def make(table):
        first.append(table)
        return [first[0]]

    outcome = align(parties, {"bank": BANK, "bureau": BUREAU}, functions={"bureau": disturbed("tags", make)})
    assert "repeat" in str(outcome.errors["bank"])


@pytest.mark.parametrize("positions", [[32], [-1], [1, 1], list(range(32))])
def test_matches_outside_the_own_tags_are_refused(parties, monkeypatch, positions):
    """The last: all positions, so padding too."""
    told = align_keyed_hash.send_matched
    monkeypatch.setattr(
        align_keyed_hash, "send_matched", lambda ctx, peer, _, n: told(ctx, peer, np.array(positions, np.int64), n)
    )
    outcome = align(parties, {"bank": BANK, "bureau": BUREAU})
    assert isinstance(outcome.errors["bureau"], CryptoError)


def test_a_receiver_tells_a_party_that_may_not_learn_it(parties, monkeypatch):
    told = align_keyed_hash.send_matched
    monkeypatch.setattr(align_keyed_hash, "send_matched", lambda ctx, peer, _, n: told(ctx, peer, np.arange(1), n))
    outcome = align(parties, {"bank": BANK, "bureau": BUREAU}, reveal_to=("bank",))
    assert "matches told by bank" in str(outcome.errors["bureau"])


# Quota and further attempts.


@pytest.mark.parametrize("counting", ["bank", "bureau"])
def test_the_peer_s_ids_are_counted_over_runs_and_attempts_padding_included(parties, counting):
    sizes = {"bank": PEOPLE[:10], "bureau": PEOPLE[5:15]}  # 32 each
    sizes |= {("bureau" if counting == "bank" else "bank"): PEOPLE[:40]}  # 64: this is what is counted
    assert align(parties, sizes, run="n-1", max_tests=160).errors == {}
    assert align(parties, sizes, run="n-1", max_tests=160, attempt=2).errors == {}
    outcome = align(parties, sizes, run="n-2", max_tests=160)
    assert isinstance(outcome.errors[counting], ConsentError)
    assert not rows(outcome, "tags")


def test_a_pass_counts_besides(parties, tmp_path_factory):
    ids = {"bank": PEOPLE[:10], "bureau": PEOPLE[5:15]}
    assert align(parties, ids, cardinality_pass=True, max_tests=64).errors == {}
    outcome = align(type(parties)(tmp_path_factory.mktemp("others")), ids, cardinality_pass=True, max_tests=63)
    assert any(isinstance(error, ConsentError) for error in outcome.errors.values())
    assert not rows(outcome, "tags")


class Killed(AccordError):
    """The process died."""


def dies(_):
    raise Killed("killed")


@pytest.mark.parametrize(("victim", "at"), [("bank", "key"), ("bureau", "tags"), ("bank", "matched")])
def test_a_further_attempt_ends_as_the_first_would_have(parties, victim, at):
    ids = {"bank": PEOPLE[:40], "bureau": PEOPLE[20:80]}
    outcome = align(parties, ids, functions={victim: disturbed(at, dies)}, cardinality_pass=True, max_tests=3 * 64)
    assert isinstance(outcome.errors[victim], Killed)
    again = align(parties, ids, attempt=2, cardinality_pass=True, max_tests=3 * 64)  # the pass costs nothing again
    assert again.errors == {}
    assert set(joined(again, "bank", ids)) == set(PEOPLE[20:40])
    assert joined(again, "bank", ids) == joined(again, "bureau", ids)
    assert not set(tags(outcome)) & set(tags(again))


def test_the_message_table_says_what_the_key_holder_can_do():
    (entry,) = (m for m in catalogue()["align_keyed_hash"]["messages"] if m["name"] == "tags")
    assert entry["protection"] == "keyed_hash"
    assert "try any other id" in entry["reveals"]
    assert "small" in entry["reveals"]
    assert "WHOEVER HOLDS THE KEY" in catalogue()["align_keyed_hash"]["adversary"]


def test_sizes_show_no_more_than_the_padding(parties):
    shapes = set()
    for size in (33, 64):
        outcome = align(parties, {"bank": PEOPLE[:size], "bureau": PEOPLE[:size]}, buckets=2, run=f"size-{size}")
        shapes.add(tuple(sorted(row for row in rows(outcome) if row[1] != "matched")))
    (shape,) = shapes
    assert ("bureau", "tags", 2 * capacity(64, 2)) in shape
