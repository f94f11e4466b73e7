"""The accord: default deny, every party's signature, and what it names."""

import errno
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from base.errors import ConsentError, EnvironmentMissing, PeerForeign, SpecError
from components.registry import catalogue
from crypto.node_keys import NodeKeys
from pipelines.accord import SignedAccord, make_terms, read_accord, write_accord
from pipelines.load import loads
from pipelines.plan import RunPlan, commitment, make_template

TODAY = date(2026, 6, 1)
CONDITIONS: dict[str, Any] = {
    "accord": "demo",
    "purpose": "recommend products to customers of the members",
    "legal_basis": "contract",
    "valid_from": "2026-01-01",
    "valid_until": "2026-12-31",
    "max_runs": 10,
    "parties": {"north_bank": {"ratings": {"spec": "interaction"}}, "bureau": {"people": {"spec": "user"}}},
}
TEXT = """\
pipeline: two
accord: demo
seed: 1
initiator: north_bank
roles: {data_holder: [north_bank, bureau]}
steps:
  load: {component: load_tables, params: {data_sets: {north_bank: [ratings], bureau: [people]}}}
"""


@pytest.fixture(scope="module")
def keys() -> dict[str, NodeKeys]:
    return {party: NodeKeys.generate() for party in CONDITIONS["parties"]}


@pytest.fixture
def accord(keys: dict[str, NodeKeys]) -> SignedAccord:
    components = {"load_tables": catalogue()["load_tables"]["version"]}
    terms = make_terms({**CONDITIONS, "components": components}, {party: own.public for party, own in keys.items()})
    unsigned = SignedAccord(terms=terms)
    return unsigned.model_copy(
        update={"signatures": {p: own.sign(unsigned.message()).hex() for p, own in keys.items()}}
    )


def test_signed_by_all_and_in_force(accord: SignedAccord) -> None:
    accord.verify(TODAY)
    accord.admit(loads(TEXT, "two.yaml").spec)


def test_a_missing_signature_names_the_command(accord: SignedAccord) -> None:
    half = accord.model_copy(update={"signatures": {"bureau": accord.signatures["bureau"]}})
    with pytest.raises(ConsentError, match="lacks the signature of north_bank") as caught:
        half.verify(TODAY)
    assert "accord sign DOCUMENT.json --party north_bank" in str(caught.value)


def test_changed_terms_no_longer_verify(accord: SignedAccord) -> None:
    changed = accord.model_copy(update={"terms": accord.terms.model_copy(update={"max_runs": 11})})
    with pytest.raises(PeerForeign):
        changed.verify(TODAY)


@pytest.mark.parametrize("day", [date(2025, 12, 31), date(2027, 1, 1)])
def test_outside_its_dates_nothing_runs(accord: SignedAccord, day: date) -> None:
    with pytest.raises(ConsentError, match="not in force"):
        accord.verify(day)


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("bureau: [people]", "bureau: [behaviour]", "data set of bureau"),
        ("[north_bank, bureau]", "[north_bank, bureau], receiver: [west_bank]", "party"),
        ("accord: demo", "accord: other", "accord"),
        ("load: {component: load_tables", "load: {component: load_tables", None),
    ],
)
def test_what_it_does_not_name_is_refused(accord: SignedAccord, old: str, new: str, what: str | None) -> None:
    spec = loads(TEXT.replace(old, new), "two.yaml").spec
    if what is None:
        accord.admit(spec)
        return
    with pytest.raises(ConsentError, match=f"does not name this {what}"):
        accord.admit(spec)


ALIGN = """\
  align:
    component: align_rsa
    roles: {receiver: [north_bank], sender: [bureau]}
    inputs: {tables: load.tables}
    params: {tables: {north_bank: ratings, bureau: people}, id_column: user_id, min_overlap: 50, max_signatures: 100}
"""


@pytest.mark.parametrize(
    ("terms", "what"),
    [
        ({}, None),
        ({"learns_alignment": ["bureau"]}, "learner"),
        ({"min_overlap": 51}, "min_overlap"),
        ({"max_signatures": 99}, "max_signatures"),
    ],
)
def test_an_alignment_keeps_to_the_accord(accord: SignedAccord, terms: dict[str, Any], what: str | None) -> None:
    agreed = {"learns_alignment": ["north_bank", "bureau"], "min_overlap": 50, "max_signatures": 100, **terms}
    components = {name: catalogue()[name]["version"] for name in ("load_tables", "align_rsa")}
    changed = accord.model_copy(update={"terms": accord.terms.model_copy(update={**agreed, "components": components})})
    spec = loads(TEXT + ALIGN, "two.yaml").spec
    if what is None:
        changed.admit(spec)
        return
    with pytest.raises(ConsentError, match=what):
        changed.admit(spec)


@pytest.mark.parametrize(
    ("old", "new", "line", "found", "remedy"),
    [
        ("bureau: [people]", "bureau: [peple]", 7, "peple", "did you mean 'people'?"),
        ("[north_bank, bureau]", "[north_bank, bureau], receiver: [buraeu]", 5, "buraeu", "did you mean 'bureau'?"),
    ],
)
def test_a_refusal_names_file_line_and_key(
    accord: SignedAccord, old: str, new: str, line: int, found: str, remedy: str
) -> None:
    pipeline = loads(TEXT.replace(old, new), "two.yaml")
    with pytest.raises(ConsentError) as caught:
        accord.admit(pipeline.spec, pipeline.at)
    assert (caught.value.where or "").startswith(f"two.yaml:{line}, key ")
    assert caught.value.found == found
    assert remedy in (caught.value.remedy or "")


def test_another_component_version_is_refused(accord: SignedAccord) -> None:
    old = accord.terms.model_copy(update={"components": {"load_tables": 99}})
    with pytest.raises(ConsentError, match="component"):
        accord.model_copy(update={"terms": old}).admit(loads(TEXT, "two.yaml").spec)


def test_it_comes_back_from_its_file(accord: SignedAccord, tmp_path: Path) -> None:
    write_accord(tmp_path / "demo.json", accord)
    assert read_accord(tmp_path / "demo.json") == accord
    (tmp_path / "demo.json").write_text("{}")
    with pytest.raises(SpecError):
        read_accord(tmp_path / "demo.json")


def test_a_template_changes_with_every_part_of_it(accord: SignedAccord) -> None:
    specs = {"interaction": "a" * 64, "user": "b" * 64}
    spec = loads(TEXT, "two.yaml").spec
    template = make_template(spec, accord, specs)
    others = [
        make_template(spec.model_copy(update={"seed": 2}), accord, specs),
        make_template(spec, accord, {**specs, "user": "c" * 64}),
        template.model_copy(update={"wire": 2}),
        template.model_copy(update={"components": {"load_tables": "0"}}),
    ]
    assert template.digest == make_template(spec, accord, specs).digest
    assert template.digest not in {other.digest for other in others}
    assert len({other.digest for other in others}) == len(others)


def test_a_commitment_hides_the_snapshot_behind_its_salt() -> None:
    first, second = (commitment(salt, {"ratings": "a" * 64}) for salt in (b"1" * 32, b"2" * 32))
    assert first != second
    assert commitment(b"1" * 32, {"ratings": "b" * 64}) != first
    plan = RunPlan(run="r1", template="t", seed=1, commitments={"north_bank": first})
    assert plan.digest != plan.model_copy(update={"commitments": {"north_bank": second}}).digest


def test_a_write_that_breaks_off_leaves_the_old_accord(accord: SignedAccord, tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "accords" / "demo.json"
    write_accord(path, accord)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "")

    monkeypatch.setattr("base.files.os.replace", full)
    with pytest.raises(EnvironmentMissing, match="No space left"):
        write_accord(path, accord.model_copy(update={"signatures": {}}))
    assert read_accord(path) == accord
