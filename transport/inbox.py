"""The node's inbox: accepted bodies as files, written by the service, read by the worker of the step.

A file appears whole or not at all (written aside, renamed), so `kill -9` at any moment leaves no half message. It is
not synced: what a machine loses with its power is of an attempt that is over, and `sweep` removes it at the next start.
Files stay until the attempt is over: a worker that dies reads nothing twice, because the next attempt has other keys.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from uuid import uuid4

from transport.message import MessageKey, check_names

_ASIDE = ".aside"  # no part of a key starts with a dot


class DirectoryInbox:
    """Files `<root>/<run>/<step>/<attempt>/<name>/<sender>/<receiver>/<seq>`: one writing process, many readers."""

    def __init__(self, root: Path) -> None:
        """Use `root`, made when it does not exist (mode 0700)."""
        self._root = root
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        (root / _ASIDE).mkdir(mode=0o700, exist_ok=True)

    def put(self, key: MessageKey, body: bytes) -> None:
        """See `door.Inbox`."""
        path = self._root / str(key)
        if path.exists():
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = self._root / _ASIDE / uuid4().hex
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(body)
        aside.replace(path)

    def get(self, key: MessageKey, patience: float) -> bytes | None:
        """See `door.Inbox`."""
        path = self._root / str(key)
        start = time.monotonic()
        while not path.exists():
            waited = time.monotonic() - start
            if waited >= patience:
                return None
            # What comes is seen after a twentieth of the wait at most: a round of training has several waits.
            time.sleep(min(max(0.002, waited / 20), patience - waited))
        return path.read_bytes()

    def forget(self, run: str, step: str, attempt: int) -> None:
        """Remove what came for an attempt that is over."""
        check_names(run, step)
        shutil.rmtree(self._root / run / step / str(attempt), ignore_errors=True)

    def sweep(self) -> None:
        """Remove everything; the service calls it before it listens: a restart of the node has ended every attempt."""
        for left in self._root.iterdir():
            shutil.rmtree(left)
        (self._root / _ASIDE).mkdir(mode=0o700)
