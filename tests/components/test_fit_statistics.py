import numpy as np
import opacus.accountants.analysis.rdp  # noqa: F401, torch comes along: before the deadline of a step runs
import pyarrow as pa
import pytest

from base.errors import ConsentError, DataError, SpecMismatch

BANKS = ("east", "north", "south")
ROLES = {"data_holder": BANKS, "aggregator": ("bureau",)}
PARAMS = {"table": "ratings", "column": "rating", "min_count": 20, "key_bits": 2048}


def tables(ratings, items=("1", "2", "3")):
    catalogue = pa.table({"item_id": list(items)})
    return {"tables": {"ratings": pa.table({"rating": pa.array(ratings, pa.float64())}), "catalogue": catalogue}}


def ratings():
    rng = np.random.default_rng(3)
    return {bank: rng.integers(1, 6, n).astype(float) for bank, n in zip(BANKS, (20, 57, 300), strict=True)}


def test_every_bank_ends_with_the_statistics_of_all_rows(threads):
    rows = ratings()
    outcome = threads(
        "fit_statistics", ROLES, {bank: tables(r) for bank, r in rows.items()}, PARAMS, run="statistics-1"
    )
    assert outcome.errors == {}
    assert outcome.outputs["bureau"] == {}
    found = [outcome.outputs[bank]["statistics"] for bank in BANKS]
    pooled = np.concatenate(list(rows.values()))
    assert found[0] == found[1] == found[2]
    assert found[0]["n"] == len(pooled)
    assert found[0]["mean"] == pytest.approx(pooled.mean(), abs=1e-12)
    assert found[0]["deviation"] == pytest.approx(pooled.std(), abs=1e-9)


def test_the_catalogue_s_digest_does_not_depend_on_order_or_repeats(threads):
    rows = ratings()
    items = [("1", "2"), ("2", "1"), ("2", "1", "2")]
    outcome = threads(
        "fit_statistics", ROLES, {bank: tables(rows[bank], i) for bank, i in zip(BANKS, items, strict=True)}, PARAMS,
        run="statistics-catalogues",
    )  # fmt: skip
    assert outcome.errors == {}


def test_another_catalogue_at_one_bank_gives_no_sum_to_anyone(threads):
    rows = ratings()
    inputs = {bank: tables(rows[bank]) for bank in BANKS} | {"south": tables(rows["south"], ("1", "2", "4"))}
    outcome = threads("fit_statistics", ROLES, inputs, PARAMS, run="statistics-2")
    assert not any(outcome.outputs.get(bank) for bank in BANKS)
    assert any(isinstance(error, SpecMismatch) for error in outcome.errors.values())


def test_a_bank_with_too_few_rows_stops_before_it_sends(threads):
    rows = ratings()
    inputs = {bank: tables(rows[bank]) for bank in BANKS} | {"south": tables(rows["south"][:19])}
    outcome = threads("fit_statistics", ROLES, inputs, PARAMS, run="statistics-3")
    assert isinstance(outcome.errors["south"], DataError)
    assert outcome.parcels["south"] == []


def test_two_banks_are_refused(threads):
    rows = ratings()
    roles = {"data_holder": BANKS[:2], "aggregator": ("bureau",)}
    outcome = threads(
        "fit_statistics", roles, {bank: tables(rows[bank]) for bank in BANKS[:2]}, PARAMS, run="statistics-4"
    )
    assert any(isinstance(error, ConsentError) for error in outcome.errors.values())
    assert all(parcels == [] for parcels in outcome.parcels.values())


def people(n, each=5):
    """Rows of n people, the last of whom has a thousand ratings of 1."""
    rng = np.random.default_rng(n)
    rows = np.concatenate([rng.integers(2, 6, n * each), np.ones(1000)]).astype(float)
    user = [f"u{k // each}" if k < n * each else "all" for k in range(len(rows))]
    table = pa.table({"rating": pa.array(rows), "user_id": user})
    return {"tables": {"ratings": table, "catalogue": pa.table({"item_id": ["1"]})}}


def test_with_noise_nobody_moves_the_mean_and_it_is_paid(threads):
    threads.privacy, threads.budgets = {"ratings": {"epsilon": 8.0, "delta": 1e-6}}, {}
    dp = {"epsilon": 8.0, "delta": 1e-6, "clip": 60.0, "data_set": "ratings"}
    given = {bank: people(n) for bank, n in zip(BANKS, (300, 250, 400), strict=True)}
    outcome = threads("fit_statistics", ROLES, given, PARAMS | {"dp": dp}, run="statistics-noise")
    assert outcome.errors == {}
    found = [outcome.outputs[bank]["statistics"] for bank in BANKS]
    assert found[0] == found[1] == found[2]
    assert found[0]["mean"] == pytest.approx(3.5, abs=0.3)  # with the three rows of a thousand it is below 2.5
    assert found[0]["n"] < 950 * 5 + 3 * 80 + 300
    assert threads.budgets["east"].read("ratings")[0] == 1
    again = threads("fit_statistics", ROLES, given, PARAMS | {"dp": dp}, run="statistics-noise-2")
    assert any(isinstance(error, ConsentError) for error in again.errors.values())


def test_a_mean_that_would_be_noise_is_refused_after_the_sum(threads):
    threads.privacy, threads.budgets = {"ratings": {"epsilon": 2.0, "delta": 1e-6}}, {}
    dp = {"epsilon": 0.2, "delta": 1e-6, "clip": 80.0, "data_set": "ratings"}
    given = {bank: people(4) for bank in BANKS}
    outcome = threads("fit_statistics", ROLES, given, PARAMS | {"dp": dp}, run="statistics-few")
    assert any("too few rows for so much noise" in str(error) for error in outcome.errors.values())
    assert not any(outcome.outputs.get(bank) for bank in BANKS)
    assert threads.budgets["east"].read("ratings")[0] == 1  # what left has been paid for
