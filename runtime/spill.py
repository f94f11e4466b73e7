"""Folders on disk for what an attempt of a step cannot hold in memory; no other attempt sees them.

They hold what the step works on, unsealed: so they are the node's alone (0700) and end with the attempt.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from types import TracebackType


class Spill:
    """The folders of one attempt, below `root`: one root a step of a run, so that a killed worker's are found."""

    def __init__(self, root: Path) -> None:
        """Use `root`; nothing is written before the first `folder`."""
        self._root = root

    def __enter__(self) -> Spill:
        """Remove what a killed attempt of the same step left behind."""
        self._remove()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove everything, also after an error."""
        self._remove()

    def folder(self) -> Path:
        """Return a new, empty folder (0700)."""
        self._root.mkdir(parents=True, exist_ok=True, mode=0o700)
        return Path(tempfile.mkdtemp(dir=self._root))

    def _remove(self) -> None:
        if self._root.exists():
            shutil.rmtree(self._root)
