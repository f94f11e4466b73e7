"""What may never be seen outside: ids and feature values of one party, in the bytes that leave it before TLS.

Each canary is looked for in every form in which it could leave by mistake: as it is in the file, normalised, as an
integer, in UTF-16, compressed, and plainly hashed.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import struct
import zlib

import pytest

from features.idnorm import normal_form

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
PER_COLUMN = 40  # values of a column that are looked for; the rest are of the same kind


def forms(value: str, rule=None) -> set[bytes]:
    """Return the byte strings that would give a value away."""
    texts = {value, value.strip(), value.strip().lower(), value.strip().upper()}
    if rule is not None and (normal := normal_form(value, rule)[0]):
        digits = normal.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
        texts |= {normal, normal.lower(), digits, digits.lstrip("0")}
    found = set()
    for text in texts:
        plain = text.encode()
        hashes = [hashlib.new(name, plain) for name in ("md5", "sha1", "sha256", "sha512")]
        found |= {plain, text.encode("utf-16-le"), text.encode("utf-16-be")}
        found |= {h.digest() for h in hashes} | {h.hexdigest().encode() for h in hashes}
        if text.isdecimal() and len(text) < 18:
            found |= {struct.pack("<q", int(text)), struct.pack(">q", int(text)), struct.pack("<d", float(text))}
    return {form for form in found if len(form) >= 5}


def unpacked(body: bytes) -> list[bytes]:
    """Return the bytes, and what they hold if they are compressed as a whole."""
    found = [body]
    for unpack in (gzip.decompress, zlib.decompress, lambda b: zlib.decompress(b, -15)):
        try:
            found.append(unpack(body))
        except (OSError, EOFError, zlib.error):
            continue
    return found


def canaries(consortium, specs, party: str) -> dict[str, set[bytes]]:
    """Return {data set.column: forms} of the raw files of a party; what another party may know anyway is left out."""
    found = {}
    for path in sorted((consortium.directory(party) / "data").glob("*.csv")):
        if path.stem == "catalogue":  # public and the same at all parties
            continue
        spec = specs["user" if path.stem == "people" else "interaction"]
        with path.open(encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file))
        for column in ("user_id", "timestamp", "zip"):
            if column in rows[0]:
                rule = spec.columns[column].rule if column == "user_id" else None
                values = {row[column] for row in rows if row[column] and len(row[column].strip()) >= 5}
                some = sorted(values)[:: max(1, len(values) // PER_COLUMN)]
                found[f"{path.stem}.{column}"] = set().union(*(forms(value, rule) for value in some))
    return found


def test_the_search_finds_what_is_there(specs):
    rule = specs["interaction"].columns["user_id"].rule
    raw = "c 0048213"
    hits = [b"..C0048213..", b"x" + hashlib.sha256(b"C0048213").digest(), "C0048213".encode("utf-16-le"),
            struct.pack("<q", 48213), zlib.compress(b"C0048213"), gzip.compress(b"C0048213")]  # fmt: skip
    wanted = forms(raw.replace(" ", ""), rule)
    assert all(any(form in piece for form in wanted for piece in unpacked(hit)) for hit in hits)


def test_no_canary_leaves_its_party(outcome, original, specs):
    for pipeline, (spec, _, exchange) in outcome.items():
        for party in spec.parties:
            bodies = [piece for p in exchange.parcels if p.header.sender == party for piece in unpacked(p.body)]
            assert bodies, f"{party} sends nothing in {pipeline}"
            everything = b"\0\0".join(bodies)
            for name, wanted in canaries(original, specs, party).items():
                hits = sum(form in everything for form in wanted)
                assert hits == 0, f"{hits} forms of {name} leave {party} in {pipeline}"


def test_no_canary_is_in_a_metric_or_a_ledger(outcome, original, specs):
    for spec, done, _ in outcome.values():
        for party in spec.parties:
            everything = repr(done.metrics).encode() + b"".join(
                repr(entry).encode() for at in done.parties.values() for entry in at.ledger.store.entries("simulation")
            )
            for name, wanted in canaries(original, specs, party).items():
                assert not any(form in everything for form in wanted if len(form) > 6), name
