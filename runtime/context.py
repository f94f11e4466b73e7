"""What a role function sees, made of a channel, a store, keys and randomness of one party."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from base.errors import ConsentError
from components.contract import Checkpoint, Keys, require
from crypto.budget import Release
from features.spec import FeatureSpec
from runtime.randomness import Randomness
from runtime.spill import Spill
from transport.channel import Channel


class Observer(Protocol):
    """Hears how a step goes: the node's job table, a screen, or nobody."""

    def metric(self, name: str, value: float, round_number: int | None) -> None:
        """A number about the step."""

    def progress(self, done: int, total: int, unit: str) -> None:
        """How far the step is."""


def _no_budget(data_set: str, release: Release, what: str) -> None:
    raise ConsentError("there is no privacy budget here", expected="a node", found="a step without one")


@dataclass(frozen=True)
class Services:
    """What a party offers to every step that it runs."""

    keys: Keys
    party_secret: bytes
    spark: Callable[[], Any]
    spec: Callable[[str], FeatureSpec]
    data: Callable[[str], tuple[pa.Table, Mapping[str, Any]]]
    charge: Callable[[str, Release, str], None] = _no_budget  # data set, release, what for


@dataclass(frozen=True, repr=False)
class StepContext:
    """Implements `components.contract.Context`."""

    run: str
    step: str
    attempt: int
    party: str
    role: str
    roles: Mapping[str, tuple[str, ...]]
    inputs: Mapping[str, Any]
    services: Services
    randomness: Randomness
    channel: Channel
    checkpoint: Checkpoint
    observer: Observer
    spills: Spill
    registered: Callable[[str], Any] = lambda model: None  # this party's part of a registered model, by its digest

    @property
    def keys(self) -> Keys:
        """The party's keys."""
        return self.services.keys

    def parties(self, role: str) -> tuple[str, ...]:
        """Return the parties of a role, sorted by name."""
        return self.roles.get(role, ())

    def send(self, name: str, table: pa.Table, to: str | None = None) -> None:
        """Send a declared message."""
        self.channel.send(name, table, to)

    def recv(self, name: str, from_: str | None = None) -> pa.Table:
        """Wait for a declared message."""
        return self.channel.recv(name, from_)

    def recv_any(self, name: str, parties: Sequence[str], patience: float | None = None) -> tuple[str, pa.Table] | None:
        """Wait for a declared message from whichever of `parties` is first."""
        return self.channel.recv_any(name, parties, patience)

    def shared_rng(self, name: str) -> np.random.Generator:
        """Return the public stream `name`."""
        return self.randomness.shared(name)

    def private_rng(self, name: str) -> np.random.Generator:
        """Return the party's own stream `name`."""
        return self.randomness.private(name)

    def secret_bytes(self, n: int) -> bytes:
        """Return `n` bytes of the operating system's generator."""
        return self.randomness.secret_bytes(n)

    def metric(self, name: str, value: float, round_number: int | None = None) -> None:
        """Record a number about the step."""
        self.observer.metric(name, float(value), round_number)

    def progress(self, done: int, total: int, unit: str) -> None:
        """Tell how far the step is."""
        self.observer.progress(done, total, unit)

    def spark(self) -> Any:
        """Return the node's warm Spark session."""
        return self.services.spark()

    def spill(self) -> Path:
        """Return a new, empty folder that ends with the attempt."""
        return self.spills.folder()

    def spec(self, name: str) -> FeatureSpec:
        """Return a feature spec."""
        return self.services.spec(name)

    def data(self, name: str) -> tuple[pa.Table, Mapping[str, Any]]:
        """Return a data set of this party with its entry in the accord."""
        return self.services.data(name)

    def charge(self, data_set: str, release: Release, name: str) -> None:
        """Spend what a release costs of the privacy budget of a data set of this party."""
        self.services.charge(data_set, release, f"{self.run}/{self.step}/{self.attempt}: {name}")

    def require(self, condition: bool, what: str, *, expected: object, found: object, remedy: str = "") -> None:
        """Raise `DataError` unless the condition holds."""
        where = f"{self.party}, step {self.step}"
        require(condition, what, expected=expected, found=found, where=where, remedy=remedy)
