"""Who may call what: one table for the methods, one guard for the messages. What is not named is refused.

A client's certificate gets a role from `clients` in party.yaml: `submitter` (Airflow, the command line) starts and
stops jobs, `approver` approves templates, `operator` runs the node. Submitter and approver are different certificates.
A peer is a party named under `peers`; each of its calls also carries a signed token (transport/token.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from base.errors import ConsentError
from components.registry import component
from runtime.execute import StepTask
from runtime.party import PartyConf
from transport.door import admit_by_table
from transport.message import Message, MessageKey

READERS = frozenset({"submitter", "approver", "operator"})


@dataclass(frozen=True)
class Rule:
    """Which client roles may call a method, and whether peers may."""

    roles: frozenset[str] = frozenset()
    peers: bool = False


METHODS: Mapping[str, Rule] = {
    # for clients
    "hello": Rule(READERS),
    "submit": Rule(frozenset({"submitter"})),
    "status": Rule(READERS),
    "cancel": Rule(frozenset({"submitter", "operator"})),
    "approve": Rule(frozenset({"approver"})),
    "report": Rule(READERS),
    "ledger": Rule(READERS),
    "audit": Rule(READERS),
    "node": Rule(frozenset({"operator"})),
    "erase": Rule(frozenset({"operator"})),
    # for peers, each with a token
    "peer.hello": Rule(peers=True),
    "peer.prepare": Rule(peers=True),
    "peer.accept": Rule(peers=True),
    "peer.open": Rule(peers=True),
    "peer.reserve": Rule(peers=True),
    "peer.start": Rule(peers=True),
    "peer.watch": Rule(peers=True),
    "peer.stop": Rule(peers=True),
    "peer.abandon": Rule(peers=True),
    "peer.head": Rule(peers=True),
    "peer.countersign": Rule(peers=True),
    "peer.close": Rule(peers=True),
    "peer.ledger": Rule(peers=True),
}


@dataclass(frozen=True)
class Caller:
    """Who calls, as the certificate says."""

    name: str
    role: str | None  # of a client
    peer: bool  # a party of party.yaml


def caller(conf: PartyConf, name: str) -> Caller:
    """Return who the certificate name is to this node."""
    return Caller(name=name, role=conf.clients.get(name), peer=name in conf.peers and name != conf.party)


def authorise(conf: PartyConf, name: str, method: str) -> Caller:
    """Return the caller, or raise `ConsentError`: unknown method, unknown caller, or a role that may not."""
    who, rule = caller(conf, name), METHODS.get(method)
    if rule is None:
        raise ConsentError("there is no such method", expected=", ".join(METHODS), found=method[:64])
    if (who.peer and rule.peers) or (not who.peer and who.role in rule.roles):
        return who
    role = "a peer" if who.peer else who.role or "nobody that party.yaml names"
    raise ConsentError(
        f"the policy of {conf.party} does not allow this call",
        expected=" or ".join(sorted(rule.roles)) or "a peer",
        found=f"{name[:128]} is {role}",
        where=f"method {method}",
        remedy="clients and peers in party.yaml say who is who",
        party=conf.party,
    )


class MessageGuard:
    """Implements `transport.door.Guard`: says whether this peer may deliver this message now."""

    def __init__(self, party: str, live: Callable[[str, str, int], StepTask]) -> None:
        """`live` returns the task of an accepted attempt that still runs, or raises `ConsentError` or `StateError`."""
        self.party = party
        self._live = live

    def admit(self, peer: str, key: MessageKey) -> Message:
        """Return the row of the message table, or raise before a byte of the body is read."""
        if peer != key.sender or key.receiver != self.party:
            raise ConsentError(
                "a message is not from whom it says, or not for this party",
                expected=f"from {peer} to {self.party}",
                found=f"from {key.sender} to {key.receiver}",
                party=self.party,
            )
        task = self._live(key.run, key.step, key.attempt)
        return admit_by_table(component(task.component).table(task.params), task.roles, key)
