"""What a party of `accord bench psi` does in its process: makes its ids, aligns them, says who is aligned."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.party import Task, Work, serve
from components import align_ecdh, align_rsa
from features.spec import Column, FeatureSpec, IdRule

TABLE, COLUMN = "people", "id"
SPEC = FeatureSpec(
    name="people", description="made up", key=(COLUMN,),
    columns={COLUMN: Column(type="id", owner=("data_holder",), sensitivity="internal", rule=IdRule())},
)  # fmt: skip
SLICE = 1 << 18  # ids that are made, or digested, at once


def main() -> None:
    """Answer one task."""
    components = {each.COMPONENT.name: each.COMPONENT for each in (align_ecdh, align_rsa)}
    serve(Work(components, _inputs, _aligned, lambda _: SPEC))


def people(first: int, count: int, seed: int) -> pa.Table:
    """Return `count` different ids from number `first` on, in an order that `seed` gives."""
    numbers = np.random.default_rng(seed).permutation(np.arange(first, first + count, dtype=np.int32))
    slices = [numbers[start : start + SLICE] for start in range(0, count, SLICE)]
    digits = (pc.utf8_lpad(pc.cast(pa.array(part), pa.string()), 9, "0") for part in slices)
    column = pa.chunked_array([pc.binary_join_element_wise("person-", d, "") for d in digits])
    return pa.table({COLUMN: column}).replace_schema_metadata({"spec": SPEC.name})


def _inputs(task: Task) -> dict[str, Any]:
    return {"tables": {TABLE: people(task["first"], task["ids"], task["seed"])}}


def _aligned(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return how many people are aligned, and a digest of who and in which order, to compare with the peer's."""
    ids, rows, digest = inputs["tables"][TABLE][COLUMN], outputs["alignment"]["first"], hashlib.sha256()
    for start in range(0, len(rows), SLICE):
        digest.update("\n".join(ids.take(rows.slice(start, SLICE)).to_pylist()).encode() + b"\n")
    return {"aligned": len(rows), "digest": digest.hexdigest()}
