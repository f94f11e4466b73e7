"""Obfuscators made ahead: each is used once, and encrypting with them is encrypting."""

import threading
import time

import numpy as np
import pytest

from base.errors import CryptoError
from crypto.packing import Lanes
from crypto.paillier import PublicKey, SecretKey
from crypto.pool import Pool

LANES = Lanes(32, 8, 1)


@pytest.mark.parametrize("own", [True, False])
def test_a_pool_fills_while_somebody_waits_and_gives_each_away_once(secret_key, own):
    key = SecretKey.from_bytes(secret_key.to_bytes()) if own else PublicKey.from_bytes(secret_key.public.to_bytes())
    with key.pool.filling(6):
        _until(lambda: len(key.pool) == 6)
    assert len(key.pool) == 6
    values = np.arange(8.0).reshape(8, 1)
    vector = key.encrypt_rows(values, LANES)  # six ready ones and two new
    assert len(key.pool) == 0
    assert secret_key.decrypt(vector).tolist() == values.ravel().tolist()
    assert len(set(vector.ciphertexts)) == 8


def test_filling_ends_with_the_block(secret_key):
    made = []

    def slowly(count):
        time.sleep(0.01)
        made.append(count)
        return [1] * count

    pool = Pool(slowly)
    with pool.filling(10**6):
        _until(lambda: made)
    after = len(made)
    time.sleep(0.05)
    assert 0 < len(made) == after
    assert not [thread for thread in threading.enumerate() if thread.name == "obfuscators"]


def test_an_error_in_the_background_reaches_whoever_waited():
    asked = []

    def broken(count):
        asked.append(count)
        raise ValueError("no randomness")

    with pytest.raises(ValueError, match="no randomness"), Pool(broken).filling(1):
        _until(lambda: asked)


def test_a_pool_is_never_shown_or_pickled(secret_key):
    import pickle

    assert repr(secret_key.pool) == "<Pool, not shown>"
    with pytest.raises(CryptoError, match="neither pickled nor copied"):
        pickle.dumps(secret_key.pool)


def test_a_forked_process_starts_with_an_empty_pool(monkeypatch):
    pool = Pool(lambda count: [0] * count)
    with pool.filling(3):
        _until(lambda: len(pool) == 3)
    assert len(pool) == 3
    monkeypatch.setattr("crypto.pool.os.getpid", lambda: -1)
    pool.take(1)
    assert len(pool) == 0


def _until(condition):
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)
