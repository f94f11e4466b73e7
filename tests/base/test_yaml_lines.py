"""Every key of a YAML file has its line, also one that only its parent has."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from base.errors import SpecError
from base.yaml_lines import line_of, parse


@given(st.dictionaries(st.sampled_from("abc"), st.integers() | st.lists(st.integers(), max_size=3), max_size=3))
def test_every_key_has_its_line(document: dict[str, object]) -> None:
    text = yaml.safe_dump(document, default_flow_style=False)
    _, lines = parse(text, "x")
    for key in document:
        assert text.splitlines()[lines[(key,)] - 1].startswith(f"{key}:")


def test_a_missing_key_has_the_line_of_its_nearest_parent() -> None:
    _, lines = parse("a: 1\nb:\n  c:\n  - 2\n", "x")
    assert [line_of(lines, path) for path in (("b", "c", 0), ("b", "c", 7), ("b", "d"), ("e",))] == [4, 3, 2, 1]


def test_aliases_are_read_only_where_they_are_asked_for() -> None:
    text = "a: &x {b: 1}\nc: *x\n"
    document, lines = parse(text, "x", aliases=True)
    assert (document["c"], line_of(lines, ("c",))) == ({"b": 1}, 2)
    for wrong, more in ((text, {}), ("a: &x {b: *x}\n", {"aliases": True})):
        with pytest.raises(SpecError):
            parse(wrong, "x", **more)
