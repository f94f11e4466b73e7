"""Three kinds of randomness that are never mixed (protocols.md §0).

`shared` makes public choices and is the same at every party of a run. `private` makes choices that a peer must not
predict; it comes from a secret of the party, so the same run seed gives the same model again. `secret_bytes` is the
operating system's generator; nothing seeds it and nothing keeps what it gave.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, repr=False)
class Randomness:
    """The streams of one step at one party."""

    seed: int  # of the run
    scope: str  # pipeline/step
    party_secret: bytes

    def shared(self, name: str) -> np.random.Generator:
        """Return the public stream `name`."""
        return _generator(hashlib.sha256(self._label("shared", name)).digest())

    def private(self, name: str) -> np.random.Generator:
        """Return the party's own stream `name`."""
        return _generator(hmac.digest(self.party_secret, self._label("private", name), "sha256"))

    def secret_bytes(self, n: int) -> bytes:
        """Return `n` bytes that nobody can have again."""
        return secrets.token_bytes(n)

    def _label(self, kind: str, name: str) -> bytes:
        return f"accord/1/{kind}/{self.seed}/{self.scope}/{name}".encode()


def _generator(key: bytes) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=int.from_bytes(key[:16], "big")))
