"""Calls from node to node: mutual TLS, a signed token for each call, and the wire version in each body."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pyarrow import flight

from base.errors import AccordError, PeerDown, PeerForeign
from runtime.party import Home
from transport import message
from transport.signer import Signer
from transport.tls import Address, Identity, connect, explained
from transport.token import HEADER, issue

CALL_SECONDS = 30.0
Local = Callable[[str, dict[str, Any]], dict[str, Any]]


class Peers:
    """Reaches every party of an accord; what is asked of this party itself goes to `local`, without a network."""

    def __init__(self, home: Home, signer: Signer, local: Local) -> None:
        """Use the node's own certificate; connect at the first call to each peer."""
        self._home, self._signer, self._local = home, signer, local
        self._identity = identity(home)
        self._addresses = addresses(home)
        self._lock = threading.Lock()
        self._clients: dict[str, flight.FlightClient] = {}

    def ask(self, party: str, method: str, body: Mapping[str, Any], *, seconds: float = CALL_SECONDS) -> dict[str, Any]:
        """Call a method of one party and return its answer; an error says whose it is."""
        document = {"wire": message.WIRE_VERSION, **body}
        try:
            if party == self._home.party:
                return self._local(method, document)
            return self._call(party, method, document, seconds)
        except AccordError as error:
            error.party = error.party or party
            raise

    def ask_all(self, parties: Iterable[str], method: str, body: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Ask parties at the same time; return their answers, or raise the first error in the order of names."""
        names = sorted(parties)
        if not names:
            return {}
        with ThreadPoolExecutor(len(names)) as pool:
            asked = {party: pool.submit(self.ask, party, method, body) for party in names}
        return {party: future.result() for party, future in asked.items()}

    def close(self) -> None:
        """End all connections."""
        with self._lock:
            while self._clients:
                self._clients.popitem()[1].close()

    def _call(
        self, party: str, method: str, document: dict[str, Any], seconds: float, again: bool = True
    ) -> dict[str, Any]:
        run, step, attempt = bound(document)
        token = issue(self._signer, party, method, run, step, attempt)
        options = flight.FlightCallOptions(timeout=seconds, headers=[(HEADER.encode(), token)])
        address = self._addresses.get(party)
        if address is None:
            remedy = "add it under peers in party.yaml"
            raise PeerForeign(f"no address of {party} is known", expected=", ".join(self._addresses), remedy=remedy)
        used = party in self._clients
        try:
            with explained(address, self._identity):
                action = flight.Action(method, json.dumps(document).encode())
                (result,) = self._client(party, address).do_action(action, options)
                return dict(json.loads(result.body.to_pybytes()))
        except PeerDown:
            self._forget(party)
            if not (used and again):
                raise
        # The connection may have been to a node that has been restarted since; every method may be called twice.
        return self._call(party, method, document, seconds, again=False)

    def _forget(self, party: str) -> None:
        with self._lock:
            if (client := self._clients.pop(party, None)) is not None:
                client.close()

    def _client(self, party: str, address: Address) -> flight.FlightClient:
        with self._lock:
            if party not in self._clients:
                self._clients[party] = connect(address, self._identity)
            return self._clients[party]


def bound(document: Mapping[str, Any]) -> tuple[str, str, int]:
    """Return the run, step and attempt that a call's token is bound to; empty for calls about none."""
    return str(document.get("run", "")), str(document.get("step", "")), int(document.get("attempt", 0))


def identity(home: Home) -> Identity:
    """Return the node's certificate, its key and the CA that it believes."""
    keys = home.path("keys")
    return Identity(*((keys / name).read_bytes() for name in ("ca.crt", "tls.crt", "tls.key")))


def addresses(home: Home) -> dict[str, Address]:
    """Return where the peers of `party.yaml` listen."""
    found = {}
    for party, address in home.conf.peers.items():
        host, _, port = address.rpartition(":")
        found[party] = Address(host, int(port), party)
    return found
