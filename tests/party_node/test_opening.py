"""Every node decides for itself whether it takes part: each refusal, and the two-phase opening."""

import pytest
from run_parties import FILE, SMALL, ask, open_all, plan, sign_anew

from base.errors import ApprovalMissing, ConsentError, PeerForeign, SpecMismatch, StateError
from party_node.database import Attempt, Database
from party_node.runs import FAILED, OPEN


def test_all_parties_open_a_run_that_all_signed(parties):
    open_all(parties)
    assert {at.runs.get("r1").state for at in parties.values()} == {OPEN}


def test_commitments_are_salted(parties):
    first = plan(parties, ask(parties, "r1")).commitments
    second = plan(parties, ask(parties, "r2")).commitments
    assert not set(first.values()) & set(second.values())


def test_preparing_twice_is_the_same(parties):
    body = ask(parties)
    assert plan(parties, body) == plan(parties, body)


@pytest.mark.parametrize(
    "run", ["", ".", "..", "../r1", "r1/..", "/r1", "r.1", "r1\n", "r\0", "-r", "r" * 129, "rün", 7.5]
)
def test_a_run_is_named_so_that_no_path_and_no_secret_of_another_is_meant(parties, organisations, run):
    """Folders and sealed secrets carry the run's name, and the initiator of a run chooses it."""
    with pytest.raises(ConsentError):
        parties["bureau"].opening.prepare("north_bank", ask(parties) | {"run": run})
    assert (
        parties["bureau"].opening.abandon("north_bank", {"run": run, "error": ConsentError("no more").to_wire()}) == {}
    )
    assert organisations.home("bureau").path("party.yaml").exists()


def test_only_the_initiator_opens(parties):
    with pytest.raises(ConsentError, match="only the initiator"):
        parties["bureau"].opening.prepare("south_bank", ask(parties))
    plan(parties, ask(parties))
    with pytest.raises(ConsentError, match="only the initiator"):
        parties["bureau"].opening.open("south_bank", {"run": "r1", "signatures": {}})


def test_another_component_version_is_named(parties):
    body = ask(parties)
    body["template"]["components"]["align_rsa"] = "0" * 64
    with pytest.raises(SpecMismatch, match="component align_rsa"):
        parties["bureau"].opening.prepare("north_bank", body)


def test_the_quota_counts_opened_runs(parties, organisations):
    sign_anew(organisations, max_runs=1)
    for at in parties.values():
        at.approvals.approve(SMALL, FILE, "somebody")
    plan(parties, ask(parties, "never-opened"))
    open_all(parties, "r1")
    with pytest.raises(ConsentError, match="used up"):
        parties["bureau"].opening.prepare("north_bank", ask(parties, "r2"))


def test_runs_prepared_together_do_not_pass_the_quota_when_they_are_opened(parties, organisations):
    sign_anew(organisations, max_runs=1)
    for at in parties.values():
        at.approvals.approve(SMALL, FILE, "somebody")
    plan(parties, ask(parties, "r1"))
    plan(parties, ask(parties, "r2"))
    open_all(parties, "r1")
    with pytest.raises(ConsentError, match="used up"):
        open_all(parties, "r2")
    with pytest.raises(StateError):
        parties["bureau"].runs.require_open("r2", "north_bank")


@pytest.mark.parametrize("begun", [True, False])
def test_abandoning_a_run_gives_nothing_back_once_a_step_has_begun(parties, organisations, begun):
    sign_anew(organisations, max_runs=1)
    for at in parties.values():
        at.approvals.approve(SMALL, FILE, "somebody")
    open_all(parties, "r1")
    home = organisations.home("bureau")
    if begun:
        with Database(home.url(home.conf.database)).write() as session:
            session.add(Attempt(run="r1", step="load", attempt=1, state="succeeded", created=1.0))
    parties["bureau"].opening.abandon("north_bank", {"run": "r1", "error": ConsentError("no more").to_wire()})
    body = ask(parties, "r2")
    if begun:
        with pytest.raises(ConsentError, match="used up"):
            parties["bureau"].opening.prepare("north_bank", body)
    else:
        parties["bureau"].opening.prepare("north_bank", body)


def test_one_plan_is_signed_for_a_run(parties):
    made = plan(parties, ask(parties)).model_dump(mode="json")
    signature = parties["bureau"].opening.accept("north_bank", {"plan": made})
    assert parties["bureau"].opening.accept("north_bank", {"plan": made}) == signature
    other = {**made, "commitments": {**made["commitments"], "south_bank": "0" * 64}}
    with pytest.raises(ConsentError, match="another plan"):
        parties["bureau"].opening.accept("north_bank", {"plan": other})


@pytest.mark.parametrize("field", ["seed", "template", "commitments"])
def test_a_plan_other_than_prepared_is_not_signed(parties, field):
    made = plan(parties, ask(parties)).model_dump(mode="json")
    other = {"seed": 8, "template": "0" * 64, "commitments": {**made["commitments"], "bureau": "0" * 64}}
    with pytest.raises(ConsentError, match="not what this party prepared"):
        parties["bureau"].opening.accept("north_bank", {"plan": {**made, field: other[field]}})


def test_changed_data_are_noticed_between_preparing_and_accepting(parties, organisations):
    made = plan(parties, ask(parties)).model_dump(mode="json")
    path = organisations.directory("bureau") / "data" / "people.csv"
    path.write_text(path.read_text() + "C0000999,30,F,none,12345\n")
    with pytest.raises(ConsentError, match="not what this party prepared"):
        parties["bureau"].opening.accept("north_bank", {"plan": made})


def test_one_missing_or_foreign_signature_opens_nothing(parties):
    made = plan(parties, ask(parties)).model_dump(mode="json")
    signatures = {p: at.opening.accept("north_bank", {"plan": made})["signature"] for p, at in parties.items()}
    for bad in ({**signatures, "south_bank": signatures["bureau"]}, {"bureau": signatures["bureau"]}):
        with pytest.raises(PeerForeign):
            parties["bureau"].opening.open("north_bank", {"run": "r1", "signatures": bad})
    with pytest.raises(StateError):
        parties["bureau"].runs.require_open("r1", "north_bank")


def test_an_abandoned_run_keeps_the_reason(parties):
    plan(parties, ask(parties))
    error = ApprovalMissing("nobody approved", party="south_bank")
    parties["bureau"].opening.abandon("north_bank", {"run": "r1", "error": error.to_wire()})
    row = parties["bureau"].runs.get("r1")
    assert (row.state, row.error["code"], row.error["party"]) == (FAILED, 21, "south_bank")
    assert parties["bureau"].opening.abandon("north_bank", {"run": "unknown", "error": error.to_wire()}) == {}
