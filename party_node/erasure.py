"""Erasing what alignments keep at this node for a peer, and with it what tests for a person.

One person cannot be taken out of it. What tests for somebody is a signature under the sender's key, and whoever has the
signature goes on testing as long as the key lives: so the key goes, and the next run signs all ids under a fresh one.
What was counted stays counted, else an erasure would give the peer its tests back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog

from base.errors import ConsentError
from base.near import did_you_mean
from party_node.accords import Accords
from party_node.attempts import Attempts
from party_node.policy import Caller
from runtime.keys import PartyKeys
from runtime.party import Home
from runtime.services import party_keys

log = structlog.get_logger()


class Erasure:
    """Removes the sealed secrets of one accord and peer while no step of the accord goes on."""

    def __init__(self, home: Home, accords: Accords, attempts: Attempts) -> None:
        """Erase below the home directory."""
        self._home, self._accords, self._attempts = home, accords, attempts

    def erase(self, who: Caller, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is kept for each peer, and remove it when `confirmed`; what is gone already is no error.

        No peer named means each. An accord that has ended is as good as another. `ConsentError` for an unknown accord
        or peer, `StateError` while a step of the accord goes on here.
        """
        accord = self._accords.copy(str(body["accord"])).terms
        keys = party_keys(self._home, {}, accord.accord)
        peers = self._chosen(
            accord.accord, body["peers"], sorted({*accord.parties, *keys.kept_peers()} - {self._home.party})
        )
        with self._attempts.at_rest(accord.accord):
            kept = {peer: _kept(keys, peer) for peer in peers}
            for peer in peers if body["confirmed"] is True else ():
                keys.forget_peer(peer)
                log.info("erased for a peer", accord=accord.accord, peer=peer, operator=who.name, **kept[peer])
        return {"party": self._home.party, "accord": accord.accord, "max_signatures": accord.max_signatures,
                "peers": kept}  # fmt: skip

    def _chosen(self, accord: str, asked: list[Any], known: list[str]) -> list[str]:
        if unknown := sorted(set(map(str, asked)) - set(known)):
            remedy = did_you_mean(unknown[0][:128], known) or "correct --peer; without it, it is for every one of these"
            raise ConsentError("the accord names no such peer, and nothing is kept for one", expected=", ".join(known),
                               found=", ".join(unknown)[:128], where=f"accord {accord}, --peer", remedy=remedy,
                               party=self._home.party)  # fmt: skip
        return sorted(set(map(str, asked))) or known


def _kept(keys: PartyKeys, peer: str) -> dict[str, int]:
    files = keys.kept_for(peer)
    return {"files": len(files), "bytes": sum(path.stat().st_size for path in files)}
