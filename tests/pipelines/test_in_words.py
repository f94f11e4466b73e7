"""What is wrong in a pipeline or in terms is said in plain words, with line, found and remedy."""

import datetime
import json

import pytest
import yaml

from base.errors import SpecError
from base.yaml_lines import line_of, parse
from components.registry import catalogue
from pipelines.accord import AccordTerms, check_conditions
from pipelines.in_words import FORMS, asked, how_to_write, value_in_words
from pipelines.spec import PipelineSpec

MAPPING = {"type": "object", "by_party": True, "additionalProperties": {"table_in": "tables", "type": "string"}}
LISTS = {"type": "object", "by_party": True, "additionalProperties": {"type": "array", "items": {"type": "string"}}}
NAMES = {"type": "array", "items": {"type": "string"}, "default": []}
CHOICE = {"enum": ["refuse", "first", "all"], "type": "string", "default": "refuse"}
COUNT = {"type": "integer", "minimum": 1, "default": 1024}
LABEL = {"type": "string", "pattern": "^[a-z0-9_-]{0,32}$", "default": ""}
WORDS = [
    (MAPPING, "customers", "a mapping PARTY: TABLE", '"customers"', "write it: {PARTY: TABLE}"),
    (LISTS, ["t"], "a mapping PARTY: [NAME, ...]", "a list", "write it: {PARTY: [NAME, ...]}"),
    (NAMES, "north_bank", "a list of names", '"north_bank"', "put it in brackets: it: [north_bank]"),
    (CHOICE, "frist", "one of refuse, first, all", '"frist"', "did you mean 'first'?"),
    (CHOICE, 7, "one of refuse, first, all", "7", 'put it in quotes: it: "7"'),
    (COUNT, "2048", "a whole number, at least 1", '"2048"', "without quotes: it: 2048"),
    (COUNT, 0, "a whole number, at least 1", "0", "write such a value, or leave it out: then it is 1024"),
    (LABEL, 2027, "a label of small letters, digits, _ and -, at most 32", "2027", 'put it in quotes: it: "2027"'),
    ({"type": "boolean", "default": False}, "ja", "true or false", '"ja"',
     "write such a value, or leave it out: then it is false"),
    ({"anyOf": [{"type": "number"}, {"type": "null"}]}, "x", "a number or nothing", '"x"', "write such a value for it"),
    ({"type": "array", "items": {"type": "integer"}, "minItems": 1}, {}, "a list of whole numbers, at least one",
     "a mapping", "write such a value for it"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "value", "expected", "found", "remedy"), WORDS)
def test_a_schema_in_words(schema, value, expected, found, remedy):
    assert (asked(schema), value_in_words(value)) == (expected, found)
    assert how_to_write(("params", "it"), schema, value) == remedy


def _patterns(schema):
    if isinstance(schema, dict):
        yield from [schema["pattern"]] if isinstance(schema.get("pattern"), str) else []
        yield from (key for key in schema.get("patternProperties", {}))
        schema = list(schema.values())
    for part in schema if isinstance(schema, list) else []:
        yield from _patterns(part)


def test_every_pattern_that_may_be_asked_for_has_words():
    schemas = [entry["params"] for entry in catalogue().values()]
    schemas += [model.model_json_schema() for model in (PipelineSpec, AccordTerms)]
    assert {pattern for schema in schemas for pattern in _patterns(schema)} == set(FORMS)


def test_every_parameter_has_words_without_the_language_of_schemas():
    for entry in catalogue().values():
        for schema in entry["params"].get("properties", {}).values():
            assert asked(schema)
            assert not {"object", "array", "integer", "boolean", "{'", "enum"} & set(asked(schema).split())


TERMS = """\
accord: customers
purpose: Which customers of the bank does the bureau know?
legal_basis: named here
valid_from: "2026-01-01"
valid_until: "2036-12-31"
parties:
  north_bank: {customers: {spec: customer}}
  bureau: {contacts: {spec: customer}}
components: {align_ecdh: 1}
max_runs: 4
learns_alignment: [north_bank]
"""
WRONG = [
    ("purpose: Which customers of the bank does the bureau know?", "purpose: Test", 2, "purpose",
     "text of at least 10 characters", '"Test"', "write such a value for purpose"),
    ('"2026-01-01"', "2026-01-01", 4, "valid_from", 'a day in quotes, as "2026-01-31"',
     "2026-01-01, which without quotes is no text", 'put it in quotes: valid_from: "2026-01-01"'),
    ("[north_bank]", "north_bank", 11, "learns_alignment", "a list of names", '"north_bank"',
     "put it in brackets: learns_alignment: [north_bank]"),
    ("max_runs: 4\n", "", 1, "max_runs", "max_runs: a whole number, at least 1", "nothing", "add max_runs: ..."),
    ("max_runs", "maxruns", 10, "maxruns", "max_runs", "maxruns", "did you mean 'max_runs'?"),
    ("{contacts: {spec: customer}}", "{contacts: {spec: Customer}}", 8, "parties.bureau.contacts.spec",
     "a name of small letters", '"Customer"', "write such a value for spec"),
    ("{contacts: {spec: customer}}", "{contacts: customer}", 8, "parties.bureau.contacts", "a mapping of spec, digest",
     '"customer"', "write contacts: {spec: ...}"),
    ("  bureau:", "  Bureau:", 8, "parties.Bureau", "a name of small letters", '"Bureau"', "another name here"),
    ("{align_ecdh: 1}", "[align_ecdh]", 9, "components", "a mapping NAME: NUMBER", "a list",
     "write components: {NAME: NUMBER}"),
]  # fmt: skip


def _at(text):
    lines = parse(text, "terms.yaml")[1]
    return lambda key: f"terms.yaml:{line_of(lines, key)}, key {'.'.join(map(str, key))}"


def test_good_terms_are_good():
    check_conditions(yaml.safe_load(TERMS), _at(TERMS))


@pytest.mark.parametrize(("old", "new", "line", "key", "expected", "found", "remedy"), WRONG)
def test_wrong_terms_are_told_with_line_found_and_remedy(old, new, line, key, expected, found, remedy):
    assert TERMS.count(old) == 1
    text = TERMS.replace(old, new)
    with pytest.raises(SpecError) as caught:
        check_conditions(yaml.safe_load(text), _at(text))
    error = caught.value
    assert error.where == f"terms.yaml:{line}, key {key}"
    assert expected in error.expected
    assert error.found == found
    assert error.remedy.startswith(remedy)


@pytest.mark.parametrize("value", [b"\xff", {1, 2}, datetime.datetime(2026, 1, 1), float("nan"), "é" * 300])
def test_any_value_that_yaml_can_hold_has_words(value):
    assert 0 < len(value_in_words(value)) <= 80
    json.dumps(value_in_words(value))
