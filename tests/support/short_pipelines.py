"""The shipped pipelines with less of the same work: fewer rounds, shorter vectors, the shortest allowed keys."""

from __future__ import annotations

import shutil
from pathlib import Path

import yaml

LESS = {
    "align_rsa": {"key_bits": 2048},
    "evaluate_ratings": {"key_bits": 2048},
    "fit_statistics": {"key_bits": 2048},
    "horizontal_mf": {"embedding_size": 4, "key_bits": 2048, "rounds": 2},
    "vertical_mf": {"embedding_size": 4, "key_bits": 2048},
}


def shorter(text: str) -> str:
    """Return a pipeline's YAML with these parameters in place of its own."""
    document = yaml.safe_load(text)
    for step in document["steps"].values():
        step["params"] = {**step.get("params", {}), **LESS.get(step["component"], {})}
    return yaml.safe_dump(document, sort_keys=False)


def project(repository: Path, root: Path) -> Path:
    """Make a folder with the shipped DAGs and, shorter, the pipelines that they are of; return it."""
    shutil.copytree(repository / "dags", root / "dags", ignore=shutil.ignore_patterns("__pycache__"))
    (root / "conf" / "pipelines").mkdir(parents=True)
    for path in sorted((repository / "conf" / "pipelines").glob("*.yaml")):
        (root / "conf" / "pipelines" / path.name).write_text(shorter(path.read_text()))
    return root
