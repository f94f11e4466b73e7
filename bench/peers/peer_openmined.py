"""openmined-psi: Diffie-Hellman over NIST P-256 with a hash to the curve, both parties in this process."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from serve import Clock, Operation, check, serve

FALSE_MATCH = 2.0**-40


def load() -> tuple[Mapping[str, str], Mapping[str, Operation]]:
    """Import the library."""
    from private_set_intersection.python import Request, Response, ServerSetup, client, server

    def psi(n: int) -> Mapping[str, Any]:
        ours, theirs = ([f"person-{i + shift:09}" for i in range(n)] for shift in (0, n // 2))
        with Clock() as clock:
            asks, answers = client.CreateWithNewKey(True), server.CreateWithNewKey(True)
            setup = answers.CreateSetupMessage(FALSE_MATCH, n, theirs).SerializeToString()
            asked = asks.CreateRequest(ours).SerializeToString()
            answered = answers.ProcessRequest(Request.FromString(asked)).SerializeToString()
            found = asks.GetIntersection(ServerSetup.FromString(setup), Response.FromString(answered))
        check(len(found) == n - n // 2, "intersection")
        return {"count": n, "cpu": clock.seconds, "bytes": (len(setup) + len(asked) + len(answered)) / n}

    return {"openmined-psi": version("openmined-psi")}, {"psi": psi}


if __name__ == "__main__":
    serve(load)
