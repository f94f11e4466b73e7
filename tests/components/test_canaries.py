"""What may never be seen outside: ids and feature values of one party, in the bytes that leave it before TLS.

Each canary is looked for in every form in which it could leave by mistake: as it is in the file, normalised, as an
integer, in UTF-16, compressed, and plainly hashed.
"""

from __future__ import annotations

import gzip
import hashlib
import struct
import zlib

import pytest
from canaries import canaries, forms, unmistakable, unpacked

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


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
                repr(entry).encode() for at in done.parties.values() for entry in at.ledger.store.entries(done.run)
            )
            for name, wanted in canaries(original, specs, party).items():
                assert not any(form in everything for form in unmistakable(wanted)), name
