"""The floors of the house: the contract lists every package, nothing clashes, nothing heavy comes in at the top."""

import configparser
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from setuptools import find_packages

NOT_PACKAGES = {"tests", "dags", "conf", "docs", "feature_specs", "tools"}


def _floors(repository: Path) -> set[str]:
    config = configparser.ConfigParser()
    config.read(repository / "setup.cfg")
    text = config["importlinter:contract:floors"]["layers"]
    return {name.strip() for line in text.split() for name in line.split("|") if name.strip()}


def test_the_layers_contract_names_every_package(repository: Path) -> None:
    packages = {path.parent.name for path in repository.glob("*/__init__.py")}
    assert _floors(repository) == packages - NOT_PACKAGES
    built = {name.split(".")[0] for name in find_packages(str(repository), include=[f"{p}*" for p in packages])}
    assert built == packages - NOT_PACKAGES


def test_no_other_distribution_provides_a_package_of_ours(repository: Path) -> None:
    provided = packages_distributions()
    clashes = {name: set(provided.get(name, [])) - {"accord"} for name in _floors(repository)}
    assert not {name: others for name, others in clashes.items() if others}


@pytest.mark.parametrize(
    ("module", "forbidden"),
    [
        ("pipelines.load", ("torch", "pyspark", "numpy", "crypto", "mlflow")),
        ("airflow_provider.factory", ("torch", "pyspark", "crypto", "mlflow")),
        ("party_node.client", ("torch", "pyspark", "numpy", "crypto", "mlflow", "sqlalchemy")),
        ("components.contract", ("torch", "pyspark", "crypto", "mlflow")),
    ],
)
def test_what_an_import_brings_in(module: str, forbidden: tuple[str, ...], repository: Path) -> None:
    code = f"import sys, {module}; print(*sorted({{m.split('.')[0] for m in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, check=True)
    assert not set(forbidden) & set(done.stdout.split())


def test_the_repository_names_no_machine_and_no_registry(repository: Path) -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=repository, capture_output=True, text=True, check=True).stdout
    words = ["/root" + "/", "/home" + "/", "/work" + "/", "pypi" + ".org", "pythonhosted" + ".org"]
    hits = [
        (name, word)
        for name in tracked.split()
        if (repository / name).suffix not in {".png", ".gz"} and (repository / name).is_file()
        for word in words
        if word in (repository / name).read_text(encoding="utf-8", errors="ignore")
    ]
    assert not hits
