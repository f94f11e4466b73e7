"""An alignment keeps to the accord in each of its terms, by default too, and a refusal says where."""

from itertools import product
from typing import Annotated

import pytest
import yaml
from annotated_types import Ge

from base.errors import ConsentError, SpecError
from components.alignment import AlignParams
from components.contract import Component
from components.registry import catalogue, describe
from crypto.node_keys import NodeKeys
from pipelines.accord import SignedAccord, make_terms
from pipelines.alignment_terms import AlignmentTerms, admit_alignment
from pipelines.load import load, loads

BASE = """\
pipeline: star
accord: demo
seed: 1
initiator: north_bank
roles: {data_holder: [north_bank, south_bank, bureau], receiver: [north_bank], sender: [south_bank, bureau]}
steps:
  load: {component: load_tables, params: {data_sets: {north_bank: [t], south_bank: [t], bureau: [t]}}}
  align:
    component: COMPONENT
    inputs: {tables: load.tables}
    params:
      tables: {north_bank: t, south_bank: t, bureau: t}
      id_column: user_id
"""
ALL = ["north_bank", "south_bank", "bureau"]
ENOUGH = {"learns_alignment": ALL, "max_tests": 100_000, "max_signatures": 100_000}


class CurveParams(AlignParams):
    pass


class KeyedParams(AlignParams):
    key_period: str = ""
    allow_low_entropy: bool = False


class SigningParams(AlignParams):
    key_period: str = ""
    max_signatures: Annotated[int, Ge(1)] = 100_000


@pytest.fixture(autouse=True)
def components(monkeypatch):
    """Three alignments as a catalogue lists them, so that no test waits for one component's parameters."""
    for name, params in (("curve", CurveParams), ("keyed", KeyedParams), ("signing", SigningParams)):
        roles = dict.fromkeys(("receiver", "sender"))
        part = Component(f"align_{name}", roles, params, inputs={"tables": "tables"}, outputs={"report": "counts"})
        monkeypatch.setitem(catalogue(), part.name, describe(part))


def admit(kind, terms, *lines):
    text = BASE.replace("COMPONENT", f"align_{kind}") + "".join(f"      {line}\n" for line in lines)
    pipeline = loads(text, "star.yaml")
    admit_alignment(AlignmentTerms(**{**ENOUGH, **terms}), pipeline.spec, "align", pipeline.at)


@pytest.mark.parametrize("kind", ["curve", "keyed", "signing"])
def test_the_defaults_of_a_pipeline_fit_terms_that_name_learners_and_limits(kind):
    admit(kind, {})


@pytest.mark.parametrize("kind", ["curve", "keyed", "signing"])
def test_terms_that_say_nothing_allow_no_alignment(kind):
    for missing in ENOUGH.keys() - ({"max_tests"} if kind == "signing" else {"max_signatures"}):
        with pytest.raises(ConsentError):
            admit(kind, {missing: AlignmentTerms.model_fields[missing].default})


REFUSED = [
    ("curve", {"min_overlap": 101}, "min_overlap: 100", "at least 101", "100"),
    ("curve", {}, "max_tests: 100001", "at most 100000", "100001"),
    ("keyed", {}, "max_tests: 100001", "at most 100000", "100001"),
    ("signing", {}, "max_signatures: 100001", "at most 100000", "100001"),
    ("keyed", {}, "key_period: spring", '""', '"spring"'),
    ("signing", {"key_period": "spring"}, "key_period: autumn", '"spring"', '"autumn"'),
    ("signing", {"key_period": "spring"}, 'key_period: ""', '"spring"', '""'),
    ("curve", {"cardinality_pass": True}, "cardinality_pass: false", "true, as the accord asks for it", "false"),
    ("keyed", {}, "allow_low_entropy: true", "false", "true"),
]


@pytest.mark.parametrize(("kind", "terms", "line", "expected", "found"), REFUSED)
def test_a_parameter_beyond_the_accord_is_refused_at_its_line(kind, terms, line, expected, found):
    with pytest.raises(ConsentError, match="beyond the accord") as caught:
        admit(kind, terms, line)
    name = line.split(":")[0]
    assert name in caught.value.what
    assert caught.value.where == f"star.yaml:14, key steps.align.params.{name}"
    assert (caught.value.expected, caught.value.found) == (expected, found)
    assert "change the pipeline" in caught.value.remedy
    assert ("low_entropy_keyed_hash: true" in caught.value.remedy) == (name == "allow_low_entropy")


@pytest.mark.parametrize(
    ("kind", "terms", "what"),
    [
        ("curve", {"cardinality_pass": True}, "cardinality_pass"),
        ("signing", {"key_period": "spring"}, "key_period"),
        ("curve", {"max_tests": 99_999}, "max_tests"),
        ("signing", {"max_signatures": 99_999}, "max_signatures"),
        ("keyed", {"min_overlap": 101}, "min_overlap"),
    ],
)
def test_a_default_counts_as_if_it_were_written(kind, terms, what):
    with pytest.raises(ConsentError, match=what) as caught:
        admit(kind, terms)
    assert caught.value.where.startswith("star.yaml:")


ALLOWED = [
    ("curve", {"min_overlap": 50}, "min_overlap: 50"),
    ("curve", {}, "max_tests: 100000"),
    ("curve", {}, "cardinality_pass: true"),  # more than the accord asks for
    ("curve", {"cardinality_pass": True}, "cardinality_pass: true"),
    ("curve", {"cardinality_pass": True}, "cardinality_only: true"),  # counting is all that it does
    ("keyed", {"low_entropy_keyed_hash": True}, "allow_low_entropy: true"),
    ("keyed", {"low_entropy_keyed_hash": True}, "allow_low_entropy: false"),
    ("signing", {"key_period": "spring"}, "key_period: spring"),
    ("signing", {"max_tests": 0}, "cardinality_pass: false"),  # signatures are counted, no point is sent
]


@pytest.mark.parametrize(("kind", "terms", "line"), ALLOWED)
def test_what_the_terms_allow_is_admitted(kind, terms, line):
    admit(kind, terms, line)


@pytest.mark.parametrize("line", ["cardinality_pass: true", "cardinality_only: true"])
def test_points_that_only_count_are_tests_too(line):
    with pytest.raises(ConsentError, match="max_tests"):
        admit("signing", {"max_tests": 99_999}, line)


SUBSETS = [[p for p, kept in zip(ALL, bits, strict=True) if kept] for bits in product((0, 1), repeat=3)]


@pytest.mark.parametrize("named", SUBSETS, ids=lambda names: "+".join(names) or "none")
@pytest.mark.parametrize("reveal", [None, *SUBSETS], ids=lambda names: "left out" if names is None else "+".join(names))
def test_who_learns_the_alignment_is_named_and_the_receiver_always_learns(named, reveal):
    lines = [] if reveal is None else [f"reveal_to: [{', '.join(reveal)}]"]
    needed = set(reveal or ALL) | {"north_bank"}  # an empty reveal_to is everybody
    if needed <= set(named):
        admit("curve", {"learns_alignment": named}, *lines)
        return
    with pytest.raises(ConsentError, match="learner of the alignment") as caught:
        admit("curve", {"learns_alignment": named}, *lines)
    assert set(caught.value.found.split(", ")) == needed - set(named)
    assert caught.value.where == (
        "star.yaml:14, key steps.align.params.reveal_to" if reveal else "star.yaml:5, key roles"
    )


@pytest.mark.parametrize("line", ["min_overlap: 100", "reveal_to: [south_bank, bureau]"])
@pytest.mark.parametrize("named", [named for named in SUBSETS if "north_bank" in named and len(named) < 3])
def test_the_remedy_for_too_many_learners_is_accepted(named, line):
    with pytest.raises(ConsentError, match="learner of the alignment") as caught:
        admit("curve", {"learns_alignment": named}, line)
    written, _, where = caught.value.remedy.partition(" under params of step align; ")
    assert where == "to tell more, a new version of the accord"
    assert written == f"reveal_to: [{', '.join(sorted(named))}]"
    admit("curve", {"learns_alignment": named}, written)


def test_where_the_receiver_may_not_learn_another_one_is_the_remedy():
    for named, remedy in (["bureau"], "the receiver sees who is common: bureau as receiver"), ([], "a new version of"):
        with pytest.raises(ConsentError) as caught:
            admit("curve", {"learns_alignment": named})
        assert caught.value.remedy.startswith(remedy)


@pytest.mark.parametrize("named", SUBSETS, ids=lambda names: "+".join(names) or "none")
def test_for_a_number_alone_the_receiver_is_named_since_it_could_see_who(named):
    for more in ([], ["reveal_to: [bureau]"]):
        if "north_bank" in named:
            admit("curve", {"learns_alignment": named}, "cardinality_only: true", *more)
            continue
        with pytest.raises(ConsentError, match="learner of the alignment") as caught:
            admit("curve", {"learns_alignment": named}, "cardinality_only: true", *more)
        assert caught.value.found == "north_bank"


def test_a_misspelt_learner_is_told_the_name_that_is_near():
    with pytest.raises(SpecError) as caught:
        admit("curve", {}, "reveal_to: [buraeu]")
    assert "did you mean 'bureau'?" in caught.value.remedy


@pytest.mark.parametrize("label", ["Spring", "a/b", "..", "a.b", "a b", "x" * 33, "ä", "a\n"])
def test_a_label_is_part_of_a_file_name(label):
    with pytest.raises(ValueError, match="key_period"):
        AlignmentTerms(key_period=label)


@pytest.mark.parametrize("name", ["horizontal_mf", "vertical_mf"])
def test_the_accord_of_the_demo_admits_its_pipelines(repository, name):
    conditions = yaml.safe_load((repository / "conf" / "accords" / "demo.yaml").read_text())
    terms = make_terms(conditions, {party: NodeKeys.generate().public for party in conditions["parties"]})
    pipeline = load(repository / "conf" / "pipelines" / f"{name}.yaml")
    SignedAccord(terms=terms).admit(pipeline.spec, pipeline.at)
