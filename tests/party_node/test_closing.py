"""Closing a run: every head is signed by every other party, and nothing of the run stays behind."""

import pytest
from run_parties import open_all

from base.errors import AccordError, ConsentError, MessageRefused, PeerForeign
from party_node.runs import CLOSED


def heads_of(parties):
    return [at.closing.head("north_bank", {"run": "r1"}) for at in parties.values()]


def test_closing_leaves_every_head_signed_by_every_other_party(parties):
    open_all(parties)
    body = {"run": "r1", "heads": heads_of(parties)}
    signed = {p: at.closing.countersign("north_bank", body) for p, at in parties.items()}
    for party, at in parties.items():
        mine = {p: answer["signatures"][party] for p, answer in signed.items() if p != party}
        forged = {**mine, next(iter(mine)): "00" * 64}
        with pytest.raises(AccordError):
            at.closing.close("north_bank", {"run": "r1", "signatures": forged})
        at.closing.close("north_bank", {"run": "r1", "signatures": mine})
        assert at.runs.get("r1").state == CLOSED


def test_an_initiator_gets_no_signature_under_a_head_that_it_made_up(parties):
    """Else the other party's true chain would contradict a signature that everybody believes."""
    open_all(parties)
    true = parties["south_bank"].closing.head("north_bank", {"run": "r1"})
    own = parties["north_bank"].closing.head("north_bank", {"run": "r1"})
    made_up = {**true["head"], "length": 5, "hash": "0" * 64}
    for false in ({**true, "head": made_up}, {"head": made_up, "signature": own["signature"]}):
        with pytest.raises(PeerForeign):
            parties["bureau"].closing.countersign("north_bank", {"run": "r1", "heads": [own, false]})
    parties["bureau"].closing.countersign("north_bank", {"run": "r1", "heads": [own, true]})


@pytest.mark.parametrize("change", [{"length": "5"}, {"length": -1}, {"hash": None}, {"more": 1}])
def test_a_head_of_another_form_is_refused(parties, change):
    open_all(parties)
    true = parties["south_bank"].closing.head("north_bank", {"run": "r1"})
    body = {"run": "r1", "heads": [{**true, "head": true["head"] | change}]}
    with pytest.raises(MessageRefused, match="ledger head"):
        parties["bureau"].closing.countersign("north_bank", body)


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
        body = {"run": "r1", "heads": heads_of(parties)}
        signatures = {
            p: parties[p].closing.countersign("north_bank", body)["signatures"]["bureau"]
            for p in ("north_bank", "south_bank")
        }
        parties["bureau"].closing.close("north_bank", {"run": "r1", "signatures": signatures})
    else:
        parties["bureau"].opening.abandon("north_bank", {"run": "r1", "error": ConsentError("no more").to_wire()})
    assert [path.name for path in home.path("store", kind).iterdir()] == ["r2"]
