"""Columns and ids that do not fit the feature specs are refused before a run, as far as the specs lie here."""

import pytest
import yaml

from base.errors import AccordError, ConsentError, SpecError
from components.registry import catalogue
from crypto.node_keys import NodeKeys
from features.spec import Column, FeatureSpec, IdRule, load_all
from pipelines.accord import SignedAccord, make_terms
from pipelines.columns import require_fit
from pipelines.load import load, loads

PIPELINE = """\
pipeline: pair
accord: demo
seed: 1
initiator: bank
roles: {data_holder: [bank, bureau], receiver: [bank], sender: [bureau]}
steps:
  load: {component: load_tables, params: {data_sets: {bank: [customers], bureau: [people]}}}
  align:
    component: COMPONENT
    inputs: {tables: load.tables}
    params:
      tables: {bank: customers, bureau: people}
      id_column: phone
"""
HELD = {"owner": ("data_holder",), "sensitivity": "sensitive"}
PHONE = IdRule(type="phone", region="DE")
ALIGNMENTS = [name for name in catalogue() if name.startswith("align_")]
BOTH = ("allow_low_entropy: true", "low_entropy_keyed_hash: true")


def feature_spec(name, rule=PHONE):
    columns = {
        "phone": Column(type="id", rule=rule, **HELD),
        "city": Column(type="text", **HELD),
        "age": Column(type="real", **HELD),
    }
    return FeatureSpec(name=name, description="", key=("phone",), columns=columns)


@pytest.fixture(scope="module")
def keys():
    return {party: NodeKeys.generate().public for party in ("bank", "bureau")}


@pytest.fixture
def admit(keys):
    """`admit(component, specs, *edits, **terms)` checks the pipeline as a node does that holds these specs."""

    def check(component, specs, *edits, **more):
        conditions = {
            "accord": "demo", "purpose": "test of ids and columns", "legal_basis": "none", "valid_from": "2026-01-01",
            "valid_until": "2026-12-31", "max_runs": 1, "learns_alignment": ["bank", "bureau"], "max_tests": 100_000,
            "max_signatures": 100_000, "components": {name: entry["version"] for name, entry in catalogue().items()},
            "parties": {"bank": {"customers": {"spec": "customer"}}, "bureau": {"people": {"spec": "person"}}}, **more,
        }  # fmt: skip
        text = PIPELINE.replace("COMPONENT", component)
        for old, new in edits:
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        pipeline = loads(text, "pair.yaml")
        accord = SignedAccord(terms=make_terms(conditions, keys))
        accord.admit(pipeline.spec, pipeline.at)
        require_fit(pipeline, accord, {spec.name: spec for spec in specs})

    return check


def both(rule=PHONE):
    return feature_spec("customer", rule), feature_spec("person", rule)


def told(line):
    return ("id_column: phone", f"id_column: phone\n      {line}")


@pytest.mark.parametrize("component", ["align_ecdh", "align_rsa"])
def test_an_id_of_both_specs_is_admitted(admit, component):
    admit(component, both())


@pytest.mark.parametrize("component", ALIGNMENTS)
@pytest.mark.parametrize(
    ("column", "what", "expected", "remedy"),
    [
        ("fone", "table customers of bank has no such column", "phone, city, age", "did you mean 'phone'?"),
        ("user_id", "table customers of bank has no such column", "phone, city, age", "a column of the feature spec"),
        ("city", "column city of table customers of bank is of another type", "type id in the feature spec customer",
         "type id in customer.yaml"),
        ("age", "column age of table customers of bank is of another type", "type id in the feature spec customer",
         "another column"),
    ],
)  # fmt: skip
def test_a_column_that_is_no_id_of_the_spec_is_refused(admit, component, column, what, expected, remedy):
    with pytest.raises(SpecError) as caught:
        admit(component, both(IdRule()), ("id_column: phone", f"id_column: {column}"))
    error = caught.value
    assert (error.what, error.where) == (what, "pair.yaml:13, key steps.align.params.id_column")
    assert expected in error.expected
    assert error.found in (column, "type text", "type real")
    assert remedy in error.remedy


def test_the_second_party_is_looked_at_too(admit):
    other = feature_spec("person")
    columns = {("mobile" if name == "phone" else name): column for name, column in other.columns.items()}
    renamed = other.model_copy(update={"columns": columns})
    with pytest.raises(SpecError, match="table people of bureau has no such column"):
        admit("align_ecdh", (feature_spec("customer"), renamed))


@pytest.mark.parametrize(
    "rule",
    [PHONE, IdRule(type="integer"), IdRule(type="national_id", kind="de_idnr"), IdRule(type="hashed", algorithm="md5")],
    ids=lambda rule: rule.type,
)
@pytest.mark.parametrize(
    ("edits", "terms"),
    [
        ((), {}),
        ((), {"low_entropy_keyed_hash": True}),
        ((told("allow_low_entropy: false"),), {"low_entropy_keyed_hash": True}),
    ],
)
def test_keyed_hashes_of_ids_that_can_be_counted_through_need_both_consents(admit, rule, edits, terms):
    with pytest.raises(ConsentError, match="ids of bank can be tried one by one") as caught:
        admit("align_keyed_hash", both(rule), *edits, **terms)
    error = caught.value
    assert error.where == "pair.yaml:13, key steps.align.params.id_column"
    assert error.found == f"type {rule.type} in feature spec customer"
    assert all(word in error.remedy for word in BOTH)
    admit("align_keyed_hash", both(rule), told("allow_low_entropy: true"), low_entropy_keyed_hash=True)


def test_the_step_alone_does_not_allow_what_the_accord_does_not(admit):
    with pytest.raises(ConsentError, match="allow_low_entropy") as caught:
        admit("align_keyed_hash", both(), told("allow_low_entropy: true"))
    assert caught.value.where == "pair.yaml:14, key steps.align.params.allow_low_entropy"
    assert "low_entropy_keyed_hash" in caught.value.remedy


@pytest.mark.parametrize("rule", [IdRule(), IdRule(type="email")], ids=lambda rule: rule.type)
def test_keyed_hashes_of_other_ids_need_no_consent(admit, rule):
    admit("align_keyed_hash", both(rule))


@pytest.mark.parametrize("component", ALIGNMENTS)
def test_ids_by_two_rules_are_refused(admit, component):
    specs = feature_spec("customer", IdRule()), feature_spec("person", IdRule(case="lower", max_length=32))
    with pytest.raises(SpecError, match="ids of bank and bureau are written by different rules") as caught:
        admit(component, specs)
    assert caught.value.where == "pair.yaml:13, key steps.align.params.id_column"
    assert caught.value.found == "another case, max_length in the feature spec person than in customer"


WRONG = [
    (("id_column: phone", "id_column: fone"), (), "align_ecdh"),
    (("id_column: phone", "id_column: age"), (), "align_rsa"),
    (("seed: 1", "seed: 2"), (), "align_keyed_hash"),
]


@pytest.mark.parametrize(("edit", "specs", "component"), WRONG)
def test_what_would_need_a_spec_that_is_not_here_is_not_judged(admit, edit, specs, component):
    admit(component, specs, edit)
    with pytest.raises(AccordError):
        admit(component, both(), edit)


def test_of_two_parties_the_one_whose_spec_is_here_is_judged(admit):
    here = (feature_spec("person"),)
    with pytest.raises(SpecError, match="table people of bureau"):
        admit("align_ecdh", here, ("id_column: phone", "id_column: fone"))
    with pytest.raises(ConsentError, match="ids of bureau"):
        admit("align_keyed_hash", here)
    admit("align_ecdh", here)


@pytest.mark.parametrize("name", ["horizontal_mf", "vertical_mf"])
def test_the_shipped_pipelines_fit_the_shipped_specs(repository, name):
    conditions = yaml.safe_load((repository / "conf" / "accords" / "demo.yaml").read_text())
    terms = make_terms(conditions, {party: NodeKeys.generate().public for party in conditions["parties"]})
    pipeline, accord = load(repository / "conf" / "pipelines" / f"{name}.yaml"), SignedAccord(terms=terms)
    accord.admit(pipeline.spec, pipeline.at)
    require_fit(pipeline, accord, load_all(repository / "feature_specs"))


def test_the_shipped_alignment_by_keyed_hashes_would_need_consent(repository):
    """Customer numbers are integers: the specs that ship say so."""
    conditions = yaml.safe_load((repository / "conf" / "accords" / "demo.yaml").read_text())
    terms = make_terms(conditions, {party: NodeKeys.generate().public for party in conditions["parties"]})
    text = (repository / "conf" / "pipelines" / "vertical_mf.yaml").read_text().replace("align_rsa", "align_keyed_hash")
    pipeline = loads(text, "vertical_mf.yaml")
    with pytest.raises(ConsentError, match="ids of bureau") as caught:
        require_fit(pipeline, SignedAccord(terms=terms), load_all(repository / "feature_specs"))
    assert all(word in caught.value.remedy for word in BOTH)
