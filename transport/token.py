"""The short-lived token of a call from node to node: who calls whom, which method, for which run, step and attempt.

`peer_identity()` of Flight is only the first name of a certificate; the token is signed with the Ed25519 key that the
accord names, and it travels in the call's headers, so that a stranger is refused before a byte of the body is read. A
token is good once: the receiver spends its nonce in a cache that survives a restart.
"""

from __future__ import annotations

import base64
import secrets
import time
from dataclasses import dataclass, field
from threading import Lock
from typing import ClassVar, Protocol

from base.errors import PeerForeign
from transport.message import MessageKey
from transport.signer import Signer
from transport.wire import Document

HEADER = "accord-token"
LIFE_SECONDS = 60  # a token is used at once; a retry makes a new one
SKEW_SECONDS = 30  # how far two nodes' clocks may differ
_MAX_TEXT = 4096
_DOMAIN = b"accord token\0"


class NonceCache(Protocol):
    """Remembers the nonces of tokens until they expire; the node keeps it in SQL."""

    def spend(self, party: str, nonce: str, expires: int) -> None:
        """Remember (party, nonce) until `expires` (Unix seconds); raise `PeerForeign` if it is known: `replayed`."""


class MemoryNonceCache:
    """For tests: forgets everything when the process ends."""

    def __init__(self) -> None:
        """Start empty."""
        self._lock = Lock()
        self._known: dict[tuple[str, str], int] = {}

    def spend(self, party: str, nonce: str, expires: int) -> None:
        """See `NonceCache`."""
        with self._lock:
            now = time.time()
            self._known = {key: end for key, end in self._known.items() if end >= now}
            if (party, nonce) in self._known:
                raise replayed(party)
            self._known[party, nonce] = expires


@dataclass(frozen=True)
class Token(Document):
    """What the caller signed."""

    title: ClassVar[str] = "token"
    issuer: str
    audience: str
    method: str
    run: str
    step: str  # empty for calls about a whole run
    attempt: int  # 0 for calls about a whole run or step
    nonce: str = field(repr=False)
    issued: int  # Unix seconds

    @property
    def expires(self) -> int:
        """When the nonce may be forgotten (Unix seconds)."""
        return self.issued + LIFE_SECONDS + SKEW_SECONDS

    def require(self, method: str, run: str, step: str = "", attempt: int = 0) -> None:
        """Raise `PeerForeign` unless the token is for this call."""
        bound = (self.method, self.run, self.step, self.attempt)
        if bound != (method, run, step, attempt):
            raise PeerForeign(
                "a token is for another call",
                expected=f"{method} of {run}/{step}/{attempt}",
                found="another method, run, step or attempt",
                party=self.issuer,
            )

    def require_key(self, method: str, key: MessageKey) -> None:
        """Raise `PeerForeign` unless the token is for `method` in the attempt of `key`."""
        self.require(method, key.run, key.step, key.attempt)


def issue(signer: Signer, audience: str, method: str, run: str, step: str = "", attempt: int = 0) -> bytes:
    """Return a new token as the value of the header `HEADER`."""
    nonce = secrets.token_hex(16)
    token = Token(signer.party, audience, method, run, step, attempt, nonce, int(time.time()))
    data = token.to_bytes()
    return b".".join(base64.urlsafe_b64encode(part) for part in (data, signer.sign(_DOMAIN + data)))


def accept(signer: Signer, nonces: NonceCache, text: str) -> Token:
    """Check a foreign token and spend its nonce; raise `PeerForeign` saying which promise is broken."""
    data, signature = _split(text)
    token = Token.from_bytes(data)
    signer.verify(token.issuer, _DOMAIN + data, signature)
    if token.audience != signer.party:
        raise PeerForeign("a token is for another party", expected=signer.party, found=token.audience[:128])
    age = time.time() - token.issued
    if not -SKEW_SECONDS <= age <= LIFE_SECONDS + SKEW_SECONDS:
        raise PeerForeign(
            "a token has expired or is not yet valid",
            expected=f"at most {LIFE_SECONDS} seconds old",
            found=f"{age:.0f} seconds old",
            remedy="set the clocks of both nodes by NTP",
            party=token.issuer,
        )
    if len(token.nonce) != 32:
        raise PeerForeign(
            "a token has no proper nonce", expected="32 hex digits", found=f"{len(token.nonce)} characters"
        )
    nonces.spend(token.issuer, token.nonce, token.expires)
    return token


def replayed(party: str) -> PeerForeign:
    """Return the error of a nonce that was seen before."""
    return PeerForeign("a token was used before", expected="a new token for every call", party=party)


def _split(text: str) -> tuple[bytes, bytes]:
    parts = text.split(".") if len(text) <= _MAX_TEXT else []
    try:
        data, signature = (base64.b64decode(part, altchars=b"-_", validate=True) for part in parts)
    except ValueError:
        raise PeerForeign("a call carries no readable token", expected=f"header {HEADER}") from None
    return data, signature
