"""A file is whole or absent, and a machine that refuses one says why."""

import errno
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from base.errors import EnvironmentMissing
from base.files import refusal, write_once, write_whole


def test_private_files_are_closed_to_others(tmp_path: Path) -> None:
    path = tmp_path / "secrets" / "deeper" / "key"
    write_whole(path, b"k", private=True, drafts_in=tmp_path / "secrets" / "deeper" / "drafts" / "deep")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    folders = [each for each in (tmp_path / "secrets", *(tmp_path / "secrets").rglob("*")) if each.is_dir()]
    assert [stat.S_IMODE(each.stat().st_mode) for each in folders] == [0o700] * 4


def full(*_):
    raise OSError(errno.ENOSPC, "the id C0000007 did not fit")


@pytest.mark.parametrize("call", ["write", "replace", "fsync", "open"])
@pytest.mark.parametrize("private", [False, True])
def test_a_full_disk_leaves_the_old_file_and_no_half_one_and_says_so(tmp_path, monkeypatch, call, private):
    path = tmp_path / "store" / "file"
    write_whole(path, b"old", private=private, lasting=True)
    with monkeypatch.context() as patch:
        patch.setattr(os, call, full)
        with pytest.raises(EnvironmentMissing) as caught:
            write_whole(path, b"new", private=private, lasting=True)
    text = str(caught.value)
    assert "No space left on device" in text
    assert str(path) in text
    assert "make room" in text
    assert "C0000007" not in text
    assert path.read_bytes() == b"old"
    assert list(path.parent.iterdir()) == [path]
    write_whole(path, b"new", private=private, lasting=True)
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("call", ["write", "fsync", "link"])
def test_a_full_disk_leaves_nothing_of_what_is_written_once(tmp_path, monkeypatch, call):
    path = tmp_path / "key"
    with monkeypatch.context() as patch:
        patch.setattr(os, call, full)
        with pytest.raises(EnvironmentMissing, match="No space left on device"):
            write_once(path, b"k")
    assert list(tmp_path.iterdir()) == []
    assert write_once(path, b"k")


def test_a_disk_that_takes_a_part_at_a_time_gets_all(tmp_path, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:7]))
    write_whole(tmp_path / "file", bytes(range(200)))
    assert (tmp_path / "file").read_bytes() == bytes(range(200))


@pytest.mark.parametrize(
    ("how", "synced"), [({}, []), ({"lasting": True}, [False, True]), ({"private": True}, [False, True])]
)
def test_what_lasts_is_on_the_disk_before_its_name_is_and_its_name_before_the_end(tmp_path, monkeypatch, how, synced):
    seen = []
    monkeypatch.setattr(os, "fsync", lambda file: seen.append((stat.S_ISDIR(os.fstat(file).st_mode), path.exists())))
    path = tmp_path / "file"
    write_whole(path, b"data", **how)
    assert seen == [(named, named) for named in synced]


def test_a_foreign_error_of_a_full_disk_is_told_from_others():
    spark = RuntimeError("PythonException: C0000007 [Errno 28] No space left on device")
    for error in (OSError(errno.ENOSPC, "C0000007"), spark):
        told = refusal(error, "spill")
        assert "No space left on device" in str(told)
        assert "spill" in str(told)
        assert "C0000007" not in str(told)
    for error in (ValueError("no"), ConnectionRefusedError(errno.ECONNREFUSED, "no"), OSError("no")):
        assert refusal(error, "spill") is None


def test_of_many_that_write_once_one_does_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "new" / "key"
    with ThreadPoolExecutor(8) as pool:
        wrote = list(pool.map(lambda n: write_once(path, bytes([n]) * 1000), range(32)))
    assert wrote.count(True) == 1
    assert path.read_bytes() == bytes([wrote.index(True)]) * 1000
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(path.parent.iterdir()) == [path]
