"""The demo consortium's raw files: one data set shared out to three banks and a bureau, with dirt (docs/demo_data.md).

    north_bank, south_bank, west_bank   ratings (a third of the people each), catalogue
    north_bank                          half_ratings: all people, a seeded random half of the items
    bureau                              people (demographics), behaviour (the other half of the items), catalogue

The same source and seed give the same files, byte for byte. The manifest says what was put in, by kind and count.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from base.canonical import digest_bytes
from base.errors import SpecError
from demo.dirt import BANK_FORMS, BUREAU_FORMS, EXTRA_PEOPLE, EXTRA_RATINGS, ITEM_FORMS, Dirty, Row, soil, spelled_ids
from demo.fetch import GENRES, Raw, from_archive, from_wheel, movielens
from demo.synthetic import generate

BANKS = ("north_bank", "south_bank", "west_bank")
BUREAU = "bureau"
SOURCES = ("movielens", "wheel", "archive", "synthetic")
RATING_DIRT, PEOPLE_DIRT = 0.001, 0.004  # share of rows for each kind of broken row
BUREAU_ONLY = 37  # people whom the bureau knows and no bank does


@dataclass(frozen=True)
class Shares:
    """Who holds what. Numbers are customer numbers of seven digits, positions as in the raw data."""

    numbers: np.ndarray  # (people,) customer number of each person; drawn, so that it says nothing
    strangers: np.ndarray  # (BUREAU_ONLY,) further customer numbers
    bank: np.ndarray  # (people,) 0..2: index into BANKS
    half: np.ndarray  # (items,) bool: north_bank's half of the items


def read(source: str, cache: Path, seed: int) -> Raw:
    """Return the raw data of a source: movielens (wheel, else archive), wheel, archive or synthetic."""
    if source not in SOURCES:
        raise SpecError("unknown source of demo data", expected=", ".join(SOURCES), found=source)
    if source == "synthetic":
        return generate(seed)
    return {"movielens": movielens, "wheel": from_wheel, "archive": from_archive}[source](cache)


def share_out(raw: Raw, seed: int) -> Shares:
    """Draw who holds what, by seed."""
    rng = np.random.default_rng([seed, 0xDE30])
    people, items = len(raw.people), len(raw.items)
    drawn = rng.choice(9_990_000, people + BUREAU_ONLY, replace=False) + 10_000
    half = np.zeros(items, dtype=bool)
    half[rng.permutation(items)[: items // 2]] = True
    return Shares(drawn[:people], drawn[people:], rng.permutation(np.arange(people) % len(BANKS)), half)


def prepare(source: str, out_dir: Path, seed: int, cache: Path | None = None) -> dict[str, Any]:
    """Write every party's raw files below `out_dir`/<party>/data/ and the manifest; return the manifest.

    `cache` keeps what was fetched (default: `out_dir`/download). The manifest holds counts and digests, no ids.
    """
    raw = read(source, cache or out_dir / "download", seed)
    shares = share_out(raw, seed)
    files = {}
    for number, (party, name) in enumerate(_contents()):
        rng = np.random.default_rng([seed, 0xD127, number])
        dirty = _make(raw, shares, party, name, rng)
        files[f"{party}/{name}"] = _write(out_dir / party / "data" / f"{name}.csv", dirty)
    manifest = {
        "source": source,
        "seed": seed,
        "people": len(raw.people),
        "items": len(raw.items),
        "ratings": len(raw.ratings),
        "bureau_only_people": BUREAU_ONLY,
        "files": files,
    }
    (out_dir / "manifest.json").write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n")
    return manifest


def _contents() -> list[tuple[str, str]]:
    banks = [(bank, name) for bank in BANKS for name in ("ratings", "catalogue")]
    return [*banks, ("north_bank", "half_ratings"), (BUREAU, "people"), (BUREAU, "behaviour"), (BUREAU, "catalogue")]


def _make(raw: Raw, shares: Shares, party: str, name: str, rng: np.random.Generator) -> Dirty:
    if name == "catalogue":
        return _catalogue(raw, rng)
    if name == "people":
        return _people(raw, shares, rng)
    u, i = raw.ratings[:, 0] - 1, raw.ratings[:, 1] - 1
    if name == "ratings":
        return _interactions(raw.ratings[shares.bank[u] == BANKS.index(party)], shares, BANK_FORMS, rng)
    mine = shares.half[i] if name == "half_ratings" else ~shares.half[i]
    return _interactions(raw.ratings[mine], shares, BUREAU_FORMS if party == BUREAU else BANK_FORMS, rng)


def _interactions(rows: np.ndarray, shares: Shares, forms: dict[str, float], rng: np.random.Generator) -> Dirty:
    user_ids, user_forms = spelled_ids(shares.numbers[rows[:, 0] - 1], forms, rng)
    item_ids, item_forms = spelled_ids(rows[:, 1], ITEM_FORMS, rng)
    table: list[Row] = [
        {"user_id": user, "item_id": item, "rating": str(rating), "timestamp": str(time)}
        for user, item, rating, time in zip(user_ids, item_ids, rows[:, 2], rows[:, 3], strict=True)
    ]
    dirty = soil(table, EXTRA_RATINGS, RATING_DIRT, rng)
    dirty.spelled = _prefixed("user_id", user_forms) + _prefixed("item_id", item_forms)
    return dirty


def _people(raw: Raw, shares: Shares, rng: np.random.Generator) -> Dirty:
    """Return the bureau's people: everyone, and some whom no bank knows, with the traits of somebody else."""
    model = rng.choice(len(raw.people), len(shares.strangers))
    numbers = np.concatenate([shares.numbers, shares.strangers])
    ids, forms = spelled_ids(numbers, BUREAU_FORMS, rng)
    table: list[Row] = []
    for user, n in zip(ids, [*range(len(raw.people)), *model], strict=True):
        _, age, sex, occupation, code = raw.people[n]
        loud = rng.random() < 0.05
        row = {"user_id": user, "age": str(age), "sex": sex, "occupation": occupation, "zip": code}
        table.append({**row, "sex": f" {sex.lower()}", "occupation": occupation.upper()} if loud else row)
    for n in rng.choice(len(table), 5, replace=False):
        table[n]["zip"] = ""  # a null that the spec allows
    dirty = soil(table, EXTRA_PEOPLE, PEOPLE_DIRT, rng)
    dirty.spelled = _prefixed("user_id", forms)
    return dirty


def _catalogue(raw: Raw, rng: np.random.Generator) -> Dirty:
    ids, forms = spelled_ids(np.array([item for item, _, _ in raw.items]), ITEM_FORMS, rng)
    table: list[Row] = [
        {"item_id": number, "title": title, **{f"genre_{g}": str(f) for g, f in zip(GENRES, flags, strict=True)}}
        for number, (_, title, flags) in zip(ids, raw.items, strict=True)
    ]
    dirty = soil(table, {"item_id.null": ("item_id", ("",))}, RATING_DIRT, rng)
    dirty.spelled = _prefixed("item_id", forms)
    return dirty


def _prefixed(column: str, forms: Counter[str]) -> Counter[str]:
    return Counter({f"{column}.{form}": count for form, count in forms.items()})


def _write(path: Path, dirty: Dirty) -> dict[str, Any]:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = _csv(dirty.rows)
    path.write_bytes(data)
    return {
        "sha256": digest_bytes(data),
        "rows": len(dirty.rows),
        "clean": dirty.clean,
        "extra": dict(sorted(dirty.extra.items())),
        "spelled": dict(sorted(dirty.spelled.items())),
    }


def _csv(rows: Sequence[Row]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()
