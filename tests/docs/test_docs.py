"""The documents tell the truth about the tree: links resolve, named paths and commands exist, the index is complete."""

import re
import subprocess
from functools import cache
from pathlib import Path
from typing import cast

import pytest
import typer
from typer.core import TyperGroup
from typer.main import get_command

from components.registry import MODULES, catalogue
from party_node.cli import app

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\(([^)\s]+)\)|src=\"([^\"]+)\"")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`\n]+)`")
PLACEHOLDER = re.compile(r"[A-Z]{3,}|[*<>{}]")
MADE_BY_COMMANDS = ("docs/results/",)  # `make bench` writes there


@cache
def documents() -> tuple[str, ...]:
    tracked = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return tuple(tracked.split())


def prose(name: str) -> str:
    return FENCE.sub("", (ROOT / name).read_text(encoding="utf-8"))


def slugs(path: Path) -> set[str]:
    """Anchors of a page as the usual renderers make them."""
    heads = re.findall(r"^#+ +(.+)$", FENCE.sub("", path.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def broken_links(page: Path, text: str) -> list[str]:
    found = []
    for target in (a or b for a, b in LINK.findall(text)):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        path = (page.parent / file).resolve() if file else page
        if not path.exists() or (anchor and anchor not in slugs(path)):
            found.append(target)
    return found


def missing_paths(text: str) -> list[str]:
    """Words in backticks that look like a path of the repository and are none."""
    tops = {path.name for path in ROOT.iterdir() if path.name not in {"var", ".git", ".venv"}}
    found = []
    for code in CODE.findall(text):
        for word in code.split():
            path = word.rstrip(".,:;").split("::")[0]
            looks = "/" in path and path.split("/")[0] in tops and not PLACEHOLDER.search(path)
            if looks and not (ROOT / path).exists() and not path.startswith(MADE_BY_COMMANDS):
                found.append(path)
    return found


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize("name", documents())
def test_every_link_resolves(name: str) -> None:
    assert broken_links(ROOT / name, prose(name)) == []


@pytest.mark.parametrize("name", documents())
def test_every_path_in_backticks_exists(name: str) -> None:
    assert missing_paths(prose(name)) == []


def missing_names(text: str) -> list[str]:
    """In "`Class.function` and `other` in `path.py`", the names that the file does not define."""
    found = []
    for names, path in re.findall(r"((?:`[A-Za-z_.]+`(?:, | and )?)+)\s+in\s+`([a-z_/]+\.py)`", text):
        source = (ROOT / path).read_text(encoding="utf-8") if (ROOT / path).exists() else ""
        for name in re.findall(r"`([A-Za-z_.]+)`", names):
            parts = name.split(".")
            if not all(
                re.search(rf"(?:def|class) {part}\b|^(?:\w+, )*{part}\b.* = ", source, re.MULTILINE) for part in parts
            ):
                found.append(f"{name} in {path}")
    return found


@pytest.mark.parametrize("name", documents())
def test_every_function_is_where_the_text_says(name: str) -> None:
    assert missing_names(prose(name)) == []


@pytest.mark.parametrize("name", documents())
def test_every_make_target_exists(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    named = set(re.findall(r"(?:`|^ {4})make ([a-z]+)\b", text, re.MULTILINE))
    assert named <= make_targets()


def test_every_command_exists() -> None:
    """`accord WORD` in backticks or in a code block is a command of the program."""
    group = cast("TyperGroup", get_command(app))
    known = set(group.list_commands(typer.Context(group)))
    command = re.compile(r"(?:`|^ {4}(?:\.venv/bin/)?)accord ([a-z][a-z-]*)", re.MULTILINE)
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in documents()}
    named = {(name, word) for name, text in texts.items() for word in command.findall(text)}
    assert sorted((name, word) for name, word in named if word not in known) == []


def test_the_readme_lists_every_command() -> None:
    group = cast("TyperGroup", get_command(app))
    table = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n## Commands\n")[2].partition("\n## ")[0]
    listed = re.findall(r"`accord ([a-z][a-z-]*)`", table)
    assert sorted(listed) == sorted(group.list_commands(typer.Context(group)))


def test_the_readme_lists_every_page_of_the_documents() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    pages = {
        name for name in documents() if not name.startswith(("docs/adr/", "docs/results/")) and name != "README.md"
    }
    assert sorted(page for page in pages if f"]({page})" not in text) == []


def test_the_glossary_names_parameters_that_exist() -> None:
    text = (ROOT / "GLOSSARY.md").read_text(encoding="utf-8").partition("## Hyper-parameters\n")[2].partition(". ")[0]
    known = {name for entry in catalogue().values() for name in entry["params"].get("properties", {})}
    assert set(CODE.findall(text)) <= known
    assert CODE.findall(text)


def test_the_index_of_decisions_is_complete() -> None:
    folder = ROOT / "docs" / "adr"
    pages = {path.name for path in folder.glob("[0-9]*.md")}
    listed = re.findall(r"\]\(([0-9]{4}-[a-z0-9-]+\.md)\)", (folder / "README.md").read_text(encoding="utf-8"))
    assert set(listed) == pages
    assert len(listed) == len(pages)
    assert sorted(int(name[:4]) for name in pages) == list(range(1, len(pages) + 1))


def test_the_checks_find_what_is_wrong(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One head\n[a](nowhere.md) [b](#one-head) [c](#other) ![d](page.md)\n", encoding="utf-8")
    assert broken_links(page, page.read_text(encoding="utf-8")) == ["nowhere.md", "#other"]
    assert missing_paths("`crypto/paillier.py` `crypto/none.py` `docs/adr/NNNN.md` `var/demo/x`") == ["crypto/none.py"]
    assert missing_names("`canonical_bytes` and `none` in `base/canonical.py`") == ["none in base/canonical.py"]


def test_the_documents_name_every_component() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert [name for name in MODULES if f"`{name}`" not in text] == []
