"""What a wrong feature spec is told: file, line, key, expected, found and a remedy.

Allowed values and spellings of nulls are what people write into the data: an error says their kind and not them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from base.errors import SpecError
from base.near import did_you_mean
from base.yaml_lines import KeyPath, line_of

_FROM_DATA = ("values", "nulls")
_KINDS = {"str": "a text", "int": "a number", "float": "a number", "list": "a list", "dict": "a mapping of keys"}
_FORMS = {
    "model_type": "a mapping of keys",
    "dict_type": "a mapping of keys",
    "missing": "this key, which has no default",
}


def refusal(
    error: ValidationError, path: Path, lines: Mapping[KeyPath, int], keys: Mapping[int, Sequence[str]]
) -> SpecError:
    """Return the first error of a file; `keys` are those of a mapping whose keys are so many names deep."""
    found = error.errors(include_url=False)
    # A misspelt key is also a missing one; the misspelling is what helps.
    entry: Any = next((e for e in found if e["type"] == "extra_forbidden"), found[0])
    at: KeyPath = tuple(part for part in entry["loc"] if part != "[key]")
    if entry["type"] == "extra_forbidden":
        what, known, expected, word = (
            "unknown key in a feature spec",
            keys[len(at)],
            ", ".join(keys[len(at)]),
            str(at[-1]),
        )
    else:
        at, word = _value(entry, at)
        what, known = "a feature spec is wrong", re.findall(r"'([^']+)'", entry["msg"])
        expected = _FORMS.get(entry["type"], entry["msg"].removeprefix("Input should be "))
    remedy = did_you_mean(word.strip('"'), known) or "correct the key; features/spec.py lists what each key may hold"
    more = f"; {len(found) - 1} more in the file" if len(found) > 1 else ""
    return SpecError(what, where=_where(path, lines, at), expected=expected, found=word, remedy=remedy + more)


def _value(entry: Any, at: KeyPath) -> tuple[KeyPath, str]:
    """Return the key that is wrong, and what it holds."""
    value = entry["input"]
    if entry["type"] == "does_not_fit":
        at, value = (*at, entry["ctx"]["key"]), value.get(entry["ctx"]["key"])
    return at, "nothing" if value is None or entry["type"] == "missing" else _show(value, at)


def unreadable(path: Path, error: Exception) -> SpecError:
    """Return the error of a file that is not there, not ours to read, or no text."""
    return SpecError("a feature spec cannot be read", where=f"{path}, key (whole file)", expected="YAML in UTF-8",
                     found=type(error).__name__, remedy="correct feature_specs in party.yaml, or the file")  # fmt: skip


def misnamed(path: Path, lines: Mapping[KeyPath, int], name: str) -> SpecError:
    """Return the error of a spec whose file has another name."""
    return SpecError(
        "a feature spec is not named as its file", where=_where(path, lines, ("name",)), expected=path.stem,
        found=name, remedy=f"name: {path.stem}, or rename the file to {name}.yaml",
    )  # fmt: skip


def _where(path: Path, lines: Mapping[KeyPath, int], at: KeyPath) -> str:
    return f"{path}:{line_of(lines, at)}, key {'.'.join(map(str, at)) or '(whole file)'}"


def _show(value: object, at: KeyPath) -> str:
    """Return a value of the file in one line, or its kind: a list, a mapping, what may come from the data."""
    if isinstance(value, str | bool | int | float) and not set(_FROM_DATA) & set(at):
        return json.dumps(value, ensure_ascii=False)[:80]
    return _KINDS.get(type(value).__name__, type(value).__name__)
