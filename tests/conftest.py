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


# What takes longest starts first, so that no process works alone at the end.
GROUPS = {
    "organisations": ("e2e/test_airflow.py", "e2e/test_canaries.py", "e2e/test_digests.py"),
    "every pipeline": ("components/test_contract.py", "components/test_canaries.py"),
    "crashes": ("e2e/test_alignment_crash.py",),
}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep a file's tests in one process, and those of files that share what they set up, where that is dear."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.split("::", 1)[0]
            return next((group for group, files in GROUPS.items() if file.endswith(files)), file)

    return ByFile(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the groups first; all other files stay in their order."""
    first = [file for files in GROUPS.values() for file in files]
    items.sort(key=lambda item: next((n for n, file in enumerate(first) if item.path.match(file)), len(first)))


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
