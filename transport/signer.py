"""The node's keys as transport uses them: a protocol that `party_node` implements."""

from __future__ import annotations

from typing import Protocol


class Signer(Protocol):
    """The node's keys as transport uses them."""

    @property
    def party(self) -> str:
        """The party whose keys these are."""

    def sign(self, data: bytes) -> bytes:
        """Sign with the party's Ed25519 key (64 bytes)."""

    def verify(self, party: str, data: bytes, signature: bytes) -> None:
        """Raise `PeerForeign` unless `party` signed `data`."""

    def pair_key(self, party: str, run: str) -> bytes:
        """Return the secret that only this party and `party` share in `run` (32 bytes, the same at both ends)."""
