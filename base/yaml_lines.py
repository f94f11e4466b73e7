"""YAML with line numbers: an error names the line that a person has to edit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from base.errors import SpecError

KeyPath = tuple[str | int, ...]
MAX_TEXT = 256 * 1024
MAX_DEPTH = 32


def parse(text: str, name: str, *, aliases: bool = False) -> tuple[Any, dict[KeyPath, int]]:
    """Return the document and the line (from 1) of every key; `SpecError` for bad YAML and repeated keys.

    `aliases` only for the party's own files: a few lines of them can name gigabytes.
    """
    if len(text) > MAX_TEXT:
        raise SpecError("the file is too large", expected=f"at most {MAX_TEXT} characters", found=len(text), where=name,
                        remedy="leave out what is no configuration")  # fmt: skip
    try:
        if not aliases:
            _refuse_aliases(text, name)  # before anything is built
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        lines: dict[KeyPath, int] = {}
        if node is not None:
            _walk(node, (), name, lines)
        return yaml.safe_load(text), lines
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}" if mark else name
        raise SpecError("not valid YAML", expected="YAML 1.1 as PyYAML reads it", found=error.problem, where=where,
                        remedy="mind indentation, brackets and quotes around this line") from None  # fmt: skip
    except yaml.YAMLError:
        raise SpecError("not valid YAML", expected="text", found="a character that YAML does not allow", where=name,
                        remedy="write the file again as plain text in UTF-8") from None  # fmt: skip


def line_of(lines: Mapping[KeyPath, int], path: KeyPath) -> int:
    """Return the line of a key, or of its nearest parent that has one."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)


def _refuse_aliases(text: str, name: str) -> None:
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            line = event.start_mark.line + 1 if event.start_mark else 1
            raise SpecError("YAML aliases are not used here", expected="each value written out", found="an alias",
                            where=f"{name}:{line}", remedy="write the value where it is used")  # fmt: skip


def _walk(node: yaml.Node, path: KeyPath, name: str, lines: dict[KeyPath, int]) -> None:
    if len(path) > MAX_DEPTH:  # an alias to its own parent has no end
        raise SpecError("the file is nested too deeply", expected=f"at most {MAX_DEPTH} levels", found="more",
                        where=f"{name}:{node.start_mark.line + 1}", remedy="fewer levels, no alias to its own parent",
                        )  # fmt: skip
    lines.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            child = (*path, key.value)
            if child in lines:
                raise SpecError(
                    f"key '{key.value}' stands twice", expected="each key once", found=f"also in line {lines[child]}",
                    where=f"{name}:{key.start_mark.line + 1}, key {'.'.join(map(str, child))}",
                    remedy="leave one of the two",
                )  # fmt: skip
            lines[child] = key.start_mark.line + 1
            _walk(value, child, name, lines)
    elif isinstance(node, yaml.SequenceNode):
        for i, value in enumerate(node.value):
            _walk(value, (*path, i), name, lines)
