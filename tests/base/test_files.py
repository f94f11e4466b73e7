"""A file is whole or absent."""

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from base.files import write_once, write_whole


def test_private_files_are_closed_to_others(tmp_path: Path) -> None:
    path = tmp_path / "secrets" / "key"
    write_whole(path, b"k", private=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_whole(path, b"old")
    monkeypatch.setattr("base.files.os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"


def test_of_many_that_write_once_one_does_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "new" / "key"
    with ThreadPoolExecutor(8) as pool:
        wrote = list(pool.map(lambda n: write_once(path, bytes([n]) * 1000), range(32)))
    assert wrote.count(True) == 1
    assert path.read_bytes() == bytes([wrote.index(True)]) * 1000
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(path.parent.iterdir()) == [path]
