"""Messages between nodes: Arrow Flight over mutual TLS, in slices of 4 MiB.

    client                                         server
    headers: token                       ->        middleware: token genuine, fresh, for us
    command: header                      ->        certificate = token = sender; guard; schema; size
    slices of the body                   ->        collected up to the announced size
    end marker: counts, digest, claim    ->        whole; Arrow; schema; ledger; inbox
                                         <-        claim (the signed receipt)

The node's service calls `FlightReceiver.do_put`; the worker of a step uses `FlightCarrier`. When a client dies in the
middle, Flight's read loop ends normally: only the end marker makes a message. A single gRPC frame is allocated by gRPC
before Python sees it, so the bound on memory against a peer whose token was accepted is one frame, not one slice.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

import pyarrow as pa
import pyarrow.flight as flight

from base.errors import AccordError, MessageRefused, PeerError, PeerForeign
from transport.door import Door, Inbox
from transport.message import MessageKey
from transport.signer import Signer
from transport.tls import Address, Identity, connect, explained, write_error
from transport.token import HEADER, NonceCache, Token, accept, issue
from transport.wire import Claim, Header, Parcel, slices

PUT = "put"
SLICE = pa.schema([pa.field("slice", pa.binary(), nullable=False)])
_MIDDLEWARE = "accord"
_LOG = logging.getLogger(__name__)
_P = ParamSpec("_P")
_R = TypeVar("_R")


class FlightCarrier:
    """The sending end at one party: puts to the peers' nodes, reads from the own inbox."""

    def __init__(self, signer: Signer, identity: Identity, peers: Mapping[str, Address], inbox: Inbox) -> None:
        """Know the peers' addresses; connect at the first message to each."""
        self._signer, self._identity, self._peers, self._inbox = signer, identity, peers, inbox
        self._clients: dict[str, flight.FlightClient] = {}

    def put(self, parcel: Parcel, seconds: float) -> Claim:
        """See `channel.Carrier`. One try takes at most half a minute and a second per MiB."""
        address = self._address(parcel.header.receiver)
        with explained(address, self._identity):
            return self._put(self._client(address), parcel, min(seconds, 30 + parcel.header.size / 2**20))

    def get(self, key: MessageKey, patience: float) -> bytes | None:
        """See `channel.Carrier`."""
        return self._inbox.get(key, patience)

    def _put(self, client: flight.FlightClient, parcel: Parcel, seconds: float) -> Claim:
        key = parcel.key
        token = issue(self._signer, key.receiver, PUT, key.run, key.step, key.attempt)
        options = flight.FlightCallOptions(timeout=seconds, headers=[(HEADER.encode(), token)])
        writer, reader = client.do_put(flight.FlightDescriptor.for_command(parcel.header.to_bytes()), SLICE, options)
        with writer:
            for part in slices(parcel.body):
                writer.write_batch(pa.record_batch([pa.array([part], pa.binary())], schema=SLICE))
            writer.write_metadata(parcel.marker.to_bytes())
            writer.done_writing()
            receipt = reader.read()
        if receipt is None:
            raise PeerError(f"{key.receiver} gave no receipt for message {key.name}", party=key.receiver)
        return Claim.from_bytes(receipt.to_pybytes())

    def _address(self, party: str) -> Address:
        if party not in self._peers:
            raise PeerForeign(f"no address of {party} is known", expected=", ".join(sorted(self._peers)))
        return self._peers[party]

    def _client(self, address: Address) -> flight.FlightClient:
        name = str(address)
        if name not in self._clients:
            self._clients[name] = connect(address, self._identity)
        return self._clients[name]


class FlightReceiver:
    """The receiving end, for a `FlightServerBase` of the node.

        receiver = FlightReceiver(door, nonces)
        super().__init__(..., verify_client=True, root_certificates=ca, middleware=receiver.middleware())

        def do_put(self, context, descriptor, reader, writer):
            receiver.do_put(context, descriptor, reader, writer)

    Control calls between nodes carry the same kind of token: `receiver.caller(context).require(method, run, ...)`.
    """

    def __init__(self, door: Door, nonces: NonceCache) -> None:
        """Deliver through `door`, with tokens good once by `nonces`."""
        self._door, self._nonces = door, nonces
        self._signer = door.ledger.signer

    def middleware(self) -> dict[str, flight.ServerMiddlewareFactory]:
        """Return what the server must be made with: a put without a good token ends before its body is read."""
        return {_MIDDLEWARE: _Gate(self._signer, self._nonces)}

    def caller(self, context: flight.ServerCallContext) -> Token:
        """Return the token of a call from node to node; raise `PeerForeign` without one, or with another's."""
        visit = context.get_middleware(_MIDDLEWARE)
        peer = context.peer_identity().decode(errors="replace")
        if visit is None or visit.token.issuer != peer:
            raise PeerForeign(
                "a call from node to node needs the caller's own token",
                expected=f"header {HEADER} signed by the party of the certificate",
                found="no token" if visit is None else "another party's token",
            )
        token: Token = visit.token
        return token

    def do_put(
        self,
        context: flight.ServerCallContext,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.FlightMetadataWriter,
    ) -> None:
        """Take one message; the caller gets the receipt, or a Flight error with the `AccordError` as JSON."""
        _shield(self._door.party, self._take)(context, descriptor, reader, writer)

    def _take(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        token = self.caller(context)
        command = descriptor.command or b""
        token.require_key(PUT, Header.from_bytes(command).key)
        reception = self._door.open(token.issuer, command)
        if reader.schema != SLICE:
            raise MessageRefused("a stream is not one of slices", expected=SLICE.to_string())
        while True:
            try:
                chunk = reader.read_chunk()
            except StopIteration:
                raise MessageRefused(
                    "a stream ended without its end marker", found="a sender that died or broke off", party=token.issuer
                ) from None
            if chunk.data is not None:
                reception.add(_slice(chunk.data))
            if chunk.app_metadata is not None:
                writer.write(pa.py_buffer(reception.close(chunk.app_metadata.to_pybytes()).to_bytes()))
                return


class _Visit(flight.ServerMiddleware):  # type: ignore[misc]
    """Keeps the accepted token for the handler of the call."""

    def __init__(self, token: Token) -> None:
        """Belongs to one call."""
        self.token = token


class _Gate(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Runs before anything of a call is read."""

    def __init__(self, signer: Signer, nonces: NonceCache) -> None:
        """Accept what the accord's parties sign."""
        self._signer, self._nonces = signer, nonces

    def start_call(self, info: flight.CallInfo, headers: Mapping[str, list[str]]) -> _Visit | None:
        """Return the accepted token; None for a control call without one, which authorises itself by certificate."""
        return _shield(self._signer.party, self._start)(info, headers)

    def _start(self, info: flight.CallInfo, headers: Mapping[str, list[str]]) -> _Visit | None:
        texts = headers.get(HEADER, [])
        if not texts and info.method not in (flight.FlightMethod.DO_PUT, flight.FlightMethod.DO_EXCHANGE):
            return None
        return _Visit(accept(self._signer, self._nonces, texts[0] if len(texts) == 1 else ""))


def shielded(method: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a handler method of a server that has an attribute `party`: no traceback reaches the peer.

    A generator is not covered while it runs: build the results before returning them.
    """

    @functools.wraps(method)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        server: Any = args[0]
        return _shield(server.party, method)(*args, **kwargs)

    return run


def _shield(party: str, call: Callable[_P, _R]) -> Callable[_P, _R]:
    """Return `call` such that whatever it raises reaches the peer as an `AccordError` in JSON, without a traceback."""

    def run(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return call(*args, **kwargs)
        except flight.FlightServerError:  # an inner shield has written the error already
            raise
        except AccordError as error:
            error.party = error.party or party
            _LOG.warning("refused: %s", error.what)
            raise _as_flight(error) from None
        except Exception as error:
            # Neither the text nor the traceback of a foreign exception is free of values: class and place only.
            _LOG.error("a handler failed: %s at %s", type(error).__name__, _place(error))
            raise _as_flight(AccordError("a call failed inside the node", remedy="see its log", party=party)) from None

    return run


def _as_flight(error: AccordError) -> flight.FlightServerError:
    return flight.FlightServerError(error.what[:200], extra_info=write_error(error))


def _place(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "unknown" if trace is None else f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"


def _slice(batch: pa.RecordBatch) -> memoryview:
    """Return the bytes of a foreign batch, checked so that its offsets stay inside its buffer."""
    batch.validate(full=True)
    if batch.num_rows != 1 or batch.column(0).null_count:
        raise MessageRefused("a slice is not one value", expected="1 row", found=f"{batch.num_rows} rows")
    return memoryview(batch.column(0)[0].as_buffer())
