"""A party's keys, as components (`Keys`) and transport (`Signer`) may use them."""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from base.errors import CryptoError, PeerForeign
from base.files import drafts, refused, sync_folder, write_once, write_whole
from crypto.node_keys import NodeKeys, NodePublicKeys

SECRET_BYTES = 32
# Neither a folder nor a hidden file can be named. Room for a run, a step and a party, and for a draft's 34 more.
_NAME = re.compile(r"[A-Za-z0-9](\.?[A-Za-z0-9_-])*")
_LONGEST = 220


class PartyKeys:
    """Signs, seals and keeps long-lived secrets; trusts exactly the peers' keys that the signed accord carries."""

    def __init__(
        self, party: str, own: NodeKeys, peers: Mapping[str, NodePublicKeys], folder: Path, every: Path | None = None
    ) -> None:
        """Keep long-lived secrets below `folder` (0700), and those of `party/NAME` below `every`, for all accords."""
        self.party = party
        self._own = own
        self._peers = dict(peers)
        self._folder = folder
        self._every = every or folder / ".party"

    def sign(self, data: bytes) -> bytes:
        """Sign with the party's Ed25519 key."""
        return self._own.sign(data)

    def verify(self, party: str, data: bytes, signature: bytes) -> None:
        """Raise `PeerForeign` unless `party` signed `data`."""
        self._peer(party).verify(party, data, signature)

    def pair_key(self, party: str, run: str) -> bytes:
        """Return the secret that only this party and `party` share in `run`."""
        return self._own.pair_key(self._peer(party), run)

    def wrap(self, party: str, secret: bytes, context: bytes) -> bytes:
        """Seal a secret for `party`."""
        return self._own.wrap(self._peer(party), secret, context)

    def unwrap(self, party: str, sealed: bytes, context: bytes) -> bytes:
        """Open what `party` sealed for this node."""
        return self._own.unwrap(self._peer(party), sealed, context)

    def keep(self, name: str, make: Callable[[], bytes]) -> bytes:
        """Return the long-lived secret `name`, made on first use; of two that make it at once, both get the first."""
        over_accords = name.startswith("party/")
        path = (self._every if over_accords else self._folder) / _checked(name.removeprefix("party/"))
        if not path.exists():
            write_once(path, make())
        return path.read_bytes()

    def put(self, name: str, data: bytes) -> None:
        """Keep `data` under `name`, sealed for this node; replaced as a whole."""
        path = self._sealed(name)
        write_whole(path, self._own.seal(data, name), private=True, drafts_in=_drafts(path))

    def get(self, name: str) -> bytes | None:
        """Return what was put last, or None; `CryptoError` when the file is not what this node sealed as `name`."""
        path = self._sealed(name)
        try:
            return self._own.open(path.read_bytes(), name)
        except FileNotFoundError:
            return None
        except CryptoError as error:
            error.where, error.remedy = f"secret {name} of {self.party}", f"remove {path}: the step makes it anew"
            raise

    def forget(self, name: str) -> None:
        """Remove what was put under `name`, and what a killed writer left of it."""
        path = self._sealed(name)
        for file in (path, *drafts(path, _drafts(path))):
            file.unlink(missing_ok=True)

    def forget_peer(self, peer: str) -> None:
        """Remove all that was put under `peer/PEER/...`, whatever the names, and what killed writers left of it.

        It is gone from the disk when this returns; `EnvironmentMissing` when the machine refuses.
        """
        folder = self._of_peer(peer)
        try:
            if folder.exists():
                shutil.rmtree(folder)
                sync_folder(folder.parent)
        except OSError as error:
            raise refused(error, folder) from error

    def kept_for(self, peer: str) -> list[Path]:
        """Return the files that `forget_peer` would remove; what is in them and for whom, their names do not say."""
        return sorted(path for path in self._of_peer(peer).rglob("*") if path.is_file())

    def kept_peers(self) -> list[str]:
        """Return for whom something was put under `peer/PEER/...`, also for parties that have left the accord."""
        return sorted(path.name for path in (self._folder / ".peers").glob("*"))

    def _sealed(self, name: str) -> Path:
        """Return the file of a sealed secret: apart from names of `keep`, a run's and a peer's in its own."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        match name.split("/"):
            case [rest]:
                return self._folder / ".sealed" / _checked(rest)
            case ["run", run, rest]:
                return run_secrets(self._folder, run) / _checked(rest)
            case ["peer", peer, rest]:
                return self._of_peer(peer) / _checked(rest)
        raise CryptoError("not a name of a secret", expected="a name, run/RUN/name or peer/PEER/name")

    def _of_peer(self, peer: str) -> Path:
        return self._folder / ".peers" / _checked(peer)

    def _peer(self, party: str) -> NodePublicKeys:
        if party not in self._peers:
            raise PeerForeign("the accord names no such party", expected=", ".join(sorted(self._peers)), found=party)
        return self._peers[party]


def run_secrets(folder: Path, run: str) -> Path:
    """Return the folder of what was put for a run: it goes with the run, however the run ends."""
    return folder / ".runs" / _checked(run)


def _drafts(path: Path) -> Path:
    """Return where drafts of a sealed file are: apart, since `forget` looks for them and there are next to none."""
    return path.parent / ".drafts"


def _checked(name: str) -> str:
    if len(name) > _LONGEST or not _NAME.fullmatch(name):
        expected = f"letters, digits, _ - and single dots between them, up to {_LONGEST}"
        raise CryptoError("not a name of a secret", expected=expected)
    return name


def party_secret(keys_folder: Path) -> bytes:
    """Return the secret that seeds the party's private streams, made on first use."""
    path = keys_folder / "party.secret"
    if not path.exists():
        write_once(path, secrets.token_bytes(SECRET_BYTES))
    return path.read_bytes()
