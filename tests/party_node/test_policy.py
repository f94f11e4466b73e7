"""Every method against every caller: the matrix is typed here, so that a slip in the policy shows."""

import pytest

from base.errors import AccordError, ConsentError, MessageRefused, StateError
from party_node.policy import METHODS, MessageGuard, authorise
from runtime.execute import StepTask
from runtime.party import PartyConf
from transport.message import MessageKey

CALLERS = {
    "submitter": "north_bank.cli",
    "approver": "north_bank.approver",
    "operator": "north_bank.operator",
    "peer": "south_bank",
    "own": "north_bank",  # the node's own certificate: its key opens no door here
    "foreign client": "south_bank.cli",
    "nobody": "mallory",
    "empty": "",
}
ALLOWED = {
    "hello": {"submitter", "approver", "operator"},
    "submit": {"submitter"},
    "status": {"submitter", "approver", "operator"},
    "cancel": {"submitter", "operator"},
    "approve": {"approver"},
    "report": {"submitter", "approver", "operator"},
    "ledger": {"submitter", "approver", "operator"},
    "audit": {"submitter", "approver", "operator"},
    "node": {"operator"},
    "erase": {"operator"},
    "peer.hello": {"peer"},
    "peer.prepare": {"peer"},
    "peer.accept": {"peer"},
    "peer.open": {"peer"},
    "peer.abandon": {"peer"},
    "peer.reserve": {"peer"},
    "peer.start": {"peer"},
    "peer.watch": {"peer"},
    "peer.stop": {"peer"},
    "peer.head": {"peer"},
    "peer.countersign": {"peer"},
    "peer.close": {"peer"},
    "peer.ledger": {"peer"},
}


@pytest.fixture(scope="module")
def conf():
    return PartyConf(
        party="north_bank",
        listen="127.0.0.1:1",
        advertise="127.0.0.1:1",
        feature_specs="x",
        clients={"north_bank.cli": "submitter", "north_bank.approver": "approver", "north_bank.operator": "operator"},
        data_sets={},
        peers={"north_bank": "127.0.0.1:1", "south_bank": "127.0.0.1:2"},
    )


def test_the_matrix_is_complete():
    assert set(ALLOWED) == set(METHODS)


@pytest.mark.parametrize("method", sorted(ALLOWED))
@pytest.mark.parametrize("kind", sorted(CALLERS))
def test_default_deny(conf, method, kind):
    if kind in ALLOWED[method]:
        assert authorise(conf, CALLERS[kind], method).name == CALLERS[kind]
    else:
        with pytest.raises(ConsentError) as error:
            authorise(conf, CALLERS[kind], method)
        assert error.value.party == "north_bank"


@pytest.mark.parametrize("method", ["", "Submit", "submit ", "peer.", "__init__", "do_action", "a" * 500])
@pytest.mark.parametrize("kind", sorted(CALLERS))
def test_an_unknown_method_is_refused_to_everyone(conf, method, kind):
    with pytest.raises(ConsentError, match="no such method"):
        authorise(conf, CALLERS[kind], method)


def test_submitter_and_approver_are_different_certificates():
    assert not METHODS["submit"].roles & METHODS["approve"].roles


TASK = StepTask(
    run="r", pipeline="p", step="align", attempt=2, seed=1, component="align_rsa", params={}, inputs={},
    roles={"receiver": ("north_bank",), "sender": ("bureau",)}, party="north_bank",
)  # fmt: skip


@pytest.fixture
def guard():
    def live(run, step, attempt):
        if (run, step, attempt) != ("r", "align", 2):
            raise StateError("no such attempt goes on")
        return TASK

    return MessageGuard("north_bank", live)


def _key(**changes):
    parts = {"run": "r", "step": "align", "attempt": 2, "name": "tags", "sender": "bureau", "receiver": "north_bank"}
    return MessageKey(**{**parts, "seq": 0, **changes})


def test_a_declared_message_of_a_live_attempt_is_admitted(guard):
    assert guard.admit("bureau", _key()).name == "tags"


@pytest.mark.parametrize(
    ("peer", "changes", "error"),
    [
        ("south_bank", {}, ConsentError),  # from whom it does not say
        ("bureau", {"receiver": "south_bank"}, ConsentError),
        ("south_bank", {"sender": "south_bank"}, MessageRefused),  # no role in the step
        ("bureau", {"name": "blinded"}, MessageRefused),  # goes the other way
        ("bureau", {"name": "secrets"}, MessageRefused),
        ("bureau", {"attempt": 1}, StateError),
        ("bureau", {"step": "train"}, StateError),
        ("bureau", {"run": "other"}, StateError),
    ],
)
def test_any_other_message_is_refused(guard, peer, changes, error):
    with pytest.raises(AccordError) as found:
        guard.admit(peer, _key(**changes))
    assert type(found.value) is error
