"""After real runs on real nodes: no party's ids or feature values lie anywhere but in its own directory."""

from pathlib import Path

import pytest
from canaries import canaries, unmistakable

pytestmark = [pytest.mark.node, pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(1800)]


def files(folder: Path, leave_out: tuple[str, ...] = ()):
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not set(path.relative_to(folder).parts) & set(leave_out):
            yield path, path.read_bytes()


@pytest.fixture(scope="module")
def specs(repository):
    from features.spec import load_all

    return load_all(repository / "feature_specs")


@pytest.mark.parametrize("party", ["north_bank", "south_bank", "west_bank", "bureau"])
def test_nothing_of_a_party_lies_at_another(party, in_process, specs):
    consortium, _, _ = in_process
    for other in consortium.parties:
        if other != party:
            own = canaries(consortium, specs, party, but=(other,))
            wanted = {name: unmistakable(found) for name, found in own.items()}
            assert any(wanted.values())
            for path, data in files(consortium.directory(other), leave_out=("data",)):
                for name, found in wanted.items():
                    assert not any(form in data for form in found), f"{name} of {party} in {path.name} of {other}"


@pytest.mark.parametrize("party", ["north_bank", "south_bank", "west_bank", "bureau"])
def test_nothing_of_a_party_lies_in_airflow_logs_or_mlflow(party, in_process, specs):
    consortium, home, _ = in_process
    wanted = {name: unmistakable(found) for name, found in canaries(consortium, specs, party).items()}
    places = [
        *files(home.home),
        *files(consortium.directory(party) / "logs"),
        *((path, path.read_bytes()) for path in consortium.directory(party).glob("*.db*")),
    ]
    assert len(places) > 5
    for path, data in places:
        for name, found in wanted.items():
            assert not any(form in data for form in found), f"{name} of {party} in {path.name}"
