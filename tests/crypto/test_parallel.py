"""Work over processes: in order, only when it is worth it, and gone with the process that asked for it."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from spread_work import squares, whoami

from base.errors import CryptoError
from crypto import parallel


def test_small_work_stays_here():
    assert set(parallel.spread(whoami, np.arange(4), 1)) == {os.getpid()}


def test_large_work_is_spread_and_comes_back_in_order(monkeypatch):
    monkeypatch.setattr(parallel, "usable_cores", lambda: 2)
    many = parallel.WORTH
    assert parallel.spread(squares, np.arange(5), many, 7) == [7, 8, 11, 16, 23]
    assert os.getpid() not in parallel.spread(whoami, np.arange(2), many)
    assert parallel.spread(whoami, np.arange(1), many) == [os.getpid()]


def test_processes_stay_for_the_next_call_and_a_dead_one_is_replaced(monkeypatch):
    monkeypatch.setattr(parallel, "usable_cores", lambda: 2)
    first = set(parallel.spread(whoami, np.arange(8), parallel.WORTH))
    assert first & set(parallel.spread(whoami, np.arange(8), parallel.WORTH))
    os.kill(min(first), signal.SIGKILL)
    _until(lambda: not _runs(min(first)))
    with pytest.raises(CryptoError, match="died"):  # as soon as the pool has heard of it
        _until(lambda: not parallel.spread(whoami, np.arange(8), parallel.WORTH))
    assert not first & set(parallel.spread(whoami, np.arange(8), parallel.WORTH))
    parallel.release()
    parallel.release()


CHILD = """
import sys, time
sys.path.insert(0, sys.argv[1])
import numpy as np
from base.errors import CryptoError
from crypto import parallel
parallel.usable_cores = lambda: 2
def sleep(numbers, folder):
    import os, pathlib, time
    (pathlib.Path(folder) / str(os.getpid())).touch()
    time.sleep(600)
    return []
if __name__ == "__main__":
    parallel.spread(sleep, np.arange(2), 10**9, sys.argv[2])
"""


def test_a_killed_process_leaves_no_workers_behind(tmp_path, repository):
    script = tmp_path / "child.py"
    script.write_text(CHILD)
    seen = tmp_path / "seen"
    seen.mkdir()
    with subprocess.Popen([sys.executable, str(script), str(repository), str(seen)]) as child:
        _until(lambda: len(list(seen.iterdir())) == 2)
        child.send_signal(signal.SIGKILL)
    workers = [int(file.name) for file in seen.iterdir()]
    _until(lambda: not any(_runs(pid) for pid in workers))


def _until(condition, seconds=60):
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            pytest.fail("not within a minute")
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
