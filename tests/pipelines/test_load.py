"""A wrong YAML fails before anything runs, with file, line, key, expected and found."""

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.errors import AccordError, SpecError
from pipelines.load import loads

GOOD = textwrap.dedent("""\
    pipeline: nightly
    accord: demo
    seed: 7
    initiator: north_bank
    roles:
      data_holder: [north_bank, south_bank, west_bank]
      aggregator: [bureau]
    steps:
      load:
        component: load_tables
        params: {data_sets: {north_bank: [ratings], south_bank: [ratings], west_bank: [ratings]}}
      validate:
        component: validate_tables
        inputs: {tables: load.tables}
        params: {max_dropped: 0.05}
      encode:
        component: fit_statistics
        inputs: {tables: validate.tables}
        params: {table: ratings, column: rating}
    """)


def _fails(text: str) -> SpecError:
    with pytest.raises(SpecError) as caught:
        loads(text, "nightly.yaml")
    return caught.value


def test_a_good_pipeline_is_read() -> None:
    spec = loads(GOOD, "nightly.yaml").spec
    assert spec.parties == ("bureau", "north_bank", "south_bank", "west_bank")
    assert spec.upstream("encode") == ("validate",)
    assert spec.step_roles("encode")["aggregator"] == ("bureau",)


@pytest.mark.parametrize(
    ("old", "new", "line", "key", "expected", "found"),
    [
        ("seed: 7", "seed: seven", 3, "seed", "a whole number, at least 0", '"seven"'),
        ("seed: 7", "sed: 7", 3, "sed", "seed", "sed"),
        (": validate_tables", ": validate_table", 13, "component", "validate_tables", "validate_table"),
        ("  aggregator: [bureau]\n", "", 5, "roles", "at least 1", "0"),
        ("[north_bank, south_bank, west_bank]", "[north_bank, south_bank]", 6, "data_holder", "at least 3", "2"),
        ("west_bank]", "west_bank, north_bank]", 6, "roles.data_holder", "each party once", "north_bank"),
        ("[bureau]", "[west_bank]", 6, "roles.data_holder", "one role", "west_bank"),
        ("    params: {table", "    roles: {aggregator: [west_bank]}\n    params: {table", 19,
         "steps.encode.roles.aggregator", "one role", "west_bank"),
        ("max_dropped: 0.05", "max_droped: 0.05", 15, "max_droped", "max_dropped", "max_droped"),
        ("max_dropped: 0.05", "max_dropped: lots", 15, "max_dropped", "number", "lots"),
        ("max_dropped: 0.05", "max_dropped: 7", 15, "max_dropped", "a number, at least 0, at most 1", "7"),
        ("tables: load.tables", "table: load.tables", 14, "table", "tables", "table"),
        ("tables: load.tables", "tables: lod.tables", 14, "tables", "load", "lod"),
        ("tables: load.tables", "tables: load.table", 14, "tables", "tables", "table"),
        ("tables: load.tables", "tables: encode.statistics", 14, "tables", "load", "encode"),
        ("params: {table: ratings, column: rating}", "params: {table: ratings}", 19, "params", "column", "table"),
        ("initiator: north_bank", "initiator: east_bank", 4, "initiator", "north_bank", "east_bank"),
    ],
)  # fmt: skip
def test_an_error_names_line_key_expected_and_found(
    old: str, new: str, line: int, key: str, expected: str, found: str
) -> None:
    assert old in GOOD
    error = _fails(GOOD.replace(old, new))
    assert error.where is not None
    assert error.where.startswith(f"nightly.yaml:{line},")
    assert key in error.where
    assert expected in (error.expected or "")
    assert found in (error.found or "")


@pytest.mark.parametrize(
    ("text", "line"),
    [("a: 1\na: 2\n", 2), ("a: &x 1\nb: *x\n", 2), ("a: [1\nb: 2\n", 2), ("a: !!python/object:os.system x\n", 1)],
)
def test_yaml_that_could_surprise_is_refused(text: str, line: int) -> None:
    error = _fails(text)
    assert error.where is not None
    assert error.where.startswith("nightly.yaml")


def test_two_errors_are_found_one_after_the_other() -> None:
    assert "max_droped" in str(_fails(GOOD.replace("max_dropped", "max_droped").replace("rating}", "rating, x: 1}")))


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused_with_a_clear_error(text: str) -> None:
    error = None
    try:
        loads(text, "fuzz.yaml")
    except AccordError as found:
        error = found
    assert error is None or "fuzz.yaml" in str(error)
