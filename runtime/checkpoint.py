"""Checkpoints of one step at one party: the state after a round, as safetensors.

Parties resume at the highest round that ALL of them hold; the node agrees on it before an attempt starts.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from base.files import write_whole
from components.contract import Arrays
from runtime.artifacts import arrays_bytes


class FileCheckpoint:
    """Checkpoints below one directory (`run/step`)."""

    def __init__(self, directory: Path, agreed: int | None = None) -> None:
        """Resume at round `agreed`, or at the beginning when it is None."""
        self.directory = directory
        self.agreed = agreed

    def rounds(self) -> list[int]:
        """Return the rounds that can be resumed, ascending."""
        return sorted(int(path.stem) for path in self.directory.glob("[0-9]*.safetensors"))

    def resume(self) -> tuple[int, dict[str, np.ndarray]] | None:
        """Return (round, state) of the agreed checkpoint, or None."""
        if self.agreed is None:
            return None
        return self.agreed, load_file(self.directory / f"{self.agreed}.safetensors")

    def save(self, round_number: int, state: Arrays) -> None:
        """Keep the state after a round and the one before; forget the others, also later ones of an ended attempt."""
        write_whole(self.directory / f"{round_number}.safetensors", arrays_bytes(state), lasting=True)
        kept = [each for each in self.rounds() if each <= round_number][-2:]
        for old in set(self.rounds()) - set(kept):
            (self.directory / f"{old}.safetensors").unlink(missing_ok=True)
