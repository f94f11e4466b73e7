"""Files that are whole or absent, and secrets that only their owner can read."""

from __future__ import annotations

import errno
import os
import uuid
from pathlib import Path

from base.errors import EnvironmentMissing

_REFUSALS = frozenset(
    (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.EFBIG, errno.EMFILE,
     errno.ENFILE, errno.ENAMETOOLONG)
)  # fmt: skip


def write_whole(
    path: Path, data: bytes | bytearray, *, private: bool = False, lasting: bool = False, drafts_in: Path | None = None
) -> None:
    """Write by rename, so that a reader sees all of a file or none; a private file has mode 0600 in a 0700 folder.

    Private and `lasting` files are on the disk when this returns: nothing that is sent afterwards can know of them and
    a machine that lost its power not. `drafts_in` is a folder of the same file system for what is not whole yet.
    `EnvironmentMissing` when the machine refuses; the former file is there then, as it was.
    """
    try:
        draft = _draft(path, data, private, private or lasting, drafts_in or path.parent)
        try:
            os.replace(draft, path)
        except OSError:
            draft.unlink()
            raise
        if private or lasting:
            sync_folder(path.parent)
    except OSError as error:
        raise refused(error, path) from error


def write_once(path: Path, data: bytes) -> bool:
    """Write a private file unless it is there, whole and in one step; tell whether this call wrote it."""
    try:
        draft = _draft(path, data, private=True, lasting=True, folder=path.parent)
        try:
            os.link(draft, path)
            sync_folder(path.parent)
        except FileExistsError:
            return False
        finally:
            draft.unlink()
    except OSError as error:
        raise refused(error, path) from error
    return True


def drafts(path: Path, folder: Path) -> list[Path]:
    """Return what killed writers of `path` left behind in their folder of drafts, and what a living one is writing."""
    return list(folder.glob(f".{path.name}.{'[0-9a-f]' * 32}"))


def refused(error: OSError, place: object) -> EnvironmentMissing:
    """Return what a person reads when the machine refuses a file: the system's own word, and where.

    The text of `error` is not taken over: a library may have written anything into it.
    """
    reason = os.strerror(error.errno) if error.errno else type(error).__name__
    return EnvironmentMissing(
        "the machine refused to read or write a file", expected="room on the disk, and the right to it", found=reason,
        where=str(place), remedy="make room or give the right, then try the step again: nothing is lost",
    )  # fmt: skip


def refusal(error: BaseException, place: object) -> EnvironmentMissing | None:
    """Return a foreign error as `refused` does when the machine refused a file, else None.

    Spark brings no number from its processes, so a full disk is known by the system's word for it.
    """
    number = error.errno if isinstance(error, OSError) else None
    if number is None and os.strerror(errno.ENOSPC) in str(error):
        number = errno.ENOSPC
    return refused(OSError(number, ""), place) if number in _REFUSALS else None


def _draft(path: Path, data: bytes | bytearray, private: bool, lasting: bool, folder: Path) -> Path:
    for needed in (path.parent, folder):
        missing = [each for each in (needed, *needed.parents) if not each.exists()]
        for each in reversed(missing):  # `parents=True` would give all but the last the usual mode
            each.mkdir(exist_ok=True, mode=0o700 if private else 0o777)
    draft = folder / f".{path.name}.{uuid.uuid4().hex}"
    file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o644)
    try:
        left = memoryview(data)
        while left:  # one call writes 2 GB at most
            left = left[os.write(file, left) :]
        if lasting:
            os.fsync(file)
    except OSError:  # a full disk: half a file would stay in the way of the next
        draft.unlink()
        raise
    finally:
        os.close(file)
    return draft


def sync_folder(folder: Path) -> None:
    """Put the name on the disk too: without it a file that is safe can be found nowhere."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
