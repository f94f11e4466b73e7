"""A content-addressed store of what steps leave behind.

An object is named by the SHA-256 of its bytes and written by rename, so it is whole or absent. The list of a step's
outputs is written last: a step that died half-way has no list, and its objects are garbage that harms nobody.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from base.canonical import canonical_bytes, digest_bytes
from base.errors import StateError
from base.files import write_whole
from components.contract import Artefact


@dataclass(frozen=True)
class Ref:
    """Names one artefact: its kind and the SHA-256 of its bytes."""

    kind: str  # table, bundle, arrays, document
    digest: str


class Store:
    """Artefacts of one party below one directory."""

    def __init__(self, root: Path) -> None:
        """Use `root`, made when missing."""
        self.root = root

    def save(self, artefact: Artefact) -> Ref:
        """Store an artefact and return its name; the same content has the same name."""
        kind, data = self._encode(artefact)
        name = digest_bytes(data)
        path = self._object(name)
        if not path.exists():
            write_whole(path, data)
        return Ref(kind, name)

    def load(self, ref: Ref) -> Any:
        """Return the artefact; `StateError` when its bytes are missing or are not what their name says."""
        path = self._object(ref.digest)
        if not path.is_file():
            raise StateError("an artefact is missing from the store", expected=ref.digest[:16], found="no file")
        data = path.read_bytes()
        if digest_bytes(data) != ref.digest:
            raise StateError(
                "an artefact's bytes have changed", expected=ref.digest[:16], found=digest_bytes(data)[:16]
            )
        return self._decode(ref.kind, data)

    def write_outputs(self, run: str, step: str, attempt: int, outputs: Mapping[str, Ref]) -> None:
        """List the outputs of a finished step; written last, replaced as a whole."""
        entry = {"attempt": attempt, "outputs": {name: [ref.kind, ref.digest] for name, ref in outputs.items()}}
        write_whole(self.root / "runs" / run / f"{step}.json", canonical_bytes(entry))

    def read_outputs(self, run: str, step: str) -> dict[str, Ref] | None:
        """Return the outputs of a finished step, or None."""
        path = self.root / "runs" / run / f"{step}.json"
        if not path.is_file():
            return None
        entry = json.loads(path.read_bytes())
        return {name: Ref(kind, digest) for name, (kind, digest) in entry["outputs"].items()}

    def list_model(self, pipeline: str, model: str, part: Ref) -> None:
        """List the own part of a registered model, which is the pipeline's latest then."""
        for name in (model, "latest"):
            write_whole(self._model(pipeline, name), canonical_bytes({"part": [part.kind, part.digest]}))

    def read_model(self, pipeline: str, model: str) -> Any:
        """Return the own part of a registered model, by its digest or `latest`; None when there is none."""
        path = self._model(pipeline, model)
        return self.load(Ref(*json.loads(path.read_bytes())["part"])) if path.is_file() else None

    def _model(self, pipeline: str, model: str) -> Path:
        return self.root / "models" / pipeline / f"{model}.json"

    def _object(self, name: str) -> Path:
        return self.root / "objects" / name[:2] / name

    def _encode(self, artefact: Artefact) -> tuple[str, bytes]:
        if isinstance(artefact, pa.Table):
            return "table", table_bytes(artefact)
        values = list(artefact.values())
        if values and all(isinstance(value, pa.Table) for value in values):
            names = {name: self.save(table).digest for name, table in artefact.items()}
            return "bundle", canonical_bytes(names)
        if values and all(isinstance(value, np.ndarray) for value in values):
            return "arrays", arrays_bytes(artefact)
        return "document", canonical_bytes(dict(artefact))

    def _decode(self, kind: str, data: bytes) -> Any:
        if kind == "table":
            return pa.ipc.open_file(pa.BufferReader(data)).read_all()
        if kind == "bundle":
            return {name: self.load(Ref("table", digest)) for name, digest in json.loads(data).items()}
        return load_arrays(data) if kind == "arrays" else json.loads(data)


def table_bytes(table: pa.Table) -> bytes:
    """Return an Arrow file of one batch, so that equal tables have equal bytes."""
    sink = pa.BufferOutputStream()
    table = table.combine_chunks()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def arrays_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return arrays as safetensors, sorted by name, in C order."""
    return bytes(save_arrays({name: np.asarray(arrays[name], order="C") for name in sorted(arrays)}))
