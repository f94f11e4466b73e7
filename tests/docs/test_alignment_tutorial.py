"""The page on alignments: its example is accepted, its edits do what it says, its tables are those of the code."""

import ast
import json
import re
import shutil
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from base.errors import AccordError
from components.registry import catalogue
from crypto.node_keys import NodeKeys
from features.idnorm import normal_form
from features.spec import IdRule, load
from party_node.cli import app
from pipelines.accord import SignedAccord, make_terms, write_accord
from pipelines.alignment_terms import AlignmentTerms
from pipelines.load import loads

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "tutorials" / "choose_an_alignment.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"```yaml\n# (\S+)\n(.*?)```", TEXT, re.DOTALL))
PIPELINE, TERMS, SPEC = "conf/pipelines/customers.yaml", "conf/accords/customers.yaml", "feature_specs/customer.yaml"
EDITS = re.findall(r"```diff\n(.*?)```\n(?:\n```text\n(.*?)```)?", TEXT, re.DOTALL)
ALIGNMENTS = ("align_ecdh", "align_rsa", "align_keyed_hash")
CHECKED_BY = ("components", "features", "pipelines")


def table(head: str) -> list[list[str]]:
    """Return the cells of the table whose first column is called `head`."""
    (found,) = re.findall(rf"^\| {head} \|.*\n\| ---.*\n((?:\|.*\n)+)", TEXT, re.MULTILINE)
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in found.splitlines()]


def words(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


@pytest.fixture
def check(tmp_path, monkeypatch):
    """`accord check` of the example with an edited pipeline, where the bank keeps the example's accord and spec."""
    conditions = yaml.safe_load(EXAMPLES[TERMS])
    terms = make_terms(conditions, {party: NodeKeys.generate().public for party in conditions["parties"]})
    home = tmp_path / "homes" / "north_bank"
    write_accord(home / "accords" / "customers.json", SignedAccord(terms=terms))
    shutil.copy(ROOT / "conf" / "parties" / "north_bank.yaml", home / "party.yaml")
    (home / SPEC).parent.mkdir()
    (home / SPEC).write_text(EXAMPLES[SPEC], encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    def run(text):
        path = tmp_path / PIPELINE
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return CliRunner().invoke(app, ["check", PIPELINE, "--homes", "homes"])

    return run


def example() -> str:
    return f"# {PIPELINE}\n{EXAMPLES[PIPELINE]}"


def edited(diff: str) -> str:
    old, new = ("\n".join(line[1:] for line in diff.splitlines() if line[0] == sign) for sign in "-+")
    assert example().count(old) == 1
    return example().replace(old, new)


def test_accord_check_accepts_the_example(check):
    done = check(example())
    assert done.exit_code == 0, done.exception
    assert "3 steps, 2 parties, good" in done.output
    assert "not checked against" not in done.output


def test_the_specs_of_the_example_are_the_one_that_it_gives(tmp_path):
    path = tmp_path / "customer.yaml"
    path.write_text(EXAMPLES[SPEC], encoding="utf-8")
    spec = load(path)
    named = {entry["spec"] for sets in yaml.safe_load(EXAMPLES[TERMS])["parties"].values() for entry in sets.values()}
    assert named == {spec.name} == {path.stem}
    (step,) = (each for each in loads(example(), PIPELINE).spec.steps.values() if each.component in ALIGNMENTS)
    assert spec.columns[step.params["id_column"]].type == "id"


def test_there_are_refused_edits_and_one_that_is_good():
    assert [bool(error) for _, error in EDITS] == [True, True, True, False]


@pytest.mark.parametrize(("diff", "error"), EDITS)
def test_an_edit_does_what_the_page_says(check, diff, error):
    done = check(edited(diff))
    if not error:
        assert done.exit_code == 0, done.exception
        return
    assert isinstance(done.exception, AccordError)
    assert f"{done.exception}\n" == error


@pytest.mark.parametrize(("rule", "written", "becomes"), table("rule"))
def test_ids_are_written_as_the_page_says(rule, written, becomes):
    value, reason = normal_form(words(written)[0], IdRule(**yaml.safe_load(words(rule)[0])))
    if becomes == "null" or becomes.startswith("invalid: "):
        assert (value, reason) == (None, becomes.removeprefix("invalid: "))
    else:
        assert (value, reason) == (words(becomes)[0], "")


def test_the_table_of_parameters_is_complete_and_has_their_defaults():
    known = {}
    for name in ALIGNMENTS:
        schema = catalogue()[name]["params"]
        for parameter, entry in schema["properties"].items():
            known[parameter] = "required" if parameter in schema["required"] else f"`{json.dumps(entry['default'])}`"
    assert {words(row[0])[0]: row[1] for row in table("parameter")} == known


def test_the_table_of_terms_is_complete_and_has_their_defaults():
    known = {name: json.dumps(field.default) for name, field in AlignmentTerms.model_fields.items()}
    listed = {words(row[0])[0]: row[1].strip("`").replace("nobody", "[]") for row in table("term")}
    assert listed == known


def test_the_report_has_the_keys_of_the_page():
    """The dictionary that `join_report` returns, as the code has it."""
    sources = [ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "components").glob("*.py")]
    (made,) = (node for tree in sources for node in ast.walk(tree) if getattr(node, "name", "") == "join_report")
    (returned,) = (node.value for node in ast.walk(made) if isinstance(node, ast.Return))
    keys = [key.value for key in returned.keys]
    assert [word for row in table("key") for word in words(row[0])] == keys


@pytest.mark.parametrize("said", [said for row in table("the error says") for said in words(row[0])])
def test_every_error_of_the_page_is_one_of_the_code(said):
    sources = "\n".join(p.read_text(encoding="utf-8") for f in CHECKED_BY for p in (ROOT / f).glob("*.py"))
    assert [part for part in said.split("...") if part.strip() not in sources] == []
