"""From a file to an alignment: real validate_tables on Spark, then align_rsa and align_ecdh, with ids at the edges.

And with so many ids that Spark works on them: what it sends, and an attempt that dies in between.
"""

from dataclasses import replace
from functools import cache

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from base.errors import AccordError, Cancelled, DataError, EnvironmentMissing, ExpectationFailed
from components import align_ecdh, curve_buckets
from components.alignment_ids import bucket_salt
from components.registry import component
from crypto.rsa import RsaSecretKey
from features.id_partition import bucket_numbers
from features.spec import Column, FeatureSpec, IdRule
from runtime.checkpoint import FileCheckpoint
from runtime.spill import Spill

HOW = pytest.mark.parametrize("how", ["align_rsa", "align_ecdh"])
ROLES = {"receiver": ("bank",), "sender": ("bureau",)}


@pytest.fixture
def parties(threads, tmp_path):
    """Parties that have never met."""
    return type(threads)(tmp_path / "parties")


@pytest.fixture(scope="module", autouse=True)
def _quick_key():
    """Primes take a second: one key serves every test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RsaSecretKey, "generate", cache(RsaSecretKey.generate))
        yield


def spec(**more):
    """Ids that may stand in many rows; dirt is dropped and counted."""
    column = Column(type="id", owner=("data_holder",), sensitivity="sensitive", rule=IdRule(**more), on_null="drop",
                    on_invalid="drop")  # fmt: skip
    return FeatureSpec(name="edge", description="", key=("n",), columns={
        "n": column.model_copy(update={"rule": IdRule()}), "id": column})  # fmt: skip


@pytest.fixture
def validated(alone, specs, monkeypatch):
    """ids -> the outputs of validate_tables, which become the inputs of an alignment."""
    monkeypatch.setitem(specs, "edge", spec())

    def run(party, ids, max_dropped=0.9):
        metadata = {"spec": "edge", "spec_digest": spec().digest, "agreed": ""}
        rows = {"n": [f"row {n}" for n in range(len(ids))], "id": pa.array(ids, pa.string())}
        raw = {"t": pa.table(rows).replace_schema_metadata(metadata)}
        return alone("validate_tables", party, {"tables": raw}, {"max_dropped": max_dropped})[0]

    return run


def align(parties, how, inputs, **params):
    parties.folder.mkdir(exist_ok=True)

    def at_a_node(ctx, params):
        return component(how).roles[ctx.role](
            replace(ctx, services=replace(ctx.services, spec=lambda _: spec())), params
        )

    given = {"tables": dict.fromkeys(inputs, "t"), "id_column": "id", "min_overlap": 1, "pad_to": 32}
    given |= {"key_bits": 2048} if how == "align_rsa" else {}
    return parties(how, ROLES, inputs, given | params, functions=dict.fromkeys(inputs, at_a_node))


@HOW
def test_one_id_in_a_hundred_thousand_rows(parties, validated, how):
    many = 100_000
    inputs = {"bank": validated("bank", ["same"] * many), "bureau": validated("bureau", ["other", " same "])}
    outcome = align(parties, how, inputs)
    assert "more than one row" in str(outcome.errors["bank"])
    outcome = align(parties, how, inputs, on_duplicates="all")
    assert outcome.errors == {}
    report = outcome.outputs["bank"]["report"]
    assert (report["read"], report["rows"], report["distinct"], report["aligned"]) == (many, many, 1, 1)
    assert report["rows_joined"] == many
    assert outcome.outputs["bank"]["alignment"].to_pydict() == {"row": [0], "index": [0], "first": [0]}
    assert outcome.outputs["bureau"]["alignment"]["row"].to_pylist() == [1]


@HOW
def test_ids_above_a_kilobyte_are_refused_by_the_rule_and_counted_in_the_report(parties, validated, how):
    longest = "x" * 64
    ids = {
        "bank": ["a", "x" * 1025, "é" * 100_000, longest, None, "NULL", "b\x00"],
        "bureau": [longest, "a", "x" * 1025, "", "z"],
    }
    outcome = align(parties, how, {party: validated(party, given) for party, given in ids.items()})
    assert outcome.errors == {}
    found = {party: outcome.outputs[party]["report"] for party in ids}
    names = ("read", "null", "invalid", "rows", "distinct", "aligned")
    assert [found["bank"][name] for name in names] == [7, 2, {"control": 1, "length": 2}, 2, 2, 2]
    assert [found["bureau"][name] for name in names] == [5, 1, {"length": 1}, 3, 3, 2]
    for report in found.values():
        assert report["read"] == report["null"] + sum(report["invalid"].values()) + report["rows"]


@HOW
def test_a_column_of_nulls_is_refused(parties, validated, how):
    with pytest.raises(ExpectationFailed, match=r"id\.null 40"):
        validated("bank", [None, ""] * 20)
    # Without the gate the alignment refuses it, and says no number to the peer.
    tables = {"t": pa.table({"id": pa.array([None] * 40, pa.string())}).replace_schema_metadata({"spec": "edge"})}
    outcome = align(parties, how, {"bank": {"tables": tables}, "bureau": validated("bureau", ["a"])})
    assert isinstance(outcome.errors["bank"], DataError)
    assert "null" in str(outcome.errors["bank"])
    assert not [p for parcels in outcome.parcels.values() for p in parcels if p.header.name != "size"]


@HOW
@pytest.mark.parametrize(("theirs", "common"), [("one", True), ("two", False)])
def test_one_row_at_each_party(parties, validated, how, theirs, common):
    inputs = {"bank": validated("bank", ["one"]), "bureau": validated("bureau", [theirs])}
    outcome = align(parties, how, inputs)
    if common:
        assert outcome.errors == {}
        for party in inputs:
            assert outcome.outputs[party]["alignment"].to_pydict() == {"row": [0], "index": [0], "first": [0]}
    else:
        assert "too few in common" in str(outcome.errors["bank"])
        assert not outcome.outputs


# So many ids that Spark works on them.

BUCKETS = 5
IDS = {
    "bank": [f"person {n:03d} é" for n in range(300)],
    "bureau": [f"person {n:03d} é" for n in range(420, 180, -1)],
}
COMMON = set(IDS["bank"]) & set(IDS["bureau"])


class Killed(AccordError):
    """The process died."""


@pytest.fixture
def groups(monkeypatch):
    """(party, buckets of a group that Spark has masked, its folder), while the folder is there."""
    found, mask_group = [], curve_buckets.OwnBuckets._mask_group

    def watched(own, b):
        group = mask_group(own, b)
        ctx, files = own._ctx, [group.folder / f"bucket-{n}.parquet" for n in range(BUCKETS)]
        assert sorted(group.folder.iterdir()) == files
        texts = own._ids.values.take(pa.array(group.rows)).to_pylist()
        wanted = bucket_numbers(texts, bucket_salt(ctx), BUCKETS)
        assert [pq.read_metadata(file).num_rows for file in files] == [wanted.count(n) for n in range(BUCKETS)]
        found.append((ctx.party, list(group.buckets), group.folder))
        return group

    monkeypatch.setattr(curve_buckets.OwnBuckets, "_mask_group", watched)
    return found


@pytest.fixture
def on_spark(parties, spark):
    """Align `IDS` with align_ecdh: `on_spark(attempt, resume, spark_above=...)`."""

    def run(attempt=1, resume=None, **params):
        parties.folder.mkdir(exist_ok=True)

        def at_a_node(ctx, params):
            services = replace(ctx.services, spark=lambda: spark, spec=lambda _: spec())
            rounds = FileCheckpoint(parties.folder / ctx.party / "rounds", resume)
            return component("align_ecdh").roles[ctx.role](replace(ctx, services=services, checkpoint=rounds), params)

        tables = {party: pa.table({"id": ids}).replace_schema_metadata({"spec": "edge"}) for party, ids in IDS.items()}
        inputs = {party: {"tables": {"t": table}} for party, table in tables.items()}
        given = {"tables": dict.fromkeys(IDS, "t"), "id_column": "id", "min_overlap": 1, "buckets": BUCKETS}
        return parties("align_ecdh", ROLES, inputs, given | {"pad_to": 32} | params, attempt=attempt,
                       functions=dict.fromkeys(IDS, at_a_node))  # fmt: skip

    return run


def bodies(outcome, name):
    """What crossed, by sender."""
    return {party: [p.body for p in parcels if p.header.name == name] for party, parcels in outcome.parcels.items()}


def is_plain_join(outcome):
    assert outcome.errors == {}
    people = [[IDS[p][row] for row in outcome.outputs[p]["alignment"]["first"].to_pylist()] for p in IDS]
    assert people[0] == people[1]
    assert len(people[0]) == len(COMMON)
    assert set(people[0]) == COMMON


def dies(*_):
    raise Killed("killed")


@pytest.mark.spark
def test_with_spark_at_both_parties_the_same_bytes_cross_as_without(on_spark, groups, monkeypatch):
    """A further attempt has scalar and order of the first, so it repeats its messages: here by the other path."""
    with monkeypatch.context() as patch:
        patch.setattr(align_ecdh, "send_matched", dies)
        plain = on_spark()
    assert isinstance(plain.errors["bank"], Killed)
    assert groups == []
    again = on_spark(attempt=2, spark_above=1)
    is_plain_join(again)
    assert sorted((party, buckets) for party, buckets, _ in groups) == [(p, list(range(BUCKETS))) for p in sorted(IDS)]
    for name, senders in (("masked", 2), ("answer", 1)):
        assert sum(map(len, bodies(plain, name).values())) == senders * BUCKETS
        assert bodies(again, name) == bodies(plain, name)


@pytest.mark.spark
def test_a_killed_attempt_on_spark_goes_on_at_its_bucket_and_its_folders_are_gone(
    on_spark, groups, parties, monkeypatch
):
    monkeypatch.setattr(curve_buckets, "GROUP", 140)
    masked = curve_buckets.OwnBuckets.masked

    def dies_at_three(own, b):
        return dies() if (own._ctx.party, b) == ("bank", 3) else masked(own, b)

    with monkeypatch.context() as patch:
        patch.setattr(curve_buckets.OwnBuckets, "masked", dies_at_three)
        patch.setattr(Spill, "__exit__", lambda *_: None)  # whom kill -9 hits removes nothing
        first = on_spark(spark_above=1)
    assert isinstance(first.errors["bank"], Killed)
    left = [folder for _, _, folder in groups]
    assert [buckets for party, buckets, _ in groups if party == "bank"] == [[0, 1], [2, 3]]
    assert all(folder.exists() for folder in left)

    groups.clear()
    again = on_spark(attempt=2, resume=2, spark_above=1)
    is_plain_join(again)
    assert {party: buckets for party, buckets, _ in groups}["bank"] == [3, 4]
    assert min(min(buckets) for _, buckets, _ in groups) == 3
    for name in ("masked", "answer"):  # nothing that was done is sent again
        assert {len(found) for found in bodies(again, name).values()} <= {0, BUCKETS - 3}
        assert sum(map(len, bodies(again, name).values())) == (BUCKETS - 3) * (2 if name == "masked" else 1)
    assert not any(folder.exists() for folder in [*left, *(folder for _, _, folder in groups)])
    assert not list(parties.folder.rglob("*.parquet"))


@pytest.mark.spark
def test_a_disk_that_is_full_while_ids_are_spilled_stops_the_attempt_and_the_next_one_ends(
    on_spark, parties, monkeypatch
):
    folder = Spill.folder

    def full(spill):
        made = folder(spill)
        (made / "bucket-3.parquet").symlink_to("/dev/full")
        return made

    with monkeypatch.context() as patch:
        patch.setattr(Spill, "folder", full)
        first = on_spark(spark_above=250)  # the bank has so many, the bureau has not
    error = first.errors["bank"]
    assert isinstance(error, EnvironmentMissing)
    assert error.found == "No space left on device"
    assert error.where.startswith(str(parties.folder / "bank" / "spill"))
    assert "person" not in str(error)
    assert isinstance(first.errors["bureau"], Cancelled)
    assert not list(parties.folder.rglob("*.parquet"))
    is_plain_join(on_spark(attempt=2, spark_above=250))
