"""Blind RSA signatures with pycryptodome alone, id by id: De Cristofaro and Tsudik (2010, fig. 3), both parties here.

The signing is what pycryptodome does inside (`_decrypt_to_bytes`: blinded, by CRT); hash, blinding and inverse are
written with its own integers, one id at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from serve import Clock, Operation, check, serve

BITS = 2048


def load() -> tuple[Mapping[str, str], Mapping[str, Operation]]:
    """Import pycryptodome and make a key."""
    from Crypto.Hash import SHA256, SHAKE256
    from Crypto.Math.Numbers import Integer
    from Crypto.PublicKey import RSA

    key = RSA.generate(BITS)
    n, e = Integer(key.n), Integer(key.e)

    def hashed(identifier: str) -> Any:
        return Integer.from_bytes(SHAKE256.new(identifier.encode()).read(BITS // 8 + 16)) % n

    def sign(number: Any) -> Any:
        signature = Integer.from_bytes(key._decrypt_to_bytes(number))
        check(pow(signature, e, n) == number, "signature")
        return signature

    def tag(signature: Any) -> bytes:
        return SHA256.new(signature.to_bytes(BITS // 8)).digest()

    def psi(ids: int) -> Mapping[str, Any]:
        ours, theirs = ([f"person-{i + shift:09}" for i in range(ids)] for shift in (0, ids // 2))
        with Clock() as clock:
            published = {tag(sign(hashed(identifier))) for identifier in theirs}
            found = 0
            for identifier in ours:
                h, r = hashed(identifier), Integer.random_range(min_inclusive=2, max_exclusive=n)
                signature = sign(h * pow(r, e, n) % n) * r.inverse(n) % n
                check(pow(signature, e, n) == h, "unblinded signature")
                found += tag(signature) in published
        check(found == ids - ids // 2, "intersection")
        return {"count": ids, "cpu": clock.seconds, "bytes": 2 * BITS / 8 + 32}

    return {"pycryptodome": version("pycryptodome")}, {"psi": psi}


if __name__ == "__main__":
    serve(load)
