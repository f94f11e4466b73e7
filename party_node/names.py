"""Accord's packages have plain names (`crypto`, `models`): are they really ours in this environment."""

from __future__ import annotations

import importlib.util
from pathlib import Path

TOP_LEVEL = (
    "airflow_provider", "base", "bench", "components", "crypto", "demo", "features", "models", "monitoring",
    "party_node", "pipelines", "runtime", "transport",
)  # fmt: skip


def foreign() -> list[str]:
    """Return the top-level packages that would be imported from elsewhere than this one."""
    ours = Path(__file__).resolve().parent.parent
    found = {name: importlib.util.find_spec(name) for name in TOP_LEVEL}
    return [
        f"{name} from {spec.origin if spec else 'nowhere'}"
        for name, spec in found.items()
        if spec is None or spec.origin is None or Path(spec.origin).resolve().parent.parent != ours
    ]
