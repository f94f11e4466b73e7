"""What a party would miss in the middle of a run is refused before it, with the line and what to change."""

import textwrap

import pytest

from base.errors import SpecError
from components.registry import catalogue
from pipelines.at_parties import check_at_parties
from pipelines.holders import holders
from pipelines.load import load, loads
from pipelines.named_tables import tables_at

GOOD = textwrap.dedent("""\
    pipeline: pair
    accord: demo
    seed: 7
    initiator: bank
    roles:
      data_holder: [bank, bureau]
      receiver: [bank]
      sender: [bureau]
      label_holder: [bank]
      feature_holder: [bureau]
    steps:
      load:
        component: load_tables
        params: {data_sets: {bank: [half_ratings, catalogue], bureau: [people, behaviour, catalogue]}}
      validate:
        component: validate_tables
        inputs: {tables: load.tables}
      align:
        component: COMPONENT
        inputs: {tables: validate.tables, report: validate.report}
        params:
          tables: {bank: half_ratings, bureau: people}
          id_column: user_id
      encode:
        component: encode_features
        inputs: {tables: validate.tables, alignment: align.alignment}
      split:
        component: split_cold
        inputs: {tables: validate.tables, alignment: align.alignment}
        params: {ratings: half_ratings}
    """)
ALIGNMENTS = [name for name in catalogue() if name.startswith("align_")]


def pair(component="align_ecdh", *edits):
    text = GOOD.replace("COMPONENT", component)
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def refusal(text):
    with pytest.raises(SpecError) as caught:
        loads(text, "pair.yaml")
    assert all((caught.value.where, caught.value.expected, caught.value.found, caught.value.remedy))
    return caught.value


def told(line):
    return ("id_column: user_id", f"id_column: user_id\n      {line}")


@pytest.mark.parametrize("component", ALIGNMENTS)
@pytest.mark.parametrize("line", ["reveal_to: []", "reveal_to: [bank, bureau]", "cardinality_only: false"])
def test_an_alignment_that_all_get_serves_every_later_step(component, line):
    assert holders(loads(pair(component, told(line)), "pair.yaml").spec, "align", "alignment") == ("bank", "bureau")


@pytest.mark.parametrize("component", ALIGNMENTS)
@pytest.mark.parametrize(
    ("line", "lacking", "at", "holds"),
    [
        ("reveal_to: [bank]", "bureau", "27, key steps.encode", "bank"),
        ("reveal_to: [bureau]", "bank", "30, key steps.split", "bureau"),
        ("cardinality_only: true", "bureau", "27, key steps.encode", "nobody"),
        ("cardinality_only: true\n      reveal_to: [bank, bureau]", "bureau", "28, key steps.encode", "nobody"),
    ],
)
def test_a_step_that_takes_an_alignment_where_nobody_has_it_is_refused(component, line, lacking, at, holds):
    error = refusal(pair(component, told(line)))
    assert error.what == f"{lacking} does not get the alignment of step align"
    assert error.where == f"pair.yaml:{at}.inputs.alignment"
    assert (error.found, error.expected.split()[0]) == (lacking, holds)
    key = line.split(":")[0]
    assert f"(pair.yaml:24, key steps.align.params.{key})" in error.remedy  # the line that decides it
    assert f"leave {lacking} out of step" in error.remedy


@pytest.mark.parametrize("component", ALIGNMENTS)
def test_the_report_is_there_for_all_that_take_part(component):
    assert holders(loads(pair(component), "pair.yaml").spec, "align", "report") == ("bank", "bureau")
    counted = pair(component, told("cardinality_only: true")).partition("  encode:")[0]
    spec = loads(counted, "pair.yaml").spec
    assert holders(spec, "align", "report") == ("bank", "bureau")
    assert holders(spec, "align", "alignment") == ()


def test_an_input_of_a_step_that_a_party_takes_no_part_in_is_refused():
    error = refusal(
        pair(
            "align_ecdh",
            ("    component: validate_tables", "    component: validate_tables\n    roles: {data_holder: [bank]}"),
        )
    )
    assert error.what == "bureau does not get the tables of step validate"
    assert error.where == "pair.yaml:21, key steps.align.inputs.tables"
    assert "make bureau a data_holder of step validate" in error.remedy


def test_an_optional_input_may_be_absent():
    text = pair("align_ecdh").replace(
        "inputs: {tables: validate.tables, report", "inputs: {tables: load.tables, report"
    )
    edited = text.replace("component: validate_tables", "component: validate_tables\n    roles: {data_holder: [bank]}")
    loads(edited.partition("  encode:")[0], "pair.yaml")


@pytest.mark.parametrize(
    ("old", "new", "where", "expected", "found", "remedy"),
    [
        ("bureau: people}", "bureau: peple}", "22, key steps.align.params.tables.bureau", "people, behaviour", "peple",
         "did you mean 'people'?"),
        ("bureau: people}", "bureau: half_ratings}", "22, key steps.align.params.tables.bureau", "people",
         "half_ratings", "a table that bureau loads"),
        ("bank: half_ratings, bureau: people}", "bank: half_ratings}", "22, key steps.align.params.tables",
         "bank, bureau", "bank", "add bureau"),
        ("bank: half_ratings, bureau: people}", "bank: half_ratings, buro: people}",
         "22, key steps.align.params.tables", "bank, bureau", "bank, buro",
         "did you mean 'buro' in roles, or 'bureau' here?"),
        ("{ratings: half_ratings}", "{ratings: ratings}", "30, key steps.split.params.ratings", "half_ratings",
         "ratings", "did you mean 'half_ratings'?"),
        (", bureau: [people, behaviour, catalogue]", "", "14, key steps.load.params.data_sets", "bank, bureau", "bank",
         "add bureau"),
        ("[people, behaviour, catalogue]", "[people, catalogue]", "24, key steps.encode.params.behaviour", "people",
         "behaviour", "a table that bureau loads"),
    ],
)  # fmt: skip
def test_a_table_that_a_party_does_not_load_is_refused(old, new, where, expected, found, remedy):
    error = refusal(pair("align_ecdh", (old, new)))
    assert error.where == f"pair.yaml:{where}"
    assert expected in error.expected
    assert found == error.found
    assert remedy in error.remedy


def test_who_gets_the_alignment_takes_part_in_it():
    error = refusal(pair("align_rsa", told("reveal_to: [bank, buraeu]")))
    assert error.where == "pair.yaml:24, key steps.align.params.reveal_to"
    assert (error.expected, error.found, error.remedy) == ("bank, bureau", "buraeu", "did you mean 'bureau'?")


@pytest.mark.parametrize("component", ALIGNMENTS)
def test_a_party_is_named_once(component):
    error = refusal(pair(component, told("reveal_to: [bureau, bank, bureau]")))
    assert error.where == "pair.yaml:24, key steps.align.params.reveal_to"
    assert (error.found, error.remedy) == ("bureau", "reveal_to: [bureau, bank]")


@pytest.mark.parametrize(
    ("party", "remedy"), [("south", "leave it out, or give south a role in step "), ("buro", "did you mean 'bureau'?")]
)
@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("bureau: people}", "bureau: people, PARTY: people}", "22, key steps.align.params.tables"),
        ("{bank: [half_ratings", "{PARTY: [people], bank: [half_ratings", "14, key steps.load.params.data_sets"),
    ],
)
def test_an_entry_of_a_party_that_takes_no_part_is_refused(party, remedy, old, new, where):
    error = refusal(pair("align_ecdh", (old, new.replace("PARTY", party))))
    assert error.where == f"pair.yaml:{where}.{party}"
    assert (error.expected, error.found) == ("bank, bureau", party)
    assert error.remedy.startswith(remedy)


def test_tables_are_known_behind_a_step_that_passes_them_on_and_not_beyond_the_file():
    spec = loads(pair(), "pair.yaml").spec
    assert tables_at(spec, "encode", "tables", "bureau") == ("people", "behaviour", "catalogue")
    assert tables_at(spec, "encode", "alignment", "bureau") is None


@pytest.mark.parametrize("name", ["horizontal_mf", "vertical_mf"])
def test_the_shipped_pipelines_have_what_they_read_at_every_party(repository, name):
    pipeline = load(repository / "conf" / "pipelines" / f"{name}.yaml")
    for step in pipeline.spec.steps:
        check_at_parties(pipeline, step)
