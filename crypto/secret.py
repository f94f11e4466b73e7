"""What every holder of a private key has in common: it is never shown, pickled or copied."""

from __future__ import annotations

from typing import NoReturn, SupportsIndex

from base.errors import CryptoError


class Secret:
    """Base of the private keys. `repr` tells the class alone; pickling and copying raise `CryptoError`."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}, not shown>"

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise CryptoError("a secret key is neither pickled nor copied", remedy="seal its bytes with NodeKeys.wrap")
