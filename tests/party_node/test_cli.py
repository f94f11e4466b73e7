import json
import os
import subprocess
import sys
import time

import pytest

from base.errors import ConsentError, DataError, PeerDown
from party_node import catalogue, health, names
from party_node.accords import Accords
from party_node.commands.common import size
from party_node.commands.run import _joined, _way_on
from runtime.party import Home

MAIN = "from party_node.cli import main; main()"
PASS = ["masked", "masked", "answer", "passed"]
TERMINAL = f"import sys; sys.stdout.isatty = lambda: True; {MAIN}"


def accord(*arguments, cwd, columns="200", terminal=False):
    command = [sys.executable, "-c", TERMINAL if terminal else MAIN, *arguments]
    env = {**os.environ, "COLUMNS": columns, "NO_COLOR": "1", "TERM": "dumb"}
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
        (("node", "status"), 2, "--party"),
        (("audit", "verify", "r1"), 2, "--party"),
        (("erase", "--accord", "demo", "--yes"), 2, "--party"),
        (("run", "vertical_mf"), 10, "name the file: conf/pipelines/vertical_mf.yaml"),
        (("simulate", "conf/horizontal_mf.yaml"), 10, "name the file: conf/pipelines/horizontal_mf.yaml"),
        (("node", "status", "--home", "nowhere"), 10, "there is no party.yaml"),
        (("run", "nowhere.yaml"), 10, "there is no such pipeline file"),
        (("check", "conf/pipelines/vertcal_mf.yaml"), 10, "did you mean 'conf/pipelines/vertical_mf.yaml'?"),
        (("check", "nothere.yaml"), 10, "remedy   name a file that is there: ls conf/pipelines"),
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


def test_a_name_of_both_is_the_component_and_says_so(repository):
    done = accord("messages", "vertical_mf", cwd=repository)
    assert done.returncode == 0, done.stderr
    assert "accord messages conf/pipelines/vertical_mf.yaml" in done.stdout
    assert "align_rsa" not in done.stdout
    pipeline = accord("messages", "conf/pipelines/vertical_mf.yaml", cwd=repository).stdout
    assert "align_rsa" in pipeline
    assert "is a component and a pipeline" not in pipeline


def test_a_pipe_cuts_nothing(repository):
    shown = accord("messages", "align_rsa", cwd=repository, columns="40").stdout
    for m in json.loads(accord("messages", "align_rsa", "--json", cwd=repository).stdout)["align_rsa"]:
        assert any(all(m[part] in line for part in ("name", "protection", "reveals")) for line in shown.splitlines())


def test_a_narrow_terminal_breaks_words_and_cuts_no_name(repository):
    shown = accord("messages", "align_rsa", cwd=repository, columns="80", terminal=True).stdout
    assert max(map(len, shown.splitlines())) <= 80
    assert "hashed_signature" in shown
    assert "…" not in shown


@pytest.mark.parametrize(
    ("name", "only"), [("align_rsa", PASS), ("align_keyed_hash", PASS), ("align_ecdh", ["passed", "order"])]
)
def test_messages_of_a_cardinality_pass_alone_say_so(repository, name, only):
    rows = json.loads(accord("messages", name, "--json", cwd=repository).stdout)[name]
    assert [m["name"] for m in rows if m["reveals"].startswith("only with cardinality_pass: true")] == only


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
    document = tmp_path / "accords" / "pair.json"
    assert "still to sign: bureau, south_bank" in said[0]
    assert f"accord sign {document} --party south_bank\n" in said[0]
    assert "all have signed" in said[2]
    assert f"accord sign {document} --party north_bank\n" in said[2]

    north = Accords(Home(homes / "north_bank"))
    with pytest.raises(ConsentError, match="this copy of the accord lacks the signature of") as caught:
        north.get("pair")
    assert "accord sign DOCUMENT.json --party " in caught.value.remedy
    assert accord("sign", str(document), "--party", "north_bank", "--homes", str(homes), cwd=repository).returncode == 0
    assert north.get("pair").terms.accord == "pair"
    last = accord("sign", str(document), "--party", "south_bank", "--homes", str(homes), cwd=repository).stdout
    assert last.endswith("all have signed, and all copies are the same: the accord is complete\n")


def test_a_misspelt_accord_is_told_which_is_meant(laid_out, repository, tmp_path):
    path = tmp_path / "small.yaml"
    text = (repository / "tests" / "party_node" / "small.yaml").read_text(encoding="utf-8")
    path.write_text(text.replace("accord: demo", "accord: dem"), encoding="utf-8")
    homes = ("--homes", str(laid_out.root / "parties"))
    assert "did you mean 'demo'?" in accord("check", str(path), *homes, cwd=repository).stdout
    for command in (("run",), ("simulate",), ("approve", "--party", "bureau")):
        refused = accord(*command, str(path), *homes, cwd=repository)
        assert refused.returncode == ConsentError.code
        assert "small.yaml:3, key accord" in refused.stderr
        assert "did you mean 'demo'?" in refused.stderr


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


def test_a_join_report_is_one_line_without_what_is_not_known():
    report = {"read": 11, "null": 1, "invalid": {"form": 2, "check_digit": 1}, "dropped_duplicates": 2, "rows": 5,
              "duplicate": 0, "distinct": 5, "aligned": 4, "table": "people", "padded": 64}  # fmt: skip
    rest = "null 1, invalid 3 (1 check_digit, 2 form), dropped_duplicates 2"
    assert _joined(report) == f"read 11, {rest}, rows 5, duplicate 0, distinct 5, aligned 4"
    more = {**report, "read": 14}
    assert _joined(more) == f"read 14, {rest}, dropped_otherwise 3, rows 5, duplicate 0, distinct 5, aligned 4"
    less = {**report, "read": None, "invalid": {}, "aligned": None}
    assert _joined(less) == "null 1, invalid 0, dropped_duplicates 2, rows 5, duplicate 0, distinct 5"


def test_a_failed_step_says_how_to_go_on_only_where_that_can_help():
    assert _way_on(PeerDown("x"), "k/1").endswith("add to the command: --run-key k/1")
    told = _way_on(DataError("x"), "k/1")
    assert "new run" in told
    assert "k/1" not in told
