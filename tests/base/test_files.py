"""A file is whole or absent."""

import stat
from pathlib import Path

import pytest

from base.files import write_whole


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
