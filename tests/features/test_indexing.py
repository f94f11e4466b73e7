import pyarrow as pa

from features.indexing import aligned_ids, positions, sorted_ids


def test_positions_in_the_sorted_distinct_ids() -> None:
    column = pa.chunked_array([["b", "a"], ["c", "b"]])
    ids = sorted_ids(column)
    assert ids.to_pylist() == ["a", "b", "c"]
    assert positions(column, ids).tolist() == [1, 0, 2, 1]
    assert positions(pa.array(["z", "c"]), ids).tolist() == [-1, 2]


def test_aligned_ids_follow_the_index_at_both_parties() -> None:
    bank, bureau = pa.chunked_array([["c", "a", "b"]]), pa.chunked_array([["z", "b", "c", "b"]])
    at_bank = pa.table({"row": [2, 1], "index": [0, 1]})
    at_bureau = pa.table({"row": [0, 1], "index": [1, 0]})  # rows of the other order; b, c, z
    assert aligned_ids(bank, at_bank).to_pylist() == ["c", "b"]
    assert aligned_ids(bureau, at_bureau).to_pylist() == ["c", "b"]
