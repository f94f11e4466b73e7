import re
from pathlib import Path

import pytest

from base.errors import (
    AccordError,
    ApprovalMissing,
    Cancelled,
    ConsentError,
    CryptoError,
    DataError,
    DeadlinePassed,
    EnvironmentMissing,
    ExpectationFailed,
    MessageRefused,
    PeerDown,
    PeerError,
    PeerForeign,
    SpecError,
    SpecMismatch,
    StateError,
    WireVersionMismatch,
)
from party_node.exit_codes import INTERRUPTED, OK, UNEXPECTED, USAGE, can_go_on, error_classes, exit_code

PAGE = Path(__file__).parents[2] / "docs" / "exit_codes.md"


def test_every_code_has_a_paragraph_and_no_paragraph_is_left_over():
    text = PAGE.read_text(encoding="utf-8")
    _, *parts = re.split(r"^## (\d+): ", text, flags=re.MULTILINE)
    sections = list(zip(parts[::2], parts[1::2], strict=True))
    expected = {OK, UNEXPECTED, USAGE, INTERRUPTED} | {cls.code for cls in error_classes()}
    assert [int(code) for code, _ in sections] == sorted(expected)
    for code, body in sections:
        assert len(body.split()) >= 5, code
        if int(code) in {cls.code for cls in error_classes()}:
            assert "Resolve:" in body, code


def test_no_two_classes_share_a_code():
    codes = [cls.code for cls in error_classes()]
    assert len(set(codes)) == len(codes) > 10


@pytest.mark.parametrize(
    ("error", "code"),
    [(PeerDown("x"), 31), (ApprovalMissing("x"), 21), (KeyboardInterrupt(), 130), (RuntimeError("x"), 1)],
)
def test_exit_code(error, code):
    assert exit_code(error) == code


def test_the_same_run_helps_where_its_pipeline_terms_and_data_were_not_at_fault():
    later = {AccordError, PeerError, PeerDown, PeerForeign, DeadlinePassed, Cancelled, EnvironmentMissing}
    anew = {SpecError, ConsentError, ApprovalMissing, WireVersionMismatch, SpecMismatch, DataError, ExpectationFailed,
            CryptoError, MessageRefused, StateError}  # fmt: skip
    assert later | anew == set(error_classes())
    assert {cls for cls in error_classes() if can_go_on(cls("x"))} == later
    assert can_go_on(KeyboardInterrupt())
