"""The first thing that is wrong in a YAML document, as its model found it: file, line, key and what to type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from pydantic import BaseModel, ValidationError

from base.errors import SpecError
from base.near import did_you_mean
from base.yaml_lines import KeyPath
from pipelines.in_words import Schema, asked, how_to_write, value_in_words


def refuse(model: type[BaseModel], error: ValidationError, at: Callable[[KeyPath], str]) -> NoReturn:
    """Raise `SpecError` for the first thing that `model` found wrong; `at` says where a key stands."""
    found = error.errors(include_url=False)
    # A misspelt key is also a missing one; the misspelling is what helps.
    entry = next((e for e in found if e["type"] == "extra_forbidden"), found[0])
    root = model.model_json_schema()
    path = tuple(part for part in entry["loc"] if part != "[key]")
    name = str(path[-1]) if path else "the document"
    where = at(path)
    if entry["type"] == "extra_forbidden":
        known = list(_at(root, path[:-1]).get("properties", ()))
        raise SpecError("unknown key", expected=", ".join(known), found=name, where=where,
                        remedy=did_you_mean(name, known) or f"leave {name} out")  # fmt: skip
    schema = _at(root, path)
    if entry["type"] == "missing":
        raise SpecError("a key is missing", expected=f"{name}: {asked(schema)}", found="nothing", where=where,
                        remedy=f"add {name}: ...")  # fmt: skip
    if len(path) < len(entry["loc"]):
        pattern = next(iter(_at(root, path[:-1])["patternProperties"]))
        raise SpecError("a name is wrong", expected=asked({"pattern": pattern}), found=value_in_words(name),
                        where=where, remedy="another name here, and wherever it is used")  # fmt: skip
    raise SpecError("a value is wrong", expected=asked(schema), found=value_in_words(entry["input"]), where=where,
                    remedy=how_to_write(path, schema, entry["input"]))  # fmt: skip


def _at(root: dict[str, Any], path: KeyPath) -> Schema:
    """Return the schema of the value at a key."""
    schema: Any = root
    for part in path:
        values: Any = schema.get("additionalProperties") or next(iter(schema.get("patternProperties", {}).values()), {})
        schema = schema["items"] if "items" in schema else schema.get("properties", {}).get(part, values)
        if "$ref" in schema:
            schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    found: Schema = schema
    return found
