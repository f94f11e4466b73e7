"""The tutorial's errors are the errors that its edits give."""

import re
from pathlib import Path

import pytest

from base.errors import SpecError
from pipelines.load import loads

ROOT = Path(__file__).resolve().parents[2]
PIPELINE = "conf/pipelines/horizontal_mf.yaml"
BLOCKS = re.compile(
    r"```diff\n-(?P<old>.*)\n\+(?P<new>.*)\n```\n(?:[^`]|`[^`\n]+`)*?(?:```text\n(?P<error>(?:.*\n)*?)```|\n## )"
)


def edits() -> list[tuple[str, str, str | None]]:
    text = (ROOT / "docs" / "tutorials" / "first_pipeline.md").read_text(encoding="utf-8")
    return [(m["old"], m["new"], m["error"]) for m in BLOCKS.finditer(text)]


def test_the_tutorial_has_wrong_edits_and_a_right_one() -> None:
    assert [error is None for _, _, error in edits()] == [False, False, False, False, True]


@pytest.mark.parametrize(("old", "new", "error"), edits())
def test_an_edit_does_what_the_tutorial_says(old: str, new: str, error: str | None) -> None:
    text = (ROOT / PIPELINE).read_text(encoding="utf-8")
    assert text.count(old) == 1
    edited = text.replace(old, new)
    if error is None:
        assert loads(edited, PIPELINE).spec != loads(text, PIPELINE).spec
        return
    with pytest.raises(SpecError) as caught:
        loads(edited, PIPELINE)
    pattern = ".*".join(map(re.escape, error.split("...")))  # the tutorial shortens long lists
    assert re.fullmatch(pattern, f"{caught.value}\n")
