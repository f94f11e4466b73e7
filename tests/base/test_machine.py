"""A measurement says what made it."""

from base.machine import MEASURED, describe_machine


def test_a_reader_learns_date_cpu_and_versions() -> None:
    found = describe_machine()
    assert set(found) == {"date", "cpu", "cores", "python", "versions"}
    assert set(found["versions"]) == set(MEASURED)
    assert all(found.values())
