"""What leaves a worker of an exception that nobody raised on purpose."""

import errno
from types import SimpleNamespace

import pytest

from base.errors import AccordError, EnvironmentMissing
from party_node.worker import unexpected


@pytest.fixture
def home(tmp_path):
    return SimpleNamespace(party="bureau", root=tmp_path, path=tmp_path.joinpath)


def caught(error):
    try:
        raise error
    except Exception as found:
        return found


def test_class_and_place_leave_and_no_text(home):
    told, at = unexpected(caught(KeyError("C0000007")), home)
    assert type(told) is AccordError
    assert at.startswith("test_unexpected.py:")
    assert told.found == f"KeyError at {at}"
    assert told.party == "bureau"
    assert "C0000007" not in str(told)


def test_a_full_disk_says_so_and_which_folder_of_the_node(home):
    spill = home.path("store", "spill", "run", "align", "0.parquet")
    for error, where in (
        (OSError(errno.ENOSPC, "C0000007", str(spill)), "store/spill/run/align/0.parquet"),
        (OSError(errno.ENOSPC, "C0000007", "/elsewhere/C0000007"), "test_unexpected.py:"),
        (RuntimeError("C0000007: No space left on device"), "test_unexpected.py:"),
    ):
        told, _ = unexpected(caught(error), home)
        assert isinstance(told, EnvironmentMissing)
        assert told.found == "No space left on device"
        assert told.where.startswith(where)
        assert "make room" in told.remedy
        assert "C0000007" not in str(told)
