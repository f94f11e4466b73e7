"""The Airflow side of Accord: an operator, its trigger, a hook and the factory that turns a pipeline's YAML into a DAG.

Thin by contract: Airflow, pydantic and (when a node is called) pyarrow; nothing that computes.
"""

from __future__ import annotations

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """Return what Airflow's providers manager reads from the entry point `apache_airflow_provider`."""
    hook = "airflow_provider.hook.NodeHook"
    return {
        "package-name": "accord",
        "name": "Accord",
        "description": "Federated recommenders: each task drives a step at the organisation's own party node.",
        "connection-types": [{"connection-type": "accord_node", "hook-class-name": hook, "hook-name": "Accord node"}],
    }
