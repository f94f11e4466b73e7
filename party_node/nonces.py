"""Nonces of tokens that have been used, in the node's database: a restart forgets none."""

from __future__ import annotations

import time

from sqlalchemy import delete

from party_node.database import Database, Nonce
from transport.token import replayed


class SqlNonceCache:
    """Implements `transport.token.NonceCache`."""

    def __init__(self, database: Database) -> None:
        """Keep the nonces in `database`."""
        self._database = database

    def spend(self, party: str, nonce: str, expires: int) -> None:
        """Remember (party, nonce) until `expires`; raise `PeerForeign` when it is known."""
        with self._database.write() as session:
            session.execute(delete(Nonce).where(Nonce.expires < time.time()))
            if session.get(Nonce, (party, nonce)) is not None:
                raise replayed(party)
            session.add(Nonce(party=party, nonce=nonce, expires=expires))
