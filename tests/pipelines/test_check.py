"""`accord check` as a person sees it: one error with line and remedy, and nothing false where a spec is not here."""

import os
import subprocess
import sys

import pytest
import yaml

from crypto.node_keys import NodeKeys
from pipelines.accord import SignedAccord, make_terms, write_accord

CODE = "from party_node.cli import main; main()"
PARTY = """\
party: north_bank
listen: 127.0.0.1:7401
advertise: 127.0.0.1:7401
feature_specs: specs
clients: {}
data_sets: {}
peers: {}
"""
WRONG = [
    ("on_duplicates: all", "on_duplicates: all\n      reveal_to: [north_bank]", 10,
     "bureau does not get the alignment of step align", "name bureau in reveal_to"),
    ("on_duplicates: all", "on_duplicates: all\n      cardinality_only: true", 10,
     "bureau does not get the alignment of step align", "cardinality_only: false"),
    ("bureau: people}", "bureau: peple}", 10, "bureau has no such table in step align", "did you mean 'people'?"),
    ("{north_bank: half_ratings, bureau: people}", "{north_bank: half_ratings}", 10,
     "tables of step align has no entry for bureau", "add bureau"),
    ("id_column: user_id", "id_column: person", 10, "table people of bureau has no such column", "feature spec user"),
    ("id_column: user_id", "id_column: age", 10, "column age of table people of bureau is of another type", "type id"),
    ("component: align_rsa", "component: align_keyed_hash", 20,
     "ids of bureau can be tried one by one by the party that holds the key",
     "allow_low_entropy: true in the step and low_entropy_keyed_hash: true in a new version of the accord"),
]  # fmt: skip


@pytest.fixture
def check(repository, tmp_path):
    """`check(text)` runs the command on a pipeline beside a node directory with the demo's accord and specs."""
    home = tmp_path / "homes" / "north_bank"
    (home / "accords").mkdir(parents=True)
    (home / "party.yaml").write_text(PARTY)
    specs = home / "specs"
    specs.mkdir()
    for path in (repository / "feature_specs").glob("*.yaml"):
        (specs / path.name).write_text(path.read_text())
    conditions = yaml.safe_load((repository / "conf" / "accords" / "demo.yaml").read_text())
    terms = make_terms(conditions, {party: NodeKeys.generate().public for party in conditions["parties"]})
    write_accord(home / "accords" / "demo.json", SignedAccord(terms=terms))

    def run(text, *absent):
        for name in absent:
            (specs / f"{name}.yaml").unlink()
        file = tmp_path / "vertical.yaml"
        file.write_text(text)
        command = [sys.executable, "-c", CODE, "check", str(file), "--homes", str(tmp_path / "homes")]
        env = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}
        return subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=repository, env=env, timeout=120
        )

    return run


@pytest.fixture
def vertical(repository):
    return (repository / "conf" / "pipelines" / "vertical_mf.yaml").read_text()


@pytest.mark.parametrize(("old", "new", "code", "what", "remedy"), WRONG)
def test_what_a_run_would_find_is_one_readable_error(check, vertical, tmp_path, old, new, code, what, remedy):
    assert vertical.count(old) == 1
    done = check(vertical.replace(old, new))
    assert (done.returncode, done.stdout) == (code, "")
    first, *rows = done.stderr.rstrip().splitlines()
    assert first.endswith(what)
    assert [row.split()[0] for row in rows] == ["where", "expected", "found", "remedy"]
    file, line, key = [*rows[0].split()[1].rstrip(",").rsplit(":", 1), rows[0].split()[-1]]
    assert file == str(tmp_path / "vertical.yaml")
    assert key.startswith("steps.")
    assert key.split(".")[-1] in (tmp_path / "vertical.yaml").read_text().splitlines()[int(line) - 1]
    assert remedy in rows[3]


def test_a_good_pipeline_is_good(check, vertical):
    done = check(vertical)
    assert (done.returncode, done.stderr) == (0, "")
    assert "good" in done.stdout


def test_what_a_spec_that_is_not_here_would_say_is_not_said(check, vertical):
    done = check(vertical.replace("align_rsa", "align_keyed_hash"), "user", "interaction")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_wrong_feature_spec_is_told_with_its_path(check, vertical, tmp_path):
    spec = tmp_path / "homes" / "north_bank" / "specs" / "user.yaml"
    text = spec.read_text().replace("width: 7", "widht: 7")
    spec.write_text(text)
    line = next(n for n, row in enumerate(text.splitlines(), 1) if "widht" in row)
    done = check(vertical)
    assert (done.returncode, done.stdout) == (10, "")
    assert f"{spec}:{line}, key columns.user_id.rule.widht" in done.stderr
    assert "did you mean 'width'?" in done.stderr
