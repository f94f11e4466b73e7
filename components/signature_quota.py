"""How many blind signatures a receiver may get over a key's life.

A run reserves what it asks for before anything is signed, and counts what leaves. A further attempt of the run asks for
what it has not got, and pays only for what goes beyond the reservation: a batch that was signed and lost on the way is
the only one that counts twice, since nobody but the receiver knows that it was lost.
"""

from __future__ import annotations

import struct

from components.contract import Context
from components.quota import raise_parameter, spend


class Signing:
    """The signatures of one run for one receiver."""

    def __init__(self, ctx: Context, receiver: str, key_period: str, limit: int) -> None:
        """Count under the receiver's name and the key's period, whatever the key's length."""
        self._ctx, self._limit = ctx, limit
        self._purse = ".".join(filter(None, ("signatures", receiver, key_period)))
        self._name = f"run/{ctx.run}/signing.{ctx.step}.{receiver}"  # must not go back within the run, and goes with it
        self.reserved, self.issued = struct.unpack("<qq", ctx.keys.get(self._name) or bytes(16))

    def reserve(self, asked: int) -> None:
        """Pay for `asked` signatures, less what is left of an earlier attempt; `ConsentError` beyond the limit."""
        more = asked - (self.reserved - self.issued)
        if more > 0:
            renew = "another key_period in step and accord signs all ids again and begins a new count"
            remedy = f"{raise_parameter('max_signatures')}; or {renew}"
            version = f"{self._ctx.run}/{self._ctx.step}/{self._ctx.attempt}"
            spend(self._ctx, self._purse, more, self._limit, version, "blind signatures", remedy)
            self._note(self.reserved + more, self.issued)

    def issue(self, count: int) -> None:
        """Count signatures; call it before they leave."""
        self._note(self.reserved, self.issued + count)

    def close(self) -> None:
        """Forget the run: what it paid stays paid."""
        self._ctx.metric("signatures", self.issued)
        self._ctx.keys.forget(self._name)

    def _note(self, reserved: int, issued: int) -> None:
        self.reserved, self.issued = reserved, issued
        self._ctx.keys.put(self._name, struct.pack("<qq", reserved, issued))
