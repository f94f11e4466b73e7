"""Fixtures for every test: public data, parties in threads, one Spark session a run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")

# A busy machine is slow: how long an example takes says nothing about the code.
settings.register_profile("accord", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("accord")

ROOT = Path(__file__).resolve().parents[1]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep a file's tests in one process, and all end-to-end tests: what they set up is dear and shared."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.split("::", 1)[0]
            # These two share what every pipeline left, a minute of work.
            together = ("components/test_contract.py", "components/test_canaries.py")
            return "e2e" if "/e2e/" in file else "contract" if file.endswith(together) else file

    return ByFile(config, log)


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the clone."""
    return ROOT


@pytest.fixture(scope="session")
def accord_data() -> Path:
    """The folder of public data sets; a test that needs it is skipped by name without ACCORD_DATA."""
    folder = os.environ.get("ACCORD_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("ACCORD_DATA names no folder of public data sets")
    return Path(folder)


@pytest.fixture(scope="module")
def threads(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A module's parties: `threads(component name, roles, inputs, params)` runs one step and returns an `Outcome`."""
    from step_threads import Threads

    return Threads(tmp_path_factory.mktemp("parties"))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One Spark session for the whole run."""
    from features.spark import session

    found = session("local[2]", {})
    yield found
    found.stop()
