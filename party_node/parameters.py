"""Parameters of a component in words: range and default as its schema says, unit and meaning as its class says."""

from __future__ import annotations

import ast
import inspect
import json
import tokenize
from collections.abc import Iterator, Mapping
from io import StringIO
from textwrap import dedent
from typing import Any

from components.contract import Params

HEAD = ("| parameter | range | default | unit and meaning |", "| --- | --- | --- | --- |")
_BOUNDS = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}
_KINDS = {"integer": "whole number", "number": "number", "string": "text", "boolean": "true or false", "null": "null"}


def rows(params: type[Params], schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield a component's parameters as a table of Markdown, nothing when it has none; `schema` is its JSON Schema."""
    meanings = units(params)
    entries: Mapping[str, Mapping[str, Any]] = schema.get("properties", {})
    if entries:
        yield from ("", *HEAD)
    for name, entry in entries.items():
        default = f"`{json.dumps(entry['default'], ensure_ascii=False)}`" if "default" in entry else "required"
        cells = (f"`{name}`", allowed(entry), default, meanings.get(name, ""))
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def allowed(entry: Mapping[str, Any]) -> str:
    """Return what a value of this JSON Schema may be; a schema of another form stands as it is."""
    if "enum" in entry or "const" in entry:
        return ", ".join(f"`{json.dumps(value)}`" for value in entry.get("enum", [entry.get("const")]))
    if "anyOf" in entry:
        return " or ".join(map(allowed, entry["anyOf"]))
    kind = entry.get("type")
    if kind == "array" and "items" in entry:
        least = f"{entry['minItems']} or more: " if "minItems" in entry else ""
        return f"list of {least}{allowed(entry['items'])}"
    if kind == "object" and isinstance(entry.get("additionalProperties"), Mapping):
        return f"for each key: {allowed(entry['additionalProperties'])}"
    if kind == "object" and "properties" in entry:
        return "mapping: " + "; ".join(f"`{name}` {allowed(value)}" for name, value in entry["properties"].items())
    if kind not in _KINDS:
        return f"`{json.dumps(entry)}`"
    bounds = [f"{words} {entry[bound]}" for bound, words in _BOUNDS.items() if bound in entry]
    form = [f"like `{entry['pattern']}`"] if "pattern" in entry else []
    return ", ".join([_KINDS[kind], *bounds, *form])


def units(params: type[Params]) -> dict[str, str]:
    """Return by field what stands beside it as a comment in the class or the class that it comes from."""
    found = {}
    for each in reversed([c for c in params.__mro__ if issubclass(c, Params)]):
        source = dedent(inspect.getsource(each))
        beside = {
            token.start[0]: token.string.lstrip("# ")
            for token in tokenize.generate_tokens(StringIO(source).readline)
            if token.type == tokenize.COMMENT
        }
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.AnnAssign):
                lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
                found[ast.unparse(node.target)] = " ".join(beside[line] for line in lines if line in beside)
    return found
