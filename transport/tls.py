"""Flight clients over mutual TLS, and what their failures mean.

gRPC says "Socket closed" for a missing, foreign and expired client certificate alike. After a failure `diagnose` asks
the same door once more with Python's `ssl`, which tells the cases apart. A party is recognised by its name in the
certificate, not by its address: addresses change, and several nodes may share one.
"""

from __future__ import annotations

import json
import socket
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight
from cryptography import x509

from base.errors import AccordError, PeerDown, PeerError, PeerForeign, from_wire

PROBE_SECONDS = 3.0
_MAX_ERROR = 4000  # bytes of an error on the wire: gRPC cuts headers at 8 KiB
# One connection per client, tried again soon after the peer is back: gRPC's own pause grows to two minutes.
_OPTIONS = [
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 2000),
    ("grpc.max_reconnect_backoff_ms", 2000),
]
# The client half of HTTP/2's opening: an accepted client gets SETTINGS back, a refused one an end of file.
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"


@dataclass(frozen=True)
class Identity:
    """Who this side is, and whom it believes: PEM bytes."""

    ca: bytes
    certificate: bytes
    key: bytes = field(repr=False)


@dataclass(frozen=True)
class Address:
    """Where a peer listens; `party` is the name that its certificate must have (None: the host name or address)."""

    host: str
    port: int
    party: str | None = None

    def __str__(self) -> str:
        """Return what an error shows."""
        return f"{self.party or 'the node'} at {self.host}:{self.port}"


def connect(address: Address, identity: Identity) -> flight.FlightClient:
    """Return a client that connects at its first call. Make it in the process that uses it: no fork after that."""
    more = {"override_hostname": address.party} if address.party else {}
    return flight.FlightClient(
        f"grpc+tls://{address.host}:{address.port}",
        tls_root_certs=identity.ca,
        cert_chain=identity.certificate,
        private_key=identity.key,
        generic_options=_OPTIONS,
        **more,
    )


@contextmanager
def explained(address: Address, identity: Identity) -> Iterator[None]:
    """Turn whatever Flight raises inside into the peer's own `AccordError`, `PeerDown` or `PeerForeign`."""
    try:
        yield
    except (flight.FlightError, pa.ArrowException, OSError) as error:
        raise explain(error, address, identity) from None


def explain(error: Exception, address: Address, identity: Identity) -> AccordError:
    """Return what a failed call means."""
    told = read_error(getattr(error, "extra_info", None) or b"")
    if told is not None:
        told.party = told.party or address.party
        return told
    if isinstance(error, flight.FlightTimedOutError):
        return PeerDown(f"{address} did not answer in time", expected="an answer", found="none",
                        where=f"{address.host}:{address.port}",
                        remedy="see whether the node is busy or stopped: accord node status there")  # fmt: skip
    if isinstance(error, flight.FlightUnavailableError):
        return diagnose(address, identity)
    if isinstance(error, flight.FlightError):
        return PeerError(f"{address} broke off a call", found=type(error).__name__, remedy="see the log of that node")
    return PeerDown(f"the connection to {address} was lost", expected="an answer", found=type(error).__name__,
                    where=f"{address.host}:{address.port}",
                    remedy="see whether the node still runs: accord node status there, or accord doctor")  # fmt: skip


def diagnose(address: Address, identity: Identity) -> PeerError:
    """Knock once more and return why a call could not be made."""
    try:
        return _knock(address, identity)
    except ssl.SSLCertVerificationError as error:
        return PeerForeign(
            f"the certificate of {address} is not believed: {error.verify_message}",
            expected=f"issued by our authority for {address.party or address.host}",
            remedy=_REMEDIES.get(error.verify_code, "compare the authorities of both nodes: accord doctor"),
        )
    except ssl.SSLError as error:
        return PeerForeign(
            f"{address} does not speak TLS as a node does",
            expected="TLS 1.2 or later",
            found=error.reason or "no TLS",
            remedy="check host and port of the peer: another program answers there",
        )
    except OSError as error:
        return PeerDown(
            f"{address} cannot be reached",
            expected="a running node that answers there",
            found=error.strerror or type(error).__name__,
            where=f"{address.host}:{address.port}",
            remedy="start that node there (accord node start), or correct its address; see `accord doctor`",
        )


# OpenSSL's X509_V_ERR_* codes.
_REMEDIES = {
    9: "set the clocks of both nodes by NTP: the certificate is not yet valid",
    10: "that node's certificate has expired: issue a new one",
    62: "another party answers at this address: correct host and port, or that node's certificate",
    64: "the certificate does not name this address: put it into the subject alternative names",
}


def _knock(address: Address, identity: Identity) -> PeerError:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=identity.ca.decode())
    context.set_alpn_protocols(["h2"])
    _load_certificate(context, identity)
    with socket.create_connection((address.host, address.port), PROBE_SECONDS) as plain:
        with context.wrap_socket(plain, server_hostname=address.party or address.host) as secure:
            secure.sendall(_HELLO)
            try:
                answered = bool(secure.recv(1))
            except (ssl.SSLError, ConnectionError):
                answered = False
    if answered:
        return PeerDown(f"the connection to {address} was lost", remedy="it answers again: try again")
    return _refused(address, identity)


def _refused(address: Address, identity: Identity) -> PeerForeign:
    """Say why a peer may have closed the connection after seeing our certificate."""
    certificate = x509.load_pem_x509_certificate(identity.certificate)
    end = certificate.not_valid_after_utc
    expired = end < datetime.now(UTC)
    return PeerForeign(
        f"{address} refuses our certificate",
        expected="a certificate issued by an authority that it believes, not expired",
        found=f"issued by {certificate.issuer.rfc4514_string()}, valid until {end:%Y-%m-%d %H:%M} UTC",
        remedy="issue a new certificate for this side" if expired else "give that node our authority's certificate",
    )


def _load_certificate(context: ssl.SSLContext, identity: Identity) -> None:
    """`ssl` reads key and certificate from files only: a private directory that lives for this call."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "identity.pem"
        path.touch(mode=0o600)
        path.write_bytes(identity.key + b"\n" + identity.certificate)
        context.load_cert_chain(path)


def write_error(error: AccordError) -> bytes:
    """Return an error as the JSON that a peer gets, cut so that it fits."""
    document = error.to_wire()
    for limit in (1000, 300, 100):
        short = {k: v[:limit] if isinstance(v, str) else v for k, v in document.items()}
        data = json.dumps(short).encode()
        if len(data) <= _MAX_ERROR:
            break
    return data


def read_error(data: bytes) -> AccordError | None:
    """Return the error that a peer sent, or None when these bytes are none; nothing in them is believed but text."""
    try:
        document: Any = json.loads(data[: 2 * _MAX_ERROR])
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or type(document.get("code")) is not int:
        return None
    texts = {k: v[:1000] for k, v in document.items() if isinstance(v, str)}
    return from_wire({**texts, "code": document["code"]})
