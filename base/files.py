"""Files that are whole or absent, and secrets that only their owner can read."""

from __future__ import annotations

import os
import uuid
from pathlib import Path


def write_whole(path: Path, data: bytes | bytearray, *, private: bool = False) -> None:
    """Write by rename, so that a reader sees all of a file or none; a private file has mode 0600 in a 0700 folder."""
    os.replace(_draft(path, data, private), path)


def write_once(path: Path, data: bytes) -> bool:
    """Write a private file unless it is there, whole and in one step; tell whether this call wrote it."""
    draft = _draft(path, data, private=True)
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    return True


def drafts(path: Path) -> list[Path]:
    """Return what killed writers of `path` left behind, and what a living one is writing."""
    return list(path.parent.glob(f".{path.name}.{'[0-9a-f]' * 32}"))


def _draft(path: Path, data: bytes | bytearray, private: bool) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700 if private else 0o777)
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o644), "wb") as file:
        try:
            file.write(data)
            if private:  # a lost key cannot be made again
                file.flush()
                os.fsync(file.fileno())
        except OSError:  # a full disk: half a file would stay in the way of the next
            draft.unlink()
            raise
    return draft
