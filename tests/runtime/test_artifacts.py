"""The content-addressed store."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from base.errors import StateError
from runtime.artifacts import Store, table_bytes

TABLE = pa.table({"a": pa.array([1, 2, 3], pa.int32())})
ARTEFACTS = [
    ("table", TABLE),
    ("bundle", {"x": TABLE, "y": TABLE.slice(1)}),
    ("arrays", {"Q": np.arange(6.0).reshape(2, 3), "mu": np.array(3.5)}),
    ("document", {"n": 3, "names": ["a"]}),
]


@pytest.mark.parametrize(("kind", "artefact"), ARTEFACTS)
def test_what_is_saved_comes_back(kind: str, artefact: object, tmp_path: Path) -> None:
    store = Store(tmp_path)
    ref = store.save(artefact)  # type: ignore[arg-type]
    back = store.load(ref)
    assert ref.kind == kind
    if kind == "arrays":
        assert all(np.array_equal(back[name], value) for name, value in artefact.items())  # type: ignore[attr-defined]
    else:
        assert back == artefact
    assert store.save(back) == ref


def test_chunks_do_not_change_a_table_s_name() -> None:
    assert table_bytes(pa.concat_tables([TABLE.slice(0, 1), TABLE.slice(1)])) == table_bytes(TABLE)


def test_changed_bytes_are_noticed(tmp_path: Path) -> None:
    store = Store(tmp_path)
    ref = store.save({"n": 1})
    next(tmp_path.glob("objects/*/*")).write_bytes(b'{"n":2}')
    with pytest.raises(StateError, match="changed"):
        store.load(ref)


def test_a_step_without_a_list_left_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    ref = store.save({"n": 1})
    assert store.read_outputs("run", "train") is None
    store.write_outputs("run", "train", 1, {"metrics": ref})
    assert store.read_outputs("run", "train") == {"metrics": ref}
