"""What a reader of a measurement needs to know about the machine and the software that made it."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

MEASURED = ("accord", "gmpy2", "numpy", "phe", "pyarrow", "pycryptodome", "pyspark", "apache-airflow", "mlflow")


def describe_machine(distributions: Sequence[str] = MEASURED) -> dict[str, Any]:
    """Return date, CPU, cores and versions."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in distributions},
    }


def usable_cores() -> int:
    """Return how many cores this process may use, which a container or a scheduler may have limited."""
    return len(os.sched_getaffinity(0))


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())
