"""The accord: the signed agreement between the organisations, and what it allows.

Every party signs the same terms with its Ed25519 node key. Each node keeps its own copy and enforces it at its own
door, default deny: what the terms do not name is refused. The terms also carry every party's public keys, so a node
trusts exactly the keys that its own approver signed for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, StringConstraints, ValidationError

from base.canonical import canonical_bytes, digest
from base.errors import ConsentError, SpecError
from base.files import write_whole
from components.registry import catalogue
from crypto.node_keys import NodePublicKeys
from pipelines.alignment_terms import AlignmentTerms, Locate, admit_alignment, need
from pipelines.privacy_terms import PrivacyTerms, admit_privacy
from pipelines.spec import Name, PipelineSpec, Strict
from pipelines.sum_terms import SumTerms, admit_sum
from pipelines.wrong_document import refuse

Hex32 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Day = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}$")]
DOMAIN = b"accord/1/terms\n"


class DataSetTerms(Strict):
    """A data set that a party brings: its feature spec, and for a public catalogue its SHA-256."""

    spec: Name
    digest: Hex32 | None = None


class PartyTerms(Strict):
    """A party's public node keys (raw, hex) and the data sets that it brings."""

    signing_key: Hex32
    agreement_key: Hex32
    data_sets: dict[Name, DataSetTerms] = {}

    @property
    def keys(self) -> NodePublicKeys:
        """The party's public keys."""
        return NodePublicKeys(bytes.fromhex(self.signing_key), bytes.fromhex(self.agreement_key))


class AccordTerms(AlignmentTerms, SumTerms, PrivacyTerms):
    """What the parties agree on."""

    accord: Name
    version: Annotated[int, Field(ge=1)] = 1
    purpose: Annotated[str, Field(min_length=10)]
    legal_basis: Annotated[str, Field(min_length=3)]
    valid_from: Day
    valid_until: Day
    parties: Annotated[dict[Name, PartyTerms], Field(min_length=2)]
    components: dict[Name, Annotated[int, Field(ge=1)]]  # name -> version
    max_runs: Annotated[int, Field(ge=1)]  # a node refuses the next one


class SignedAccord(Strict):
    """Terms with the signatures (hex) of the parties."""

    terms: AccordTerms
    signatures: dict[Name, str] = {}

    @property
    def digest(self) -> str:
        """SHA-256 of the terms."""
        return digest(self.terms.model_dump(mode="json"))

    def message(self) -> bytes:
        """Return the bytes that every party signs."""
        return DOMAIN + canonical_bytes(self.terms.model_dump(mode="json"))

    def verify(self, today: date) -> None:
        """Raise `PeerForeign` for a wrong signature, `ConsentError` for a missing one or a day outside the dates."""
        name = f"accord {self.terms.accord}"
        for party, terms in self.terms.parties.items():
            if party not in self.signatures:
                remedy = (
                    f"accord sign DOCUMENT.json --party {party}, with the document that goes round; when all have"
                    " signed, every other party renews its copy by the same command with its own name"
                )
                what = f"this copy of the accord lacks the signature of {party}"
                raise ConsentError(what, where=f"{name}, version {self.terms.version}", remedy=remedy)
            terms.keys.verify(party, self.message(), bytes.fromhex(self.signatures[party]))
        if not self.terms.valid_from <= today.isoformat() <= self.terms.valid_until:
            span = f"{self.terms.valid_from} to {self.terms.valid_until}"
            raise ConsentError("the accord is not in force today", expected=span, found=today.isoformat(), where=name)

    def admit(self, spec: PipelineSpec, at: Locate | None = None) -> None:
        """Raise `ConsentError` unless the pipeline uses only what the terms name; `at` says where a key stands."""
        terms, where = self.terms, at or (lambda path: f"accord {terms.accord}")
        need("accord", {spec.accord}, {terms.accord}, where(("accord",)))
        need("party", set(spec.parties), set(terms.parties), where(("roles",)))
        named = {f"{name} version {version}" for name, version in terms.components.items()}
        for name, step in spec.steps.items():
            used = f"{step.component} version {catalogue()[step.component]['version']}"
            need("component", {used}, named, where(("steps", name, "component")))
            if step.component.startswith("align_"):
                admit_alignment(terms, spec, name, where)
            admit_sum(terms, spec, name, where)
            admit_privacy(terms, spec, name, where)
        for name, party, data_set in data_sets(spec):
            found = where(("steps", name, "params", "data_sets", party))
            need("party", {party}, set(terms.parties), found)
            need(f"data set of {party}", {data_set}, set(terms.parties[party].data_sets), found)


def data_sets(spec: PipelineSpec) -> list[tuple[str, str, str]]:
    """Return (step, party, data set) for everything that the pipeline loads."""
    loads = ((name, step.params.get("data_sets", {})) for name, step in spec.steps.items())
    return [(name, party, item) for name, sets in loads for party, items in sets.items() for item in items]


def read_accord(path: Path) -> SignedAccord:
    """Read a signed accord from JSON; `SpecError` names what is wrong."""
    try:
        return SignedAccord.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise ConsentError("this party keeps no such accord", where=str(path), remedy="accord sign") from None
    except (ValidationError, json.JSONDecodeError) as error:
        raise SpecError("the accord cannot be read", found=type(error).__name__, where=str(path)) from None


def write_accord(path: Path, accord: SignedAccord) -> None:
    """Write a signed accord as JSON for people and machines; a node that reads meanwhile sees the old or the new."""
    write_whole(path, (json.dumps(accord.model_dump(mode="json"), indent=2, sort_keys=True) + "\n").encode())


def make_terms(conditions: Mapping[str, Any], keys: Mapping[str, NodePublicKeys]) -> AccordTerms:
    """Return the terms of `conf/accords/*.yaml` with the parties' public keys filled in."""
    parties = {
        party: {
            "data_sets": entry or {},
            "signing_key": keys[party].signing.hex(),
            "agreement_key": keys[party].agreement.hex(),
        }
        for party, entry in conditions["parties"].items()
    }
    return AccordTerms.model_validate({**conditions, "parties": parties})


def check_conditions(conditions: Mapping[str, Any], at: Locate) -> None:
    """Raise `SpecError` for conditions that are wrong whatever the parties' keys are; `at` says where a key stands."""
    anybody = NodePublicKeys(bytes(32), bytes(32))
    try:
        make_terms(conditions, dict.fromkeys(conditions["parties"], anybody))
    except ValidationError as error:
        # People write data sets under the party itself.
        refuse(AccordTerms, error, lambda path: at(path[:2] + path[3:] if path[:1] == ("parties",) else path))
