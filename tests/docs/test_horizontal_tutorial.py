"""The page on training across banks: its steps pass the check, its parameters and errors are those of the code."""

import re
from pathlib import Path

import pytest

from components.registry import catalogue
from pipelines.accord import AccordTerms
from pipelines.load import loads

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "tutorials" / "train_across_banks.md").read_text(encoding="utf-8")
STEPS = re.findall(r"```yaml\n# the steps? of horizontal_mf([^\n]*)\n(.*?)```", TEXT, re.DOTALL)


def row(head: str, column: int) -> list[str]:
    (found,) = re.findall(rf"^\| {head} \|.*\n\| ---.*\n((?:\|.*\n)+)", TEXT, re.MULTILINE)
    return [line.strip("|\n").split(" | ")[column].strip() for line in found.splitlines()]


@pytest.mark.parametrize("steps", [steps for _, steps in STEPS])
def test_a_step_of_the_page_is_accepted_in_the_shipped_pipeline(steps: str) -> None:
    text = (ROOT / "conf" / "pipelines" / "horizontal_mf.yaml").read_text(encoding="utf-8")
    (old,) = re.findall(r"  train:\n(?:    .*\n)+", text)
    spec = loads(text.replace(old, steps), "horizontal_mf.yaml").spec
    assert spec.steps["train"].params["embedding_size"] == 16


def test_the_page_has_its_steps() -> None:
    assert len(STEPS) == 3


def test_models_and_evaluations_are_components() -> None:
    for column in (1, 3):
        for cell in row("you have", column):
            assert cell.strip("`") in catalogue()


def test_protections_are_parameters_and_the_accord_has_their_terms() -> None:
    names = set(catalogue()["horizontal_mf"]["params"]["properties"])
    for cell in row("you want", 1):
        name, value = cell.strip("`").split(": ")
        assert name in names
        schema = catalogue()["horizontal_mf"]["params"]["properties"][name]
        assert value == "{...}" or value in schema["enum"]
    for cell in row("you want", 2):
        assert cell.strip("`") in AccordTerms.model_fields


def test_refusals_are_those_of_the_code() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "components").glob("*.py"))
    for what in row("error", 0):
        assert f'"{what}"' in sources
