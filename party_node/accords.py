"""The accords that this party has signed, and the keys that they make it trust."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from pathlib import Path

from base.errors import ConsentError
from crypto.node_keys import NodePublicKeys
from pipelines.accord import SignedAccord, read_accord
from runtime.keys import PartyKeys
from runtime.party import Home
from runtime.services import party_keys


class Accords:
    """Reads `accords/<name>.json` of one node; a changed file counts from the next call on.

    Implements `transport.signer.Signer`, so that a node need not restart when its parties sign another accord.
    """

    def __init__(self, home: Home) -> None:
        """Read below the home directory."""
        self._home = home
        self._cached: tuple[object, PartyKeys] | None = None

    def get(self, name: str) -> SignedAccord:
        """Return an accord that every party signed and that is in force today; `ConsentError` says what is missing."""
        accord = self.copy(name)
        accord.verify(datetime.now(UTC).date())
        if self._home.party not in accord.terms.parties:
            raise ConsentError("this party is not in the accord", found=name, party=self._home.party)
        return accord

    def copy(self, name: str) -> SignedAccord:
        """Return this party's copy as it is, in force or not; `ConsentError` when there is none."""
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", name):
            raise ConsentError("not the name of an accord", found=name[:64])
        return read_accord(self._path(name))

    def keys(self) -> PartyKeys:
        """Return the node's keys with the peers of every accord that all have signed, in force or not.

        Two keys for one party are refused.
        """
        paths = sorted(self._home.path("accords").glob("*.json"))
        version = [(path, path.stat().st_mtime_ns) for path in paths]
        if self._cached is None or self._cached[0] != version:
            self._cached = (version, party_keys(self._home, _trusted(paths)))
        return self._cached[1]

    @property
    def party(self) -> str:
        """The party whose accords and keys these are."""
        return self._home.party

    def sign(self, data: bytes) -> bytes:
        """See `transport.signer.Signer`."""
        return self.keys().sign(data)

    def verify(self, party: str, data: bytes, signature: bytes) -> None:
        """See `transport.signer.Signer`."""
        self.keys().verify(party, data, signature)

    def pair_key(self, party: str, run: str) -> bytes:
        """See `transport.signer.Signer`."""
        return self.keys().pair_key(party, run)

    def _path(self, name: str) -> Path:
        return self._home.path("accords", f"{name}.json")


def _trusted(paths: list[Path]) -> dict[str, NodePublicKeys]:
    peers: dict[str, NodePublicKeys] = {}
    for path in paths:
        accord = read_accord(path)
        accord.verify(date.fromisoformat(accord.terms.valid_from))
        for party, terms in accord.terms.parties.items():
            if peers.setdefault(party, terms.keys) != terms.keys:
                remedy = "renew the older accord with the party's present keys"
                raise ConsentError(f"two accords name different keys of {party}", where=str(path), remedy=remedy)
    return peers
