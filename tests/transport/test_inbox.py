import multiprocessing
import os
import signal
import threading
import time

import pytest

from base.errors import MessageRefused
from transport.inbox import DirectoryInbox
from transport.message import MessageKey

KEY = MessageKey("run-1", "train", 1, "part", "north", "bureau", 0)


@pytest.fixture
def inbox(tmp_path):
    return DirectoryInbox(tmp_path / "inbox")


def files(inbox):
    return sorted(path for path in inbox._root.rglob("*") if path.is_file())


def test_a_body_is_there_for_another_process(inbox):
    inbox.put(KEY, b"body")
    again = DirectoryInbox(inbox._root)
    assert again.get(KEY, 0) == b"body"
    assert again.get(KEY, 0) == b"body"


def test_a_second_put_changes_nothing(inbox):
    inbox.put(KEY, b"first")
    inbox.put(KEY, b"second")
    assert inbox.get(KEY, 0) == b"first"
    assert len(files(inbox)) == 1


def test_a_wait_ends_and_says_none(inbox):
    start = time.monotonic()
    assert inbox.get(KEY, 0.1) is None
    assert 0.08 < time.monotonic() - start < 60


def test_a_wait_sees_what_comes(inbox):
    timer = threading.Timer(0.1, inbox.put, (KEY, b"late"))
    timer.start()
    assert inbox.get(KEY, 5) == b"late"
    timer.join()


def test_files_are_for_the_node_alone(inbox):
    inbox.put(KEY, b"body")
    (path,) = files(inbox)
    assert path.stat().st_mode & 0o077 == 0
    assert path.relative_to(inbox._root).as_posix() == "run-1/train/1/part/north/bureau/0"
    assert inbox._root.stat().st_mode & 0o077 == 0


def test_an_attempt_that_is_over_is_removed_and_no_other(inbox):
    other = MessageKey("run-1", "train", 2, "part", "north", "bureau", 0)
    for key in (KEY, other):
        inbox.put(key, b"body")
    inbox.forget("run-1", "train", 1)
    assert inbox.get(KEY, 0) is None
    assert inbox.get(other, 0) == b"body"


@pytest.mark.parametrize("run", ["..", "/", "a/b", ".aside"])
def test_no_key_leaves_the_directory(inbox, run):
    with pytest.raises(MessageRefused):
        MessageKey(run, "train", 1, "part", "north", "bureau", 0)
    with pytest.raises(MessageRefused):
        inbox.forget(run, "train", 1)


def _write_forever(root):
    inbox = DirectoryInbox(root)
    for seq in range(10**6):
        inbox.put(MessageKey("run-1", "train", 1, "part", "north", "bureau", seq), bytes([seq % 256]) * 400_000)


def test_a_killed_writer_leaves_whole_messages_only(inbox):
    process = multiprocessing.get_context("spawn").Process(target=_write_forever, args=(inbox._root,))
    process.start()
    while inbox.get(KEY, 10) is None or len(files(inbox)) < 5:
        time.sleep(0.003)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    published = [path for path in files(inbox) if ".aside" not in path.parts]
    assert len(published) >= 4
    assert all(path.read_bytes() == bytes([int(path.name) % 256]) * 400_000 for path in published)
    (inbox._root / ".aside" / "left").write_bytes(b"half")
    inbox.sweep()  # a restart has ended the attempt that these were for
    assert files(inbox) == []
    inbox.put(KEY, b"of a new attempt")
    assert inbox.get(KEY, 1) == b"of a new attempt"


def test_no_body_waits_for_the_disk(inbox, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda number: pytest.fail("what a restart sweeps away was synced"))
    inbox.put(KEY, b"body")
    assert inbox.get(KEY, 0) == b"body"


@pytest.mark.parametrize("seconds", [0.001, 0.02, 0.3, 4.0])
def test_what_comes_is_seen_after_a_twentieth_of_the_wait(inbox, monkeypatch, seconds):
    now, naps = [100.0], []

    def sleep(pause):
        naps.append(pause)
        now[0] += pause
        if now[0] >= 100 + seconds and not inbox._root.joinpath(str(KEY)).exists():
            inbox.put(KEY, b"body")

    monkeypatch.setattr("transport.inbox.time.monotonic", lambda: now[0])
    monkeypatch.setattr("transport.inbox.time.sleep", sleep)
    assert inbox.get(KEY, 60) == b"body"
    assert now[0] - 100 <= max(1.06 * seconds, seconds + 0.0021)
    assert len(naps) < 20 + 100 * seconds**0.5  # a long wait does not keep a core busy
