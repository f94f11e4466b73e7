"""What a step spills is private, and gone when the attempt has ended."""

import stat
from dataclasses import dataclass
from types import MappingProxyType

import pyarrow as pa
import pytest

from base.errors import DataError
from components.contract import Component, Params
from runtime import execute as runtime_execute
from runtime.artifacts import Store
from runtime.context import Services
from runtime.execute import StepTask, execute
from runtime.spill import Spill


@dataclass
class _Fails:
    """A step that spills, leaves a file in each of two folders and may fail."""

    error: BaseException | None = None

    def __call__(self, ctx, params):
        first, second = ctx.spill(), ctx.spill()
        self.seen = (first, second)
        self.modes = [stat.S_IMODE(path.stat().st_mode) for path in (first, second, first.parent)]
        self.was_empty = first != second and not list(first.iterdir()) and not list(second.iterdir())
        for path in self.seen:
            (path / "points").write_bytes(b"half a million points")
        if self.error:
            raise self.error
        return {"report": {"spilled": 2}}


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a function as attempt n of step `align`: `run(function, n)`."""
    services = Services(None, b"s" * 32, None, None, None)

    def one(function, attempt=1, step="align"):
        part = Component("spills", {"sender": function}, Params, outputs={"report": "counts"})
        monkeypatch.setattr(runtime_execute, "component", MappingProxyType({"spills": part}).__getitem__)
        task = StepTask("run", "test", step, attempt, 1, "spills", {}, {}, {"sender": ("bureau",)}, "bureau")
        return execute(task, Store(tmp_path / "store"), services, None, None)

    return one


def _left(tmp_path):
    return [path for path in (tmp_path / "store").rglob("*") if path.name == "points"]


def test_folders_are_private_empty_and_gone_at_the_end(run, tmp_path):
    step = _Fails()
    assert list(run(step)) == ["report"]
    assert step.was_empty
    assert step.modes == [0o700] * 3
    assert all(tmp_path in path.parents for path in step.seen)
    assert not any(path.exists() for path in step.seen)
    assert _left(tmp_path) == []


@pytest.mark.parametrize("error", [DataError("too few"), RuntimeError("a defect"), KeyboardInterrupt()])
def test_folders_are_gone_after_an_error_which_is_the_one_that_is_told(run, tmp_path, error):
    with pytest.raises(type(error)) as caught:
        run(_Fails(error))
    assert caught.value is error
    assert _left(tmp_path) == []


def test_the_next_attempt_removes_what_a_killed_worker_left_of_this_step_alone(run, tmp_path):
    for step in ("align", "train"):
        left = Spill(tmp_path / "store" / "spill" / "run" / step).folder()  # a kill: no end
        (left / "points").write_bytes(b"a killed worker's")

    def looks(ctx, params):
        return {"report": {"found": len(list(ctx.spill().parent.rglob("points")))}}

    found = Store(tmp_path / "store").load(run(looks, attempt=2)["report"])
    assert found == {"found": 0}
    assert [path.parents[1].name for path in _left(tmp_path)] == ["train"]


def test_a_step_that_spills_nothing_leaves_no_folder(run, tmp_path):
    run(lambda ctx, params: {"report": pa.table({"n": [1]})})
    assert not (tmp_path / "store" / "spill").exists()
