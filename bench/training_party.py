"""What a party of `accord bench training` does in its process: reads its ratings, trains, says what it ended with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyarrow import feather

from base.canonical import digest_bytes
from bench.party import Task, Work, serve
from components import horizontal_mf

SHARED = ("Q", "b_item")


def main() -> None:
    """Answer one task."""
    serve(Work({horizontal_mf.COMPONENT.name: horizontal_mf.COMPONENT}, _inputs, _model))


def _inputs(task: Task) -> dict[str, Any]:
    if "ratings" not in task:  # the aggregator's
        return {}
    tables: dict[str, pa.Table] = {name: feather.read_table(path) for name, path in task["ratings"].items()}
    return {"ratings": tables, "statistics": task["statistics"]}


def _model(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return a digest of the part of the model that all banks share."""
    if "model" not in outputs:
        return {}
    return {"digest": digest_bytes(b"".join(outputs["model"][name].tobytes() for name in SHARED))}
