"""A party's keys, as components (`Keys`) and transport (`Signer`) may use them."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

from base.errors import CryptoError, PeerForeign
from base.files import write_once
from crypto.node_keys import NodeKeys, NodePublicKeys

SECRET_BYTES = 32


class PartyKeys:
    """Signs, seals and keeps long-lived secrets; trusts exactly the peers' keys that the signed accord carries."""

    def __init__(self, party: str, own: NodeKeys, peers: Mapping[str, NodePublicKeys], folder: Path) -> None:
        """Keep long-lived secrets below `folder` (0700)."""
        self.party = party
        self._own = own
        self._peers = dict(peers)
        self._folder = folder

    def sign(self, data: bytes) -> bytes:
        """Sign with the party's Ed25519 key."""
        return self._own.sign(data)

    def verify(self, party: str, data: bytes, signature: bytes) -> None:
        """Raise `PeerForeign` unless `party` signed `data`."""
        self._peer(party).verify(party, data, signature)

    def pair_key(self, party: str, run: str) -> bytes:
        """Return the secret that only this party and `party` share in `run`."""
        return self._own.pair_key(self._peer(party), run)

    def wrap(self, party: str, secret: bytes, context: bytes) -> bytes:
        """Seal a secret for `party`."""
        return self._own.wrap(self._peer(party), secret, context)

    def unwrap(self, party: str, sealed: bytes, context: bytes) -> bytes:
        """Open what `party` sealed for this node."""
        return self._own.unwrap(self._peer(party), sealed, context)

    def keep(self, name: str, make: Callable[[], bytes]) -> bytes:
        """Return the long-lived secret `name`, made on first use; of two that make it at once, both get the first."""
        if not re.fullmatch(r"[a-z0-9][a-z0-9_.-]{0,127}", name) or ".." in name:
            raise CryptoError("not a name of a secret", expected="small letters, digits, _ . -")
        path = self._folder / name
        if not path.exists():
            write_once(path, make())
        return path.read_bytes()

    def _peer(self, party: str) -> NodePublicKeys:
        if party not in self._peers:
            raise PeerForeign("the accord names no such party", expected=", ".join(sorted(self._peers)), found=party)
        return self._peers[party]


def party_secret(keys_folder: Path) -> bytes:
    """Return the secret that seeds the party's private streams, made on first use."""
    path = keys_folder / "party.secret"
    if not path.exists():
        write_once(path, secrets.token_bytes(SECRET_BYTES))
    return path.read_bytes()
