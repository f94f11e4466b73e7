"""Every node decides for itself whether it takes part: each refusal, and the two-phase opening."""

import shutil
from pathlib import Path

import pytest

from base.errors import (
    AccordError,
    ApprovalMissing,
    ConsentError,
    MessageRefused,
    PeerForeign,
    SpecError,
    SpecMismatch,
    StateError,
)
from party_node.accords import Accords
from party_node.database import Attempt, Database
from party_node.ledger_store import SqlLedgerStore
from party_node.runs import CLOSED, FAILED, OPEN, Runs
from party_node.signing import draft, install, read_conditions, sign
from pipelines.plan import RunPlan
from transport.ledger import Ledger

PARTIES = ("north_bank", "south_bank", "bureau")
FILE = "conf/pipelines/small.yaml"
SMALL = Path(__file__).with_name("small.yaml").read_text(encoding="utf-8")


def runs_of(consortium, party):
    home = consortium.home(party)
    accords = Accords(home)
    database = Database(home.url(home.conf.database))
    return Runs(home, database, accords, Ledger(accords, SqlLedgerStore(database)))


@pytest.fixture
def parties(organisations):
    found = {party: runs_of(organisations, party) for party in PARTIES}
    for runs in found.values():
        runs.approve(SMALL, FILE, "somebody")
    return found


def ask(parties, run="r1", text=SMALL, seed=7):
    template = parties["north_bank"].template(text, FILE)[2]
    return {"run": run, "text": text, "file": FILE, "seed": seed, "template": template.model_dump(mode="json")}


def plan(parties, body, **changes):
    prepared = {party: runs.prepare("north_bank", body) for party, runs in parties.items()}
    fields = {
        "run": body["run"],
        "template": prepared["north_bank"]["template"],
        "seed": body["seed"],
        "commitments": {party: answer["commitment"] for party, answer in prepared.items()},
    }
    return RunPlan(**{**fields, **changes})


def open_all(parties, run="r1"):
    made = plan(parties, ask(parties, run)).model_dump(mode="json")
    signatures = {p: runs.accept("north_bank", {"plan": made})["signature"] for p, runs in parties.items()}
    for runs in parties.values():
        runs.open("north_bank", {"run": run, "signatures": signatures})
    return signatures


def test_all_parties_open_a_run_that_all_signed(parties):
    open_all(parties)
    assert {runs.get("r1").state for runs in parties.values()} == {OPEN}


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
        parties["bureau"].prepare("north_bank", ask(parties) | {"run": run})
    assert parties["bureau"].abandon("north_bank", {"run": run, "error": ConsentError("no more").to_wire()}) == {}
    assert organisations.home("bureau").path("party.yaml").exists()


def test_only_the_initiator_opens(parties):
    with pytest.raises(ConsentError, match="only the initiator"):
        parties["bureau"].prepare("south_bank", ask(parties))
    plan(parties, ask(parties))
    with pytest.raises(ConsentError, match="only the initiator"):
        parties["bureau"].open("south_bank", {"run": "r1", "signatures": {}})


def test_an_edited_pipeline_is_refused_with_the_line_to_type(parties):
    edited = SMALL.replace("min_overlap: 100", "min_overlap: 101")
    with pytest.raises(ApprovalMissing) as error:
        parties["bureau"].prepare("north_bank", ask(parties, text=edited))
    assert error.value.remedy == f"accord approve {FILE} --party bureau"
    parties["bureau"].approve(edited, FILE, "somebody")
    parties["bureau"].prepare("north_bank", ask(parties, text=edited))


def test_comments_and_layout_of_the_yaml_need_no_new_approval(parties):
    parties["bureau"].prepare("north_bank", ask(parties, text="# a remark\n" + SMALL))


def test_a_wrong_pipeline_is_refused_with_its_line(parties):
    with pytest.raises(SpecError) as error:
        parties["bureau"].template(SMALL.replace("seed: 7", "seed: seven"), FILE)
    assert f"{FILE}:4, key seed" in error.value.where


@pytest.mark.parametrize("file", ["", "a b", "x\n", "\x1b[2J", "x;rm", "a" * 300])
def test_a_file_name_that_could_mislead_a_terminal_is_refused(parties, file):
    with pytest.raises(ConsentError, match="plain file name"):
        parties["bureau"].template(SMALL, file)


def test_another_feature_spec_is_named_at_the_party_that_refuses(parties, organisations):
    spec = organisations.directory("bureau") / "feature_specs" / "user.yaml"
    spec.write_text(spec.read_text().replace("on_null: drop", "on_null: refuse", 1))
    with pytest.raises(SpecMismatch, match="feature spec user") as error:
        parties["bureau"].prepare("north_bank", ask(parties))
    assert error.value.party == "bureau"
    spec.unlink()
    with pytest.raises(SpecMismatch, match="missing"):
        parties["bureau"].prepare("north_bank", ask(parties))


def test_another_component_version_is_named(parties):
    body = ask(parties)
    body["template"]["components"]["align_rsa"] = "0" * 64
    with pytest.raises(SpecMismatch, match="component align_rsa"):
        parties["bureau"].prepare("north_bank", body)


def _sign(organisations, parties=PARTIES, **changes):
    from party_node.identity import public_keys

    conditions = {**read_conditions(organisations._conf / "accords" / "demo.yaml"), **changes}
    conditions["parties"] = {party: conditions["parties"][party] for party in PARTIES}
    conditions["learns_alignment"] = changes.get("learns_alignment", ["north_bank", "bureau"])
    accord = draft(conditions, {p: public_keys(organisations.directory(p)) for p in PARTIES}, "demo.yaml")
    for party in parties:
        accord = sign(accord, organisations.home(party))
    for party in PARTIES:
        install(accord, organisations.home(party))


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"valid_until": "2026-01-02"}, "not in force"),
        ({"learns_alignment": ["north_bank"]}, "learner of the alignment"),
        ({"components": {"load_tables": 1}}, "component"),
        ({"components": {"load_tables": 2, "align_rsa": 1}}, "component"),
    ],
)
def test_what_the_accord_does_not_name_is_refused(parties, organisations, changes, what):
    _sign(organisations, **changes)
    with pytest.raises(ConsentError, match=what):
        parties["bureau"].template(SMALL, FILE)


def test_an_accord_that_one_party_has_not_signed_is_no_accord(parties, organisations):
    _sign(organisations, parties=("north_bank", "bureau"))
    with pytest.raises(ConsentError, match="south_bank has not signed"):
        parties["bureau"].template(SMALL, FILE)


def test_terms_changed_after_signing_are_refused(parties, organisations):
    path = organisations.directory("bureau") / "accords" / "demo.json"
    path.write_text(path.read_text().replace('"max_runs": 10000', '"max_runs": 20000'))
    with pytest.raises(PeerForeign, match="does not verify"):
        parties["bureau"].template(SMALL, FILE)


def test_no_accord_no_run(parties, organisations):
    shutil.rmtree(organisations.directory("bureau") / "accords")
    with pytest.raises(ConsentError):
        parties["bureau"].template(SMALL, FILE)


def test_the_quota_counts_opened_runs(parties, organisations):
    _sign(organisations, max_runs=1)
    for runs in parties.values():
        runs.approve(SMALL, FILE, "somebody")
    plan(parties, ask(parties, "never-opened"))
    open_all(parties, "r1")
    with pytest.raises(ConsentError, match="used up"):
        parties["bureau"].prepare("north_bank", ask(parties, "r2"))


def test_runs_prepared_together_do_not_pass_the_quota_when_they_are_opened(parties, organisations):
    _sign(organisations, max_runs=1)
    for runs in parties.values():
        runs.approve(SMALL, FILE, "somebody")
    plan(parties, ask(parties, "r1"))
    plan(parties, ask(parties, "r2"))
    open_all(parties, "r1")
    with pytest.raises(ConsentError, match="used up"):
        open_all(parties, "r2")
    with pytest.raises(StateError):
        parties["bureau"].require_open("r2", "north_bank")


@pytest.mark.parametrize("begun", [True, False])
def test_abandoning_a_run_gives_nothing_back_once_a_step_has_begun(parties, organisations, begun):
    _sign(organisations, max_runs=1)
    for runs in parties.values():
        runs.approve(SMALL, FILE, "somebody")
    open_all(parties, "r1")
    home = organisations.home("bureau")
    if begun:
        with Database(home.url(home.conf.database)).write() as session:
            session.add(Attempt(run="r1", step="load", attempt=1, state="succeeded", created=1.0))
    parties["bureau"].abandon("north_bank", {"run": "r1", "error": ConsentError("no more").to_wire()})
    body = ask(parties, "r2")
    if begun:
        with pytest.raises(ConsentError, match="used up"):
            parties["bureau"].prepare("north_bank", body)
    else:
        parties["bureau"].prepare("north_bank", body)


def test_one_plan_is_signed_for_a_run(parties):
    made = plan(parties, ask(parties)).model_dump(mode="json")
    signature = parties["bureau"].accept("north_bank", {"plan": made})
    assert parties["bureau"].accept("north_bank", {"plan": made}) == signature
    other = {**made, "commitments": {**made["commitments"], "south_bank": "0" * 64}}
    with pytest.raises(ConsentError, match="another plan"):
        parties["bureau"].accept("north_bank", {"plan": other})


def test_an_open_run_stops_when_its_accord_is_replaced(parties, organisations):
    open_all(parties)
    parties["bureau"].require_unchanged("r1", "load")
    _sign(organisations, version=2)
    with pytest.raises(ConsentError, match="not those of the run"):
        parties["bureau"].require_unchanged("r1", "load")


def test_an_open_run_stops_when_a_feature_spec_is_edited(parties, organisations):
    open_all(parties)
    spec = organisations.directory("bureau") / "feature_specs" / "user.yaml"
    spec.write_text(spec.read_text().replace("on_null: drop", "on_null: refuse", 1))
    with pytest.raises(ConsentError, match="not those of the run"):
        parties["bureau"].require_unchanged("r1", "load")


def test_data_changed_after_the_run_was_opened_are_not_loaded(parties, organisations):
    open_all(parties)
    path = organisations.directory("bureau") / "data" / "people.csv"
    path.write_text(path.read_text() + "C0000999,30,F,none,12345\n")
    with pytest.raises(ConsentError, match="committed to"):
        parties["bureau"].require_unchanged("r1", "load")
    parties["bureau"].require_unchanged("r1", "align")  # works on what was loaded
    parties["south_bank"].require_unchanged("r1", "load")


@pytest.mark.parametrize("field", ["seed", "template", "commitments"])
def test_a_plan_other_than_prepared_is_not_signed(parties, field):
    made = plan(parties, ask(parties)).model_dump(mode="json")
    other = {"seed": 8, "template": "0" * 64, "commitments": {**made["commitments"], "bureau": "0" * 64}}
    with pytest.raises(ConsentError, match="not what this party prepared"):
        parties["bureau"].accept("north_bank", {"plan": {**made, field: other[field]}})


def test_changed_data_are_noticed_between_preparing_and_accepting(parties, organisations):
    made = plan(parties, ask(parties)).model_dump(mode="json")
    path = organisations.directory("bureau") / "data" / "people.csv"
    path.write_text(path.read_text() + "C0000999,30,F,none,12345\n")
    with pytest.raises(ConsentError, match="not what this party prepared"):
        parties["bureau"].accept("north_bank", {"plan": made})


def test_one_missing_or_foreign_signature_opens_nothing(parties):
    made = plan(parties, ask(parties)).model_dump(mode="json")
    signatures = {p: runs.accept("north_bank", {"plan": made})["signature"] for p, runs in parties.items()}
    for bad in ({**signatures, "south_bank": signatures["bureau"]}, {"bureau": signatures["bureau"]}):
        with pytest.raises(PeerForeign):
            parties["bureau"].open("north_bank", {"run": "r1", "signatures": bad})
    with pytest.raises(StateError):
        parties["bureau"].require_open("r1", "north_bank")


def test_an_abandoned_run_keeps_the_reason(parties):
    plan(parties, ask(parties))
    error = ApprovalMissing("nobody approved", party="south_bank")
    parties["bureau"].abandon("north_bank", {"run": "r1", "error": error.to_wire()})
    row = parties["bureau"].get("r1")
    assert (row.state, row.error["code"], row.error["party"]) == (FAILED, 21, "south_bank")
    assert parties["bureau"].abandon("north_bank", {"run": "unknown", "error": error.to_wire()}) == {}


def _heads(parties):
    return [runs.head("north_bank", {"run": "r1"}) for runs in parties.values()]


def test_closing_leaves_every_head_signed_by_every_other_party(parties):
    open_all(parties)
    body = {"run": "r1", "heads": _heads(parties)}
    signed = {p: runs.countersign("north_bank", body) for p, runs in parties.items()}
    for party, runs in parties.items():
        mine = {p: answer["signatures"][party] for p, answer in signed.items() if p != party}
        forged = {**mine, next(iter(mine)): "00" * 64}
        with pytest.raises(AccordError):
            runs.close("north_bank", {"run": "r1", "signatures": forged})
        runs.close("north_bank", {"run": "r1", "signatures": mine})
        assert runs.get("r1").state == CLOSED


def test_an_initiator_gets_no_signature_under_a_head_that_it_made_up(parties):
    """Else the other party's true chain would contradict a signature that everybody believes."""
    open_all(parties)
    true = parties["south_bank"].head("north_bank", {"run": "r1"})
    own = parties["north_bank"].head("north_bank", {"run": "r1"})
    made_up = {**true["head"], "length": 5, "hash": "0" * 64}
    for false in ({**true, "head": made_up}, {"head": made_up, "signature": own["signature"]}):
        with pytest.raises(PeerForeign):
            parties["bureau"].countersign("north_bank", {"run": "r1", "heads": [own, false]})
    parties["bureau"].countersign("north_bank", {"run": "r1", "heads": [own, true]})


@pytest.mark.parametrize("change", [{"length": "5"}, {"length": -1}, {"hash": None}, {"more": 1}])
def test_a_head_of_another_form_is_refused(parties, change):
    open_all(parties)
    true = parties["south_bank"].head("north_bank", {"run": "r1"})
    with pytest.raises(MessageRefused, match="ledger head"):
        parties["bureau"].countersign("north_bank", {"run": "r1", "heads": [{**true, "head": true["head"] | change}]})


@pytest.mark.parametrize("end", ["close", "abandon"])
@pytest.mark.parametrize("kind", ["checkpoints", "spill"])
def test_a_run_that_ends_leaves_no_checkpoint_and_nothing_spilled(parties, organisations, end, kind):
    open_all(parties)
    home = organisations.home("bureau")
    for run in ("r1", "r2"):
        kept = home.path("store", kind, run, "train", "1.safetensors")
        kept.parent.mkdir(parents=True)
        kept.write_bytes(b"factors")
    if end == "close":
        body = {"run": "r1", "heads": _heads(parties)}
        signatures = {
            p: parties[p].countersign("north_bank", body)["signatures"]["bureau"] for p in ("north_bank", "south_bank")
        }
        parties["bureau"].close("north_bank", {"run": "r1", "signatures": signatures})
    else:
        parties["bureau"].abandon("north_bank", {"run": "r1", "error": ConsentError("no more").to_wire()})
    assert [path.name for path in home.path("store", kind).iterdir()] == ["r2"]
