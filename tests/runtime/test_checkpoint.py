"""Checkpoints: the last two rounds, and what a full disk leaves of them."""

import errno
import os

import numpy as np
import pytest

from base.errors import EnvironmentMissing
from runtime.checkpoint import FileCheckpoint


def _state(n):
    return {"rows": np.arange(n)}


def test_the_last_two_rounds_stay_and_the_agreed_one_is_resumed(tmp_path):
    checkpoint = FileCheckpoint(tmp_path / "run" / "step")
    assert checkpoint.resume() is None
    for n in (1, 2, 10):
        checkpoint.save(n, _state(n))
    assert checkpoint.rounds() == [2, 10]
    found, state = FileCheckpoint(tmp_path / "run" / "step", 2).resume()
    assert (found, state["rows"].tolist()) == (2, [0, 1])


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
def test_a_full_disk_loses_no_round_and_a_further_attempt_goes_on(tmp_path, monkeypatch, call):
    checkpoint = FileCheckpoint(tmp_path / "run" / "step")
    for n in (1, 2):
        checkpoint.save(n, _state(n))

    def full(*_):
        raise OSError(errno.ENOSPC, "x")

    with monkeypatch.context() as patch:
        patch.setattr(os, call, full)
        with pytest.raises(EnvironmentMissing) as caught:
            checkpoint.save(3, _state(3))
    assert "No space left on device" in str(caught.value)
    assert "run/step" in str(caught.value)
    assert checkpoint.rounds() == [1, 2]
    assert len(list(checkpoint.directory.iterdir())) == 2
    again = FileCheckpoint(checkpoint.directory, 2)
    assert again.resume()[1]["rows"].tolist() == [0, 1]
    again.save(3, _state(3))
    assert again.rounds() == [2, 3]


def test_a_checkpoint_is_on_the_disk_when_it_is_told(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", synced.append)
    FileCheckpoint(tmp_path).save(1, _state(1))
    assert len(synced) == 2  # the file and its name


def test_rounds_that_an_earlier_attempt_was_ahead_do_not_push_new_ones_out(tmp_path):
    checkpoint = FileCheckpoint(tmp_path)
    for t in (7, 8, 1):  # the parties had no round in common, so the second attempt began anew
        checkpoint.save(t, {"t": np.array([t])})
    assert checkpoint.rounds() == [1]
