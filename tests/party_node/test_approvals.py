"""What a person approves, and what of a pipeline, an accord or a spec a node refuses."""

import shutil

import pytest
from run_parties import FILE, SMALL, ask, sign_anew

from base.errors import ApprovalMissing, ConsentError, PeerForeign, SpecError, SpecMismatch


def test_an_edited_pipeline_is_refused_with_the_line_to_type(parties):
    edited = SMALL.replace("min_overlap: 100", "min_overlap: 101")
    with pytest.raises(ApprovalMissing) as error:
        parties["bureau"].opening.prepare("north_bank", ask(parties, text=edited))
    assert error.value.remedy == f"accord approve {FILE} --party bureau"
    parties["bureau"].approvals.approve(edited, FILE, "somebody")
    parties["bureau"].opening.prepare("north_bank", ask(parties, text=edited))


def test_comments_and_layout_of_the_yaml_need_no_new_approval(parties):
    parties["bureau"].opening.prepare("north_bank", ask(parties, text="# a remark\n" + SMALL))


def test_a_wrong_pipeline_is_refused_with_its_line(parties):
    with pytest.raises(SpecError) as error:
        parties["bureau"].approvals.template(SMALL.replace("seed: 7", "seed: seven"), FILE)
    assert f"{FILE}:4, key seed" in error.value.where


@pytest.mark.parametrize("file", ["", "a b", "x\n", "\x1b[2J", "x;rm", "a" * 300])
def test_a_file_name_that_could_mislead_a_terminal_is_refused(parties, file):
    with pytest.raises(ConsentError, match="plain file name"):
        parties["bureau"].approvals.template(SMALL, file)


def test_another_feature_spec_is_named_at_the_party_that_refuses(parties, organisations):
    spec = organisations.directory("bureau") / "feature_specs" / "user.yaml"
    spec.write_text(spec.read_text().replace("on_null: drop", "on_null: refuse", 1))
    with pytest.raises(SpecMismatch, match="feature spec user") as error:
        parties["bureau"].opening.prepare("north_bank", ask(parties))
    assert error.value.party == "bureau"
    spec.unlink()
    with pytest.raises(SpecMismatch, match="missing"):
        parties["bureau"].opening.prepare("north_bank", ask(parties))


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
    sign_anew(organisations, **changes)
    with pytest.raises(ConsentError, match=what):
        parties["bureau"].approvals.template(SMALL, FILE)


def test_an_accord_that_one_party_has_not_signed_is_no_accord(parties, organisations):
    sign_anew(organisations, parties=("north_bank", "bureau"))
    with pytest.raises(ConsentError, match="lacks the signature of south_bank"):
        parties["bureau"].approvals.template(SMALL, FILE)


def test_terms_changed_after_signing_are_refused(parties, organisations):
    path = organisations.directory("bureau") / "accords" / "demo.json"
    path.write_text(path.read_text().replace('"max_runs": 10000', '"max_runs": 20000'))
    with pytest.raises(PeerForeign, match="does not verify"):
        parties["bureau"].approvals.template(SMALL, FILE)


def test_no_accord_no_run(parties, organisations):
    shutil.rmtree(organisations.directory("bureau") / "accords")
    with pytest.raises(ConsentError):
        parties["bureau"].approvals.template(SMALL, FILE)
