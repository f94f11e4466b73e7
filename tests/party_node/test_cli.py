import json
import os
import subprocess
import sys
import time

import pytest

from party_node import catalogue, health, names
from party_node.commands.common import size


def accord(*arguments, cwd):
    command = [sys.executable, "-c", "from party_node.cli import main; main()", *arguments]
    env = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=env, timeout=120)


def test_help_tells_a_newcomer_what_to_do(repository):
    shown = accord("--help", cwd=repository)
    assert shown.returncode == 0, shown.stderr
    for word in ("New here?", "accord doctor", "accord run", "provision", "simulate", "catalogue", "audit", "node"):
        assert word in shown.stdout


def test_the_command_line_loads_nothing_heavy(repository):
    program = (
        "import sys, party_node.cli;"
        "heavy = {'torch', 'pyspark', 'mlflow', 'numpy', 'pyarrow', 'sqlalchemy', 'pydantic'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    began = time.process_time()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=repository)
    assert done.stdout.strip() == "[]"
    assert time.process_time() - began < 5


def test_the_client_loads_nothing_of_the_platform(repository):
    program = (
        "import sys; from party_node.client import NodeClient; NodeClient('h', 1, 'a', 'b', 'c');"
        "platform = {'components', 'crypto', 'features', 'models', 'pipelines', 'runtime'};"
        "ours = {m.split('.')[0] for m in sys.modules} & platform;"
        "print(sorted(ours | ({'pyarrow', 'numpy', 'torch'} & set(sys.modules))))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=repository)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("nonsense",), 2, "No such command"),
        (("check", "conf/parties/bureau.yaml"), 10, "bureau.yaml:"),
        (("messages", "nonsense"), 10, "unknown component"),
        (("node", "status"), 10, "--party"),
        (("node", "status", "--home", "nowhere"), 10, "there is no party.yaml"),
        (("run", "nowhere.yaml"), 10, "cannot be read"),
    ],
)
def test_an_error_is_for_people_and_has_its_code(repository, arguments, code, said):
    done = accord(*arguments, cwd=repository)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_the_generated_files_say_what_the_components_say(repository):
    entries = catalogue.describe_all()
    assert (repository / "components" / "catalogue.json").read_text(encoding="utf-8") == catalogue.as_json(entries)
    assert (repository / "docs" / "messages.md").read_text(encoding="utf-8") == catalogue.as_markdown(entries)


def test_messages_for_machines(repository):
    done = accord("messages", "align_rsa", "--json", cwd=repository)
    names = {m["name"] for m in json.loads(done.stdout)["align_rsa"]}
    assert {"size", "key", "new", "blinded", "signed", "working", "tags", "matched"} <= names


def test_provision_csr_and_sign_csr(repository, tmp_path):
    homes, ca = tmp_path / "homes", tmp_path / "ca"
    options = ("--homes", str(homes))
    assert accord("provision", "bureau", *options, "--ca", str(ca), cwd=repository).returncode == 0
    assert accord("csr", "west_bank", *options, "--host", "node.west.example", cwd=repository).returncode == 0
    request = homes / "west_bank" / "keys" / "tls.csr"
    wrong = accord("sign-csr", str(request), "--name", "north_bank", "--ca", str(ca), cwd=repository)
    assert wrong.returncode == 32
    assert accord("sign-csr", str(request), "--name", "west_bank", "--ca", str(ca), cwd=repository).returncode == 0
    assert request.with_suffix(".crt").exists()
    assert not list(ca.glob("*west*"))


def test_parties_sign_one_document_in_turn(laid_out, repository, tmp_path):
    import shutil

    homes = tmp_path / "parties"
    shutil.copytree(laid_out.root / "parties", homes, ignore=shutil.ignore_patterns("*.db*", "store", "inbox"))
    terms = tmp_path / "pair.yaml"
    text = (
        (repository / "conf" / "accords" / "demo.yaml")
        .read_text(encoding="utf-8")
        .replace("accord: demo", "accord: pair")
    )
    text = text.replace("  west_bank:\n    ratings: {spec: interaction}\n    catalogue: {spec: item}\n", "")
    terms.write_text(text, encoding="utf-8")
    said = [
        accord("sign", str(terms), "--party", party, "--homes", str(homes), cwd=repository).stdout
        for party in ("north_bank", "south_bank", "bureau")
    ]
    assert "still to sign: bureau, south_bank" in said[0]
    assert "all have signed" in said[2]


def test_doctor_names_what_is_missing(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    java = next(f for f in health.machine() if f.what == "Java 17")
    assert not java.good
    assert "JRE 17" in java.remedy


def test_a_foreign_package_of_the_same_name_is_found(monkeypatch, tmp_path):
    assert names.foreign() == []
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "bench", raising=False)
    assert [found.split()[0] for found in names.foreign()] == ["bench"]


def test_the_list_of_top_level_packages_is_complete(repository):
    packages = {p.parent.name for p in repository.glob("*/__init__.py")}
    assert packages == set(names.TOP_LEVEL)


@pytest.mark.parametrize(("number", "text"), [(None, "-"), (999, "999 B"), (1500, "1.5 kB"), (2.5e9, "2.5 GB")])
def test_sizes_are_for_people(number, text):
    assert size(number) == text
