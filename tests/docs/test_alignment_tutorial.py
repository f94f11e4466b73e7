"""The page on alignments: its example is accepted, its edits do what it says, its tables are those of the code."""

import ast
import json
import re
import shutil
from datetime import date
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from base.errors import AccordError
from bench.crypto_meter import BITS
from components.alignment import AlignParams
from components.alignment_ids import capacity
from components.registry import catalogue
from crypto.node_keys import NodeKeys
from features.id_entropy import id_space
from features.idnorm import normal_form
from features.spec import FeatureSpec, IdRule, load
from party_node.cli import app
from pipelines.accord import SignedAccord, make_terms, read_accord, write_accord
from pipelines.alignment_terms import AlignmentTerms
from pipelines.load import loads

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "tutorials" / "choose_an_alignment.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"```yaml\n# (\S+)\n(.*?)```", TEXT, re.DOTALL))
PIPELINE, TERMS, SPEC = "conf/pipelines/customers.yaml", "conf/accords/customers.yaml", "feature_specs/customer.yaml"
STEPS = dict(re.findall(r"```yaml\n# the step of (\S+)\n(.*?)```", TEXT, re.DOTALL))
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
    home = tmp_path / "homes" / "north_bank"
    (home / "feature_specs").mkdir(parents=True)
    shutil.copy(ROOT / "conf" / "parties" / "north_bank.yaml", home / "party.yaml")
    for name in (name for name in EXAMPLES if name.startswith("feature_specs/")):
        (home / name).write_text(EXAMPLES[name], encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    def run(text, terms=TERMS, **changes):
        conditions = {**yaml.safe_load(EXAMPLES[terms]), **changes}
        made = make_terms(conditions, {party: NodeKeys.generate().public for party in conditions["parties"]})
        write_accord(home / "accords" / f"{made.accord}.json", SignedAccord(terms=made))
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


def variant(name: str) -> str:
    """The example's pipeline with another name, accord and last step, as the page says."""
    text = (
        example()
        .replace("pipeline: customers\n", f"pipeline: {name}\n")
        .replace("accord: customers\n", f"accord: {name}\n")
    )
    assert text.count(name) == 2
    return text.partition("  align:\n")[0] + STEPS[f"conf/pipelines/{name}.yaml"]


def step_of(text: str):
    (step,) = (each for each in loads(text, PIPELINE).spec.steps.values() if each.component in ALIGNMENTS)
    return step


@pytest.mark.parametrize(
    ("name", "component"), [("customers_rsa", "align_rsa"), ("customers_hash", "align_keyed_hash")]
)
def test_accord_check_accepts_the_other_alignments(check, name, component):
    assert step_of(variant(name)).component == component
    done = check(variant(name), f"conf/accords/{name}.yaml")
    assert done.exit_code == 0, done.exception
    assert "3 steps, 2 parties, good" in done.output
    assert "not checked against" not in done.output


def test_three_signings_complete_the_accord_at_both(tmp_path, monkeypatch):
    """The page's commands, in its order, in an empty directory with the repository's own files."""
    for folder in ("conf", "feature_specs"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    (tmp_path / TERMS).write_text(EXAMPLES[TERMS], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    (homes,) = re.findall(r"^    export ACCORD_HOMES=(\S+)$", TEXT, re.MULTILINE)
    monkeypatch.setenv("ACCORD_HOMES", homes)
    commands = re.findall(r"^    accord ((?:provision|sign) (?!DOCUMENT).*)$", TEXT, re.MULTILINE)
    assert [line.split()[0] for line in commands] == ["provision"] * 2 + ["sign"] * 3
    for line in commands:
        done = CliRunner().invoke(app, line.split())
        assert done.exit_code == 0, done.exception
    for party in ("north_bank", "bureau"):
        read_accord(Path(homes) / party / "accords" / "customers.json").verify(date(2026, 6, 1))


def test_the_ports_are_those_of_the_parties_files():
    for party, port in (("north_bank", 7401), ("bureau", 7404)):
        conf = yaml.safe_load((ROOT / "conf" / "parties" / f"{party}.yaml").read_text(encoding="utf-8"))
        assert {conf["listen"], conf["advertise"], conf["peers"][party]} == {f"127.0.0.1:{port}"}
        assert re.search(rf"`{party}`\s(?:listens\s)?at(?:\sport)?\s{port}", TEXT)


def test_the_budgets_are_what_the_nights_take():
    """Padded sizes as the components compute them: `max_tests` of two, `max_signatures` of the third."""
    customers, runs = 100_000, yaml.safe_load(EXAMPLES[TERMS])["max_runs"]
    padded = capacity(-(-customers // 1024) * 1024, 1)
    assert (f"{padded:,}", padded) == ("100,352", AlignParams(tables={}, id_column="id").pad_to * 98)
    assert f"times that is {runs * padded:,}" in TEXT
    assert 39 * padded <= 4_000_000 < 40 * padded
    curve, hashed, rsa = (
        step_of(text).params for text in (example(), variant("customers_hash"), variant("customers_rsa"))
    )
    assert curve["max_tests"] == runs * padded
    assert hashed["max_tests"] == 2 * runs * padded
    signatures = -(-customers // rsa["pad_to"]) * rsa["pad_to"] + (runs - 1) * rsa["pad_to"]
    assert rsa["max_signatures"] == signatures
    assert f"500 in each of {runs - 1} further ones: {signatures:,}" in TEXT
    space = id_space(yaml_spec("feature_specs/customer.yaml").columns["phone"].normal_form)
    assert f"{space:,} possible phone numbers" in TEXT
    assert max(curve["max_tests"], signatures) <= space // 10


def yaml_spec(name: str) -> FeatureSpec:
    return FeatureSpec.model_validate(yaml.safe_load(EXAMPLES[name]))


def test_the_plot_is_for_the_length_of_key_that_the_page_says():
    bits = json.loads((ROOT / "docs" / "results" / "psi.json").read_text(encoding="utf-8"))["psi"]["bits"]
    default = catalogue()["align_rsa"]["params"]["properties"]["key_bits"]["default"]
    assert f"header of psi.json, {bits} bits" in TEXT
    assert f"a step has {default} (`key_bits`)" in TEXT
    assert bits == BITS < default


def test_who_learns_by_default_is_refused_with_what_to_write(check):
    (error,) = re.findall(r"unless it is written:\n\n```text\n(.*?)```", TEXT, re.DOTALL)
    done = check(example(), learns_alignment=["north_bank"])
    assert isinstance(done.exception, AccordError)
    assert f"{done.exception}\n" == error
    mended = edited("-      id_column: phone\n+      id_column: phone\n+      reveal_to: [north_bank]")
    assert check(mended, learns_alignment=["north_bank"]).exit_code == 0


def test_the_specs_of_the_example_are_the_one_that_it_gives(tmp_path):
    path = tmp_path / "customer.yaml"
    path.write_text(EXAMPLES[SPEC], encoding="utf-8")
    spec = load(path)
    named = {entry["spec"] for sets in yaml.safe_load(EXAMPLES[TERMS])["parties"].values() for entry in sets.values()}
    assert named == {spec.name} == {path.stem}
    assert spec.columns[step_of(example()).params["id_column"]].type == "id"


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
