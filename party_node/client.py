"""A client of a party node: Airflow and the command line call through this one class.

It needs pyarrow, cryptography and `base` alone, so that an Airflow worker can have it without the platform; pyarrow is
loaded at the first call. One call is one Flight action with a JSON body; the answer is JSON, and what the node raises
is raised here again as the same `AccordError`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from base.errors import EnvironmentMissing, PeerDown

CALL_SECONDS = 60.0


class NodeClient:
    """Calls one node over mutual TLS; `party` is the name that its certificate has to show (else: the host)."""

    def __init__(
        self, host: str, port: int, ca: Path | str, cert: Path | str, key: Path | str, party: str | None = None
    ) -> None:
        """Take the address of a node and the paths of three PEM files; nothing is read or dialled before a call."""
        self._host, self._port, self._party = host, port, party
        self._files = (Path(ca), Path(cert), Path(key))
        self._flight: Any = None

    def call(self, method: str, body: dict[str, Any] | None = None, *, seconds: float = CALL_SECONDS) -> dict[str, Any]:
        """Call `method` and return its answer.

        Raises the node's own error, `PeerDown` when nothing answers within `seconds`, `PeerForeign` when the
        certificates do not fit.
        """
        used = self._flight is not None
        try:
            return self._call(method, body or {}, seconds)
        except PeerDown:
            self.close()
            if not used:
                raise
        # The connection may have been to a node that has been restarted since; every method may be called twice.
        return self._call(method, body or {}, seconds)

    def _call(self, method: str, body: dict[str, Any], seconds: float) -> dict[str, Any]:
        from pyarrow import flight

        from transport.tls import Address, Identity, connect, explained

        address = Address(self._host, self._port, self._party)
        identity = Identity(*map(_read, self._files))
        with explained(address, identity):
            if self._flight is None:
                self._flight = connect(address, identity)
            action = flight.Action(method, json.dumps(body).encode())
            (result,) = self._flight.do_action(action, flight.FlightCallOptions(timeout=seconds))
            return dict(json.loads(result.body.to_pybytes()))

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        if self._flight is not None:
            self._flight.close()
            self._flight = None

    def __enter__(self) -> NodeClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        remedy = "accord provision, or accord csr and accord sign-csr, makes it"
        raise EnvironmentMissing(
            "a certificate or key cannot be read", where=str(path), found=error.strerror, remedy=remedy
        ) from None
