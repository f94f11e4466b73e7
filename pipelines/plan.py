"""The two digests of a run plan, and who signs which.

*Template*: pipeline, feature specs, component versions and messages, accord. A person at each party approves it once.
*Run*: the template with a salted commitment to every party's data snapshots. A node accepts it every night by itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from base.canonical import digest
from base.errors import SpecMismatch
from components.registry import catalogue, component
from pipelines.accord import SignedAccord, data_sets
from pipelines.spec import Name, PipelineSpec, Strict
from transport.door import PlanGuard
from transport.message import WIRE_VERSION


class Template(Strict):
    """What a person approves."""

    pipeline: dict[str, Any]  # the checked spec
    accord: str  # digest of the terms
    components: dict[Name, str]  # digest of version, messages and parameters
    specs: dict[Name, str]  # digest of every feature spec in use
    wire: int = WIRE_VERSION

    @property
    def digest(self) -> str:
        """SHA-256 of the template."""
        return digest(self.model_dump(mode="json"))


class RunPlan(Strict):
    """What the nodes accept for one run; every party signs its digest."""

    run: str
    template: str
    seed: int
    commitments: dict[Name, str]  # party -> salted SHA-256 of its snapshots

    @property
    def digest(self) -> str:
        """SHA-256 of the run plan."""
        return digest(self.model_dump(mode="json"))


def used_specs(spec: PipelineSpec, accord: SignedAccord) -> list[str]:
    """Return the names of the feature specs that the pipeline's data sets use."""
    parties = accord.terms.parties
    return sorted({parties[party].data_sets[name].spec for _, party, name in data_sets(spec)})


def make_template(spec: PipelineSpec, accord: SignedAccord, specs: Mapping[str, str]) -> Template:
    """Return the template of an admitted pipeline; `specs` are the digests of the node's own feature specs."""
    used = sorted({step.component for step in spec.steps.values()})
    return Template(
        pipeline=spec.model_dump(mode="json"),
        accord=accord.digest,
        components={name: digest(catalogue()[name]) for name in used},
        specs={name: specs[name] for name in used_specs(spec, accord)},
    )


def require_same_template(own: Template, theirs: Template, party: str, peer: str) -> None:
    """Raise `SpecMismatch` naming the first part in which two parties' templates differ."""
    if own.digest == theirs.digest:
        return
    ours, other = own.model_dump(mode="json"), theirs.model_dump(mode="json")
    remedies = {
        "accord": "both parties need the same signed accord",
        "components": "install the same release of Accord at both parties",
        "specs": "both parties need the same file in feature_specs",
    }
    words = {"accord": "accord", "components": "component", "specs": "feature spec"}
    for part, remedy in remedies.items():
        mine, others = _entries(ours[part]), _entries(other[part])
        for name in sorted(set(mine) | set(others)):
            if mine.get(name) != others.get(name):
                raise SpecMismatch(
                    f"{peer} and {party} hold another {words[part]} {name}".rstrip(),
                    expected=f"{str(mine.get(name))[:16]} (at {party})",
                    found=f"{str(others.get(name))[:16]} (at {peer})",
                    remedy=remedy,
                    party=party,
                )
    raise SpecMismatch(f"{peer} and {party} read the pipeline differently", party=party, remedy=remedies["components"])


def plan_guard(run: str, spec: PipelineSpec) -> PlanGuard:
    """Return what admits the messages that the steps of a run declare, and no other."""
    steps = spec.steps.items()
    tables = {name: component(step.component).table(step.params) for name, step in steps}
    return PlanGuard(run, {name: (table, spec.step_roles(name)) for name, table in tables.items()})


def commitment(salt: bytes, snapshots: Mapping[str, str]) -> str:
    """Return a salted commitment to the digests of a party's data sets; the salt stays with the party."""
    return hashlib.sha256(b"accord/1/snapshot\n" + salt + digest(dict(snapshots)).encode()).hexdigest()


def _entries(part: str | Mapping[str, str]) -> Mapping[str, str]:
    return {"": part} if isinstance(part, str) else part
