"""The contract that every component keeps: one federated step = one file = one `COMPONENT`.

A role function sees its `Context` and nothing else: no file, no network, no configuration. The same function runs in
threads (simulation), in one process per party over mutual TLS, and in a node driven by Airflow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict

from base.errors import DataError
from transport.message import Message

# What a step may leave behind. Tables keep rows, a bundle keeps named tables, arrays keep numbers (safetensors), a
# document keeps JSON.
Arrays = Mapping[str, np.ndarray]
Artefact: TypeAlias = pa.Table | Mapping[str, pa.Table] | Arrays | Mapping[str, Any]
Outputs = Mapping[str, Artefact]


class Params(BaseModel):
    """Parameters of a component: unknown keys are refused, values do not change."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Keys(Protocol):
    """The party's keys as a component may use them; no private key ever leaves this object."""

    def sign(self, data: bytes) -> bytes:
        """Sign with the party's Ed25519 key (64 bytes)."""

    def verify(self, party: str, data: bytes, signature: bytes) -> None:
        """Raise `PeerForeign` unless `party` signed `data`."""

    def wrap(self, party: str, secret: bytes, context: bytes) -> bytes:
        """Seal a secret for `party`'s X25519 node key (HKDF-SHA256, AES-256-GCM); `context` is authenticated."""

    def unwrap(self, party: str, sealed: bytes, context: bytes) -> bytes:
        """Open what `party` sealed for this node; raise `CryptoError` if it does not fit."""

    def keep(self, name: str, make: Callable[[], bytes]) -> bytes:
        """Return the long-lived secret `name` from the key store of the node, made on first use; it never changes.

        It is of one accord; `party/NAME` is the same in all accords of the party.
        """

    def put(self, name: str, data: bytes) -> None:
        """Keep `data`, sealed for this node, under `name`; what is there is replaced, as a whole.

        Names are small and capital letters, digits, `_`, `-` and `.`, up to 220; those of `keep` are apart from these.
        What is put under `run/RUN/NAME` goes when the run ends, however it ends; `peer/PEER/NAME` by `forget_peer`.
        Up to 2 GB; a second copy is in memory meanwhile. Of two steps that put one name at once the later one stays.
        """

    def get(self, name: str) -> bytes | None:
        """Return what was put last, or None; `CryptoError` when the file is not what this node sealed as `name`."""

    def forget(self, name: str) -> None:
        """Remove what was put under `name`; nothing happens when nothing was."""

    def forget_peer(self, peer: str) -> None:
        """Remove all that was put under `peer/PEER/...`, whatever the names."""


class Checkpoint(Protocol):
    """Where a step goes on after a crash. All parties resume at the highest round that all of them hold."""

    def resume(self) -> tuple[int, Arrays] | None:
        """Return (round, state) of the agreed checkpoint, or None to start at the beginning."""

    def save(self, round_number: int, state: Arrays) -> None:
        """Keep the state after `round_number`; state never holds a mask, pad or encryption randomness."""


class Context(Protocol):
    """All that a role function sees."""

    @property
    def run(self) -> str:
        """The run's name."""

    @property
    def step(self) -> str:
        """The step's name in the pipeline."""

    @property
    def attempt(self) -> int:
        """1, 2, ...: a step that died is tried again with fresh keys."""

    @property
    def party(self) -> str:
        """The name of the party that runs the function."""

    @property
    def role(self) -> str:
        """What this party does in the component."""

    @property
    def inputs(self) -> Mapping[str, Any]:
        """Artefacts by input name; an optional input of another party is absent."""

    @property
    def keys(self) -> Keys:
        """The party's keys."""

    @property
    def checkpoint(self) -> Checkpoint:
        """Where to resume."""

    def parties(self, role: str) -> tuple[str, ...]:
        """Return the parties of a role, sorted by name: the one order of every sum."""

    def send(self, name: str, table: pa.Table, to: str | None = None) -> None:
        """Send a declared message to one party, or to every other party of the receiving role."""

    def recv(self, name: str, from_: str | None = None) -> pa.Table:
        """Wait for the next declared message of this name; `from_` may be left out when only one party can send it."""

    def recv_any(self, name: str, parties: Sequence[str], patience: float | None = None) -> tuple[str, pa.Table] | None:
        """Wait for the next declared message of this name from whichever of `parties` is first; return who, and it.

        None when nothing came within `patience` seconds.
        """

    def shared_rng(self, name: str) -> np.random.Generator:
        """Public choices: the same stream at every party of the run (protocols.md §0)."""

    def private_rng(self, name: str) -> np.random.Generator:
        """Choices that a peer must not predict: seeded by the party's secret, the same again for the same run seed."""

    def secret_bytes(self, n: int) -> bytes:
        """Bytes of the operating system's generator: masks, blinding, encryption; never seeded, never kept."""

    def metric(self, name: str, value: float, round_number: int | None = None) -> None:
        """Record a number about the step; never a number about one person."""

    def progress(self, done: int, total: int, unit: str) -> None:
        """Tell how far the step is; the screen shows the remaining time."""

    def spark(self) -> Any:
        """Return the node's warm Spark session."""

    def spill(self) -> Path:
        """Return a new, empty folder (0700) below the node's store, for what does not fit in memory.

        It ends with the attempt, however that ends: what a further attempt needs goes into a checkpoint.
        """

    def spec(self, name: str) -> Any:
        """Return the feature spec `name` (features.spec.FeatureSpec) whose digest the run plan holds."""

    def data(self, name: str) -> tuple[pa.Table, Mapping[str, Any]]:
        """Return a data set of this party as it lies there (all text), with its entry in the accord."""

    def registered(self, model: str) -> Arrays | None:
        """Return this party's part of a model that the pipeline registered, by digest or `latest`; None without one."""

    def charge(self, data_set: str, release: Any, name: str) -> None:
        """Spend what a release (crypto.budget.Release) costs of the privacy budget of a data set of this party.

        Charge before anything leaves: it is stored when this returns. `ConsentError` when the accord does not allow it.
        """

    def require(self, condition: bool, what: str, *, expected: object, found: object, remedy: str = "") -> None:
        """Raise `DataError` unless the condition holds."""


RoleFunction = Callable[[Context, Any], Outputs]


@dataclass(frozen=True)
class Component:
    """A step as the platform sees it."""

    name: str
    roles: Mapping[str, RoleFunction]
    params: type[Params]
    messages: tuple[Message, ...] = ()
    inputs: Mapping[str, str] = field(default_factory=dict)  # name -> what it is
    outputs: Mapping[str, str] = field(default_factory=dict)
    optional_inputs: Sequence[str] = ()
    min_parties: Mapping[str, int] = field(default_factory=dict)
    version: int = 1
    adversary: str = ""  # adversary, collusion and what is not protected, in three lines; printed by `accord messages`
    registers: bool = False  # its input `model` is registered under its output `manifest`

    def table(self, params: Mapping[str, Any]) -> tuple[Message, ...]:
        """Return the messages that a step with these parameters may send: what others need is refused."""
        filled = {name: f.default for name, f in self.params.model_fields.items()} | dict(params)
        return tuple(message for message in self.messages if message.admitted(filled))


def require(condition: bool, what: str, *, expected: object, found: object, where: str, remedy: str = "") -> None:
    """Raise `DataError` unless the condition holds; `Context.require` adds where."""
    if not condition:
        raise DataError(what, expected=expected, found=found, where=where, remedy=remedy or None)
