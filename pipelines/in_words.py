"""What a JSON Schema asks of a value, in the words of somebody who writes YAML, and how to write it.

The schemas are those of the catalogue and of the models of a pipeline and an accord; no other is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import date
from typing import Any

from base.near import did_you_mean
from base.yaml_lines import KeyPath

Schema = Mapping[str, Any]
FORMS = {  # every pattern of those schemas
    r"^[a-z][a-z0-9_]{0,63}$": "a name of small letters, digits and _, a letter first, at most 64",
    r"^[a-z0-9_-]{0,32}$": "a label of small letters, digits, _ and -, at most 32",
    r"^[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*$": "STEP.OUTPUT",
    r"^\d{4}-\d{2}-\d{2}$": "a day in quotes, as \"2026-01-31\"",
    r"^[0-9a-f]{64}$": "64 hexadecimal digits, small letters",
}  # fmt: skip
_BOUNDS = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}
_NUMBERS = {"integer": "a whole number", "number": "a number"}
_PLAIN = {"boolean": "true or false", "null": "nothing"}
_SHORT = 80


def asked(schema: Schema) -> str:
    """Return what the schema asks for."""
    if "anyOf" in schema:
        return " or ".join(map(asked, schema["anyOf"]))
    if "enum" in schema or "const" in schema:
        return _choice(schema)
    kind = schema.get("type", "")
    if kind in _NUMBERS:
        return ", ".join([_NUMBERS[kind], *(f"{_BOUNDS[key]} {schema[key]}" for key in _BOUNDS if key in schema)])
    if kind == "array":
        return f"a list of {_items(schema['items'])}" + (", at least one" if schema.get("minItems") else "")
    if kind == "object":
        return _mapping(schema)
    return _PLAIN.get(kind) or _text(schema)


def value_in_words(value: object) -> str:
    """Return what was written: a value as JSON has it, else what it is."""
    if value is None or isinstance(value, dict | list):
        return "nothing" if value is None else "a mapping" if isinstance(value, dict) else "a list"
    if isinstance(value, date):
        return f"{value}, which without quotes is no text"
    return json.dumps(value, ensure_ascii=False, default=str)[:_SHORT]


def how_to_write(path: KeyPath, schema: Schema, value: object) -> str:
    """Return the remedy for `value` at a key: what to type there."""
    kind, key = schema.get("type"), path[-1] if path else 0
    if isinstance(key, int):
        return f"write {asked(schema)} there"
    if "enum" in schema and isinstance(value, str) and (near := did_you_mean(value, map(str, schema["enum"]))):
        return near
    if kind == "string" and isinstance(value, date | int | float) and not isinstance(value, bool):
        return f'put it in quotes: {key}: "{value}"'
    if kind == "array" and isinstance(value, str):
        return f"put it in brackets: {key}: [{value}]"
    if kind in _NUMBERS and isinstance(value, str) and value.isdigit():
        return f"without quotes: {key}: {value}"
    if kind == "number" and isinstance(value, str) and re.fullmatch(r"\d+e[+-]?\d+", value):
        return f"YAML takes {value} for a text: {key}: {value.replace('e', '.0e')}"
    if kind == "object" and not isinstance(value, dict):
        return f"write {key}: {{{_pair(schema)}}}"
    if "default" in schema:
        return f"write such a value, or leave {key} out: then it is {json.dumps(schema['default'])}"
    return f"write such a value for {key}"


def _choice(schema: Schema) -> str:
    values = schema.get("enum", [schema.get("const")])
    return ("one of " if len(values) > 1 else "") + ", ".join(map(str, values))


def _items(schema: Schema) -> str:
    if "enum" in schema:
        return _choice(schema).removeprefix("one of ")
    return {"integer": "whole numbers", "number": "numbers", "array": "lists"}.get(schema.get("type", ""), "names")


def _mapping(schema: Schema) -> str:
    if _values(schema) is not None:
        least = schema.get("minProperties", 0)
        return f"a mapping {_pair(schema)}" + (f", at least {least}" if least else "")
    return "a mapping of " + (", ".join(schema.get("properties", ())) or "keys and values")


def _pair(schema: Schema) -> str:
    """Return an entry of a mapping as it is written."""
    values = _values(schema)
    if values is None:
        return ", ".join(f"{name}: ..." for name in schema.get("required", ())) or "KEY: VALUE"
    written = {"array": "[NAME, ...]", "integer": "NUMBER", "object": "{...}"}
    name = "TABLE" if "table_in" in values else written.get(values.get("type", ""), "NAME")
    return f"{'PARTY' if schema.get('by_party') else 'NAME'}: {name}"


def _values(schema: Schema) -> Schema | None:
    """Return the schema of a mapping's values, None where keys are named one by one."""
    found = schema.get("additionalProperties") or next(iter(schema.get("patternProperties", {}).values()), None)
    return found if isinstance(found, Mapping) else None


def _text(schema: Schema) -> str:
    if "pattern" in schema:
        return FORMS.get(schema["pattern"], f"text of the form {schema['pattern']}")
    return f"text of at least {schema['minLength']} characters" if "minLength" in schema else "text"
