"""A client of a party node: Airflow, the command line and other nodes call through this one class.

Imports pyarrow, the standard library and `base` alone, so that an Airflow worker can have it without the platform.
One call is one Flight action with a JSON body; the answer is JSON, and an error in it becomes the same `AccordError`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from base.errors import AccordError, DeadlinePassed, PeerDown, PeerForeign, from_wire

CALL_SECONDS = 30.0
MAX_ANSWER = 64 * 2**20
# What gRPC says when a handshake ended early, and what it means. A missing, foreign or expired client certificate all
# look like a socket that closes before the connection is there.
_HANDSHAKE = (
    (re.compile(r"is not in peer certificate"), "a certificate with another name"),
    (re.compile(r"wrong version number", re.IGNORECASE), "a port that does not speak TLS"),
    (re.compile(r"certificate has expired", re.IGNORECASE), "a certificate that is out of date"),
    (re.compile(r"handshake|SSL_ERROR|certificate", re.IGNORECASE), "a certificate of another CA"),
    (re.compile(r"failed to connect.*Socket closed", re.DOTALL), "the other end refused this side's certificate"),
)


class NodeClient:
    """Calls one node over mutual TLS; `party` is the name that its certificate has to show."""

    def __init__(
        self, host: str, port: int, ca: Path | str, cert: Path | str, key: Path | str, party: str | None = None
    ) -> None:
        """Take the address of a node and the paths of three PEM files; nothing is dialled before the first call."""
        self.address = f"{host}:{port}"
        self.party = party
        self._files = (Path(ca), Path(cert), Path(key))
        self._flight: Any = None

    def call(self, method: str, body: dict[str, Any] | None = None, *, seconds: float = CALL_SECONDS) -> dict[str, Any]:
        """Call `method` and return its answer.

        Raises the node's own error; `PeerDown` when nothing answers, `PeerForeign` when the certificates do not fit,
        `DeadlinePassed` when there is no answer within `seconds`.
        """
        from pyarrow import flight

        try:
            options = flight.FlightCallOptions(timeout=seconds)
            action = flight.Action(method, json.dumps(body or {}).encode())
            results = list(self._connect().do_action(action, options))
        except (flight.FlightError, OSError) as error:
            self.close()
            raise self._explain(error, method, seconds) from None
        answer: dict[str, Any] = json.loads(results[0].body.to_pybytes())
        if "error" in answer:
            raise from_wire(answer["error"])
        return dict(answer["ok"])

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        if self._flight is not None:
            self._flight.close()
            self._flight = None

    def __enter__(self) -> NodeClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _connect(self) -> Any:
        from pyarrow import flight

        if self._flight is None:
            ca, cert, key = (path.read_bytes() for path in self._files)
            name = {"override_hostname": self.party} if self.party else {}
            self._flight = flight.FlightClient(
                f"grpc+tls://{self.address}", tls_root_certs=ca, cert_chain=cert, private_key=key, **name
            )
        return self._flight

    def _explain(self, error: Exception, method: str, seconds: float) -> AccordError:
        """Turn what Flight says about a failed connection into something that a person can act on."""
        text, where, who = str(error), f"{method} at {self.address}", self.party or "the node"
        if isinstance(error, FileNotFoundError):
            remedy = "accord provision or accord csr makes it"
            return PeerForeign("a certificate file is missing", where=str(error.filename), remedy=remedy)
        if "Deadline" in text or "timed out" in text.lower():
            return DeadlinePassed(f"{who} did not answer", expected=f"within {seconds:g} s", where=where)
        for pattern, found in _HANDSHAKE:
            if pattern.search(text):
                return PeerForeign(
                    f"{who} and this side do not accept each other's certificate",
                    expected=f"certificates of one CA, with {self.party or 'its party'} as the first name",
                    found=found,
                    where=where,
                    remedy="run `accord doctor` at both ends: it checks CA, names and dates",
                )
        remedy = "is it running? `accord node status`; is the address right? see peers in party.yaml"
        return PeerDown(f"{who} cannot be reached", found="no connection", where=where, remedy=remedy)
