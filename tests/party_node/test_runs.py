"""An open run goes on only as it was agreed."""

import pytest
from run_parties import open_all, sign_anew

from base.errors import ConsentError


def test_an_open_run_stops_when_its_accord_is_replaced(parties, organisations):
    open_all(parties)
    parties["bureau"].runs.require_unchanged("r1", "load")
    sign_anew(organisations, version=2)
    with pytest.raises(ConsentError, match="not those of the run"):
        parties["bureau"].runs.require_unchanged("r1", "load")


def test_an_open_run_stops_when_a_feature_spec_is_edited(parties, organisations):
    open_all(parties)
    spec = organisations.directory("bureau") / "feature_specs" / "user.yaml"
    spec.write_text(spec.read_text().replace("on_null: drop", "on_null: refuse", 1))
    with pytest.raises(ConsentError, match="not those of the run"):
        parties["bureau"].runs.require_unchanged("r1", "load")


def test_data_changed_after_the_run_was_opened_are_not_loaded(parties, organisations):
    open_all(parties)
    path = organisations.directory("bureau") / "data" / "people.csv"
    path.write_text(path.read_text() + "C0000999,30,F,none,12345\n")
    with pytest.raises(ConsentError, match="committed to"):
        parties["bureau"].runs.require_unchanged("r1", "load")
    parties["bureau"].runs.require_unchanged("r1", "align")  # works on what was loaded
    parties["south_bank"].runs.require_unchanged("r1", "load")
