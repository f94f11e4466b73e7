"""How one party closes a run: each tells the head of its ledger, signs the others', and keeps theirs under its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from party_node.runs import CLOSED, OPEN, Runs
from transport.chain import Head, SignedHead
from transport.ledger import Ledger


class Closing:
    """What the initiator asks of one party after the last step."""

    def __init__(self, party: str, runs: Runs, ledger: Ledger) -> None:
        """Sign with the keys of `ledger`."""
        self._party, self._runs, self._ledger = party, runs, ledger

    def head(self, peer: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the head of this party's ledger of the run, signed."""
        row = self._runs.mine(str(body["run"]), peer, (OPEN, CLOSED))
        own = self._ledger.own_head(row.run)
        return {"head": vars(own.head), "signature": own.signature}

    def countersign(self, peer: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Sign the heads of all other parties, each signed by its owner: the initiator only passes them on."""
        row = self._runs.mine(str(body["run"]), peer, (OPEN, CLOSED))
        heads = [(Head.from_dict(told["head"]), str(told["signature"])) for told in body["heads"]]
        own = [SignedHead(head, head.party, signature) for head, signature in heads if head.run == row.run]
        others = [signed for signed in own if signed.signer != self._party]
        return {"signatures": {signed.signer: self._ledger.countersign(signed).signature for signed in others}}

    def close(self, peer: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Keep the others' signatures under this party's head; the run is closed and needs its checkpoints no more."""
        row = self._runs.mine(str(body["run"]), peer, (OPEN, CLOSED))
        head = self._ledger.head(row.run)
        for signer, signature in body["signatures"].items():
            self._ledger.keep_head(SignedHead(head, str(signer), str(signature)))
        self._runs.end(row, CLOSED)
        return {}
