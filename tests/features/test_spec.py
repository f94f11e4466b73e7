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


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("sensitivity: internal", "sensitivity: secret", 9, "'public', 'internal' or 'sensitive'"),
        ("    sensitivity: internal", "    sensitivity: internal\n    widht: 3", 10, "Extra inputs"),
        ("type: real", "type: real\n    rule: {type: text}", 6, "rule belongs to"),
        ("key: [user_id]", "key: [person]", 1, "key must name columns"),
        (", rule: {type: integer}", "", 5, "an id needs a rule"),
        ("type: real", "type: real\n    bounds: [3, 1]", 6, "low to high"),
        ("type: real", "type: real\n    on_invalid: 'null'", 6, "on_null: keep"),
        ("type: real", "type: real\n    encoder: one_hot", 6, "one_hot needs category"),
        ("description: two columns", "description: two\ndescription: columns", 3, "stands twice"),
        ("description: two columns", "description: [", 4, "not valid YAML"),
    ],
)
def test_a_wrong_spec_is_refused_with_its_line(tmp_path: Path, old: str, new: str, line: int, says: str) -> None:
    assert old in SMALL
    with pytest.raises(SpecError) as caught:
        load(write(tmp_path, SMALL.replace(old, new)))
    assert f"small.yaml:{line}" in str(caught.value)
    assert says in str(caught.value)


def test_the_file_is_named_as_the_spec(tmp_path: Path) -> None:
    write(tmp_path, SMALL, "other")
    with pytest.raises(SpecError, match="not named as its file"):
        load_all(tmp_path)
