import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.errors import DataError
from features import indexing
from features.indexing import aligned_ids, alignment_table, ids_digest, positions, sorted_ids


def test_positions_in_the_sorted_distinct_ids() -> None:
    column = pa.chunked_array([["b", "a"], ["c", "b"]])
    ids = sorted_ids(column)
    assert ids.to_pylist() == ["a", "b", "c"]
    assert positions(column, ids).tolist() == [1, 0, 2, 1]
    assert positions(pa.array(["z", "c"]), ids).tolist() == [-1, 2]


def test_aligned_ids_follow_the_index_at_both_parties() -> None:
    bank, bureau = pa.chunked_array([["c", "a", "b"]]), pa.chunked_array([["z", "b", "c", "b"]])
    at_bank = alignment_table(np.array([2, 1]), ids_digest(sorted_ids(bank)))
    at_bureau = alignment_table(np.array([1, 0]), ids_digest(sorted_ids(bureau)))  # of b, c, z
    at_bureau = at_bureau.take([1, 0])  # rows of the table in another order
    assert aligned_ids(bank, at_bank).to_pylist() == ["c", "b"]
    assert aligned_ids(bureau, at_bureau).to_pylist() == ["c", "b"]


def test_an_alignment_of_another_table_is_refused_instead_of_naming_other_people() -> None:
    column, other = pa.chunked_array([["d", "a", "b", "c", "a"]]), pa.chunked_array([["0", "a", "b", "c", "d"]])
    alignment = alignment_table(np.array([1, 3]), ids_digest(sorted_ids(column)))
    assert aligned_ids(column, alignment).to_pylist() == ["b", "d"]
    with pytest.raises(DataError, match="another table than was aligned") as refused:
        aligned_ids(other, alignment)
    assert refused.value.remedy
    assert not {"0", "a"} & set(str(refused.value).split())


def test_an_alignment_that_does_not_say_of_which_ids_it_is_is_refused() -> None:
    column = pa.chunked_array([["b", "a"]])
    alignment = alignment_table(np.array([1]), ids_digest(sorted_ids(column)))
    assert aligned_ids(column, alignment).to_pylist() == ["b"]
    with pytest.raises(DataError, match="does not say of which ids") as refused:
        aligned_ids(column, alignment.replace_schema_metadata({}))
    assert refused.value.remedy


@given(st.lists(st.text(max_size=2), max_size=6), st.lists(st.text(max_size=2), max_size=6))
def test_other_ids_have_another_digest(first: list[str], second: list[str]) -> None:
    digests = [ids_digest(pa.array(ids, pa.string())) for ids in (first, second)]
    assert (digests[0] == digests[1]) == (first == second)


def test_a_digest_is_the_same_in_any_layout_and_moves_with_its_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = pa.array(["x", "7", "ü", "", "12"], pa.string())
    assert ids_digest(ids.slice(1)) == ids_digest(ids.slice(1).cast(pa.large_string()))
    monkeypatch.setattr(indexing, "_SLICE", 2)
    parts = [pa.array(v, pa.string()) for v in (["a", "b", "c"], ["ab", "", "c"], ["a", "bc"])]
    assert len({ids_digest(part) for part in parts}) == 3
