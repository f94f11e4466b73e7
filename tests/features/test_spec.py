from pathlib import Path

import pytest

from base.errors import SpecError
from features.spec import load, load_all

SPECS = Path(__file__).parents[2] / "feature_specs"
SMALL = """\
name: small
description: two columns
key: [user_id]
columns:
  user_id: {type: id, owner: [data_holder], sensitivity: sensitive, rule: {type: integer}}
  age:
    type: real
    owner: [data_holder]
    sensitivity: internal
"""


def write(folder: Path, text: str, name: str = "small") -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(text)
    return path


def test_the_shipped_specs_agree_on_ids() -> None:
    specs = load_all(SPECS)
    assert set(specs) == {"interaction", "item", "user"}
    assert specs["user"].columns["user_id"].rule == specs["interaction"].columns["user_id"].rule
    assert specs["item"].columns["item_id"].rule == specs["interaction"].columns["item_id"].rule
    assert specs["user"].encoded("one_hot") == ("sex", "occupation")
    assert len(specs["item"].encoded("shares")) == 19


def test_digest_follows_meaning_and_not_spelling(tmp_path: Path) -> None:
    spec = load(write(tmp_path, SMALL))
    assert spec.digest == load(write(tmp_path, SMALL.replace("key: [user_id]", "key:\n- user_id  # a comment"))).digest
    assert spec.digest != load(write(tmp_path, SMALL.replace("internal", "public"))).digest


REAL = "    type: real"
RULE = "rule: {type: integer}"
WRONG = [
    ("sensitivity: internal", "sensitivity: secret", 9, "columns.age.sensitivity", "'public', 'internal'", '"secret"',
     "features/spec.py lists"),
    ("sensitivity: internal", "sensitivity: intrnal", 9, "columns.age.sensitivity", "'internal'", '"intrnal"',
     "did you mean 'internal'?"),
    ("    sensitivity: internal", "    sensitivity: internal\n    bonds: 3", 10, "columns.age.bonds", "bounds", "bonds",
     "did you mean 'bounds'?"),
    ("description: two columns", "descripton: two columns", 2, "descripton", "description", "descripton",
     "did you mean 'description'?; 1 more in the file"),
    (RULE, "rule: {typ: integer}", 5, "columns.user_id.rule.typ", "type, nfkc, strip", "typ", "did you mean 'type'?"),
    (RULE, "rule: {type: phone}", 5, "columns.user_id.rule.region", "phone needs region", "nothing", "correct the key"),
    (RULE, "rule: {type: phone, region: UK}", 5, "columns.user_id.rule.region", "telephone numbers", '"UK"', "correct"),
    (RULE, "rule: {type: phone, region: de}", 5, "columns.user_id.rule.region", "match pattern", '"de"', "correct"),
    (RULE, "rule: {type: hashed, algorithm: sha25}", 5, "columns.user_id.rule.algorithm", "'sha256'", '"sha25"',
     "did you mean 'sha256'?"),
    (RULE, "rule: {type: email, case: upper}", 5, "columns.user_id.rule.case", "keep or lower", '"upper"', "correct"),
    (RULE, "rule: {width: 7}", 5, "columns.user_id.rule.width", "width belongs to integer", "7", "correct the key"),
    (RULE, "rule: text", 5, "columns.user_id.rule", "a mapping of keys", '"text"', "correct the key"),
    (REAL, "    type: real\n    rule: {type: text}", 8, "columns.age.rule", "rule belongs to", "a mapping", "correct"),
    ("key: [user_id]", "key: [person]", 3, "key", "key must name columns", "a list", "correct the key"),
    (f", {RULE}", "", 5, "columns.user_id.rule", "an id needs a rule", "nothing", "correct the key"),
    (REAL, "    type: real\n    bounds: [3, 1]", 8, "columns.age.bounds", "low to high", "a list", "correct the key"),
    (REAL, "    type: real\n    on_invalid: 'null'", 8, "columns.age.on_invalid", "on_null: keep", '"null"', "correct"),
    (REAL, "    type: real\n    encoder: one_hot", 8, "columns.age.encoder", "one_hot needs", '"one_hot"', "correct"),
    (REAL, "    type: category\n    values: [1]", 8, "columns.age.values.0", "a valid string", "a number", "correct"),
    (f"{REAL}\n", "", 6, "columns.age.type", "this key", "nothing", "correct the key"),
    ("  age:", "  Age:", 6, "columns.Age", "match pattern", '"Age"', "correct the key"),
    ("description: two columns", "description: two\ndescription: columns", 3, "description", "each key once",
     "line 2", "leave one"),
    ("description: two columns", "description: [", 4, None, "YAML", "expected", "brackets"),
    ("name: small", "name: other", 1, "name", "small", "other", "name: small"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "line", "key", "expected", "found", "remedy"), WRONG)
def test_a_wrong_spec_is_told_file_line_key_expected_found_and_remedy(
    tmp_path: Path, old: str, new: str, line: int, key: str | None, expected: str, found: str, remedy: str
) -> None:
    assert SMALL.count(old) == 1
    path = write(tmp_path, SMALL.replace(old, new))
    with pytest.raises(SpecError) as caught:
        load(path)
    error = caught.value
    assert error.where == f"{path}:{line}" + (f", key {key}" if key else "")
    assert expected in (error.expected or "")
    assert found in (error.found or "")
    assert remedy in (error.remedy or "")


@pytest.mark.parametrize("text", ["", "a text", "[1, 2]", "{}"])
def test_a_file_without_a_spec_is_told_its_path(tmp_path: Path, text: str) -> None:
    with pytest.raises(SpecError) as caught:
        load(write(tmp_path, text))
    assert (caught.value.where or "").startswith(f"{tmp_path}/small.yaml:1, key ")
    assert all((caught.value.expected, caught.value.found, caught.value.remedy))


@pytest.mark.parametrize("found", ["FileNotFoundError", "UnicodeDecodeError", "IsADirectoryError"])
def test_a_file_that_cannot_be_read_is_told_its_path(tmp_path: Path, found: str) -> None:
    path = tmp_path / "small.yaml"
    if found == "UnicodeDecodeError":
        path.write_bytes(b"name: \xff\xfe")
    if found == "IsADirectoryError":
        path.mkdir()
    with pytest.raises(SpecError, match="cannot be read") as caught:
        load(path)
    assert str(path) in (caught.value.where or "")
    assert caught.value.found == found
    assert all((caught.value.expected, caught.value.remedy))


@pytest.mark.parametrize(
    "key", ["values: [{0}, [{0}]]", "values: {0}", "rule: {{nulls: [[{0}]]}}", "rule: {{nulls: {0}}}"]
)
def test_an_error_never_says_what_stands_in_the_data(tmp_path: Path, key: str) -> None:
    """Allowed values and spellings of nulls are values of the data."""
    text = SMALL.replace(REAL, "    type: category\n    " + key.format("canary"))
    with pytest.raises(SpecError) as caught:
        load(write(tmp_path, text))
    assert "canary" not in str(caught.value)


def test_the_file_is_named_as_the_spec(tmp_path: Path) -> None:
    path = write(tmp_path, SMALL, "other")
    with pytest.raises(SpecError, match="not named as its file") as caught:
        load_all(tmp_path)
    assert caught.value.where == f"{path}:1, key name"
    assert "rename the file to small.yaml" in (caught.value.remedy or "")
