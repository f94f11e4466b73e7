"""The node's one port: Arrow Flight with mutual TLS, for control calls and for messages.

Every call goes the same way: who is it (certificate), may it (policy), for peers: is the token theirs, fresh and for
this call, is the wire version ours. Only then is the body looked at. What a handler raises reaches the caller as an
`AccordError`, never as a traceback.
"""

from __future__ import annotations

import json
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import structlog
from pyarrow import flight

from base.errors import AccordError, ConsentError, MessageRefused, WireVersionMismatch
from party_node.peers import bound
from party_node.policy import METHODS, Caller, authorise
from runtime.party import Home
from transport import message
from transport.flight import FlightReceiver, shielded
from transport.tls import Identity

Handler = Callable[[Caller, dict[str, Any]], Mapping[str, Any]]
MAX_BODY = 2**20
log = structlog.get_logger()


class NodeService(flight.FlightServerBase):  # type: ignore[misc]
    """Listens, authorises, and hands on."""

    def __init__(
        self, home: Home, identity: Identity, receiver: FlightReceiver, handlers: Mapping[str, Handler]
    ) -> None:
        """Listen on the address of party.yaml; `handlers` has one for every method of the policy, and no other."""
        if set(handlers) != set(METHODS):
            raise AssertionError(f"methods without rule or handler: {sorted(set(handlers) ^ set(METHODS))}")
        self.party = home.party
        self.refusals: deque[dict[str, Any]] = deque(maxlen=50)
        self._home, self._receiver, self._handlers = home, receiver, handlers
        super().__init__(
            f"grpc+tls://{home.conf.listen}",
            tls_certificates=[(identity.certificate, identity.key)],
            verify_client=True,
            root_certificates=identity.ca,
            middleware=receiver.middleware(),
        )

    @shielded
    def do_action(self, context: flight.ServerCallContext, action: flight.Action) -> Iterator[flight.Result]:
        """Answer one control call."""
        name = context.peer_identity().decode(errors="replace")
        try:
            return iter([flight.Result(self._answer(context, name, action))])
        except AccordError as error:
            self._refused(name, action.type, error)
            raise

    @shielded
    def do_put(self, context: flight.ServerCallContext, descriptor: Any, reader: Any, writer: Any) -> None:
        """Take one message of a peer."""
        authorise_peer(self._home, context.peer_identity().decode(errors="replace"))
        self._receiver.do_put(context, descriptor, reader, writer)

    @shielded
    def _refuse(self, *_: Any) -> None:
        """Refuse every other kind of call that Flight knows."""
        raise ConsentError(
            "a node answers no such call", expected="an action or a message", found="another Flight call"
        )

    list_flights = list_actions = get_flight_info = do_get = do_exchange = _refuse

    def get_schema(self, context: flight.ServerCallContext, descriptor: Any) -> flight.SchemaResult:
        """Return a schema without columns: what this method raises would reach the caller as a traceback."""
        return flight.SchemaResult(pa.schema([]))

    def _answer(self, context: flight.ServerCallContext, name: str, action: flight.Action) -> bytes:
        who = authorise(self._home.conf, name, action.type)
        try:
            body = _parse(action.body)
            if who.peer:
                _check_wire(body)
                self._receiver.caller(context).require(action.type, *bound(body))
            return json.dumps(self._handlers[action.type](who, body)).encode()
        except (KeyError, TypeError, ValueError) as error:
            # A field is missing or of another type. Its text may hold a value: class and place only.
            place = traceback.extract_tb(error.__traceback__)[-1]
            found = type(error).__name__
            log.warning(
                "malformed call", method=action.type, caller=name, error=found, at=f"{place.name}:{place.lineno}"
            )
            raise MessageRefused(f"the body of {action.type} is not of its form", found=found) from None

    def _refused(self, name: str, method: str, error: AccordError) -> None:
        self.refusals.append({"caller": name[:128], "method": method[:64], "error": error.to_wire()})
        log.warning("refused", caller=name[:128], method=method[:64], error=error.to_wire())


def authorise_peer(home: Home, name: str) -> None:
    """Raise `ConsentError` unless `name` is a peer of party.yaml; the guard then decides about the message."""
    authorise(home.conf, name, "peer.hello")


def _parse(data: Any) -> dict[str, Any]:
    if data.size > MAX_BODY:
        raise MessageRefused("the body of a call is too large", expected=f"at most {MAX_BODY} bytes", found=data.size)
    body = json.loads(data.to_pybytes() or b"{}")
    if not isinstance(body, dict):
        raise MessageRefused("the body of a call is not a JSON object", found=type(body).__name__)
    return body


def _check_wire(body: Mapping[str, Any]) -> None:
    found = body.get("wire")
    if found != message.WIRE_VERSION:
        raise WireVersionMismatch(
            "the two nodes speak different versions of the wire",
            expected=f"wire version {message.WIRE_VERSION}",
            found=f"wire version {found}" if isinstance(found, int) else "no wire version",
            remedy="install the same release of Accord at all parties",
        )
