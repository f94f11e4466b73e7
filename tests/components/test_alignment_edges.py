"""From a file to an alignment: real validate_tables on Spark, then align_rsa and align_ecdh, with ids at the edges."""

from dataclasses import replace
from functools import cache

import pyarrow as pa
import pytest

from base.errors import DataError, ExpectationFailed
from components.registry import component
from crypto.rsa import RsaSecretKey
from features.spec import Column, FeatureSpec, IdRule

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
