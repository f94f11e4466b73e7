"""Canaries: values of one party that may never be seen outside, and every form in which they could leave by mistake."""

from __future__ import annotations

import csv
import gzip
import hashlib
import struct
import zlib

from features.idnorm import normal_form

PER_COLUMN = 8  # values of a column that are looked for, each in some twenty forms; the rest are of the same kind


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


def unmistakable(found: set[bytes]) -> set[bytes]:
    """Return the forms that lie in a large file by a leak and not by chance: no short digits, no small integers."""
    return {form for form in found if len(form) > 8 or (len(form) == 8 and form[:1].isalpha() and form.isalnum())}


def unpacked(body: bytes) -> list[bytes]:
    """Return the bytes, and what they hold if they are compressed as a whole."""
    found = [body]
    for unpack in (gzip.decompress, zlib.decompress, lambda b: zlib.decompress(b, -15)):
        try:
            found.append(unpack(body))
        except (OSError, EOFError, zlib.error):
            continue
    return found


COLUMNS = ("user_id", "timestamp", "zip")


def canaries(consortium, specs, party: str, but: tuple[str, ...] = ()) -> dict[str, set[bytes]]:
    """Return {data set.column: forms} of the raw files of a party, without values that a party of `but` has as well."""
    known = {value for other in but for _, _, values in _values(consortium, specs, other) for value in values}
    found = {}
    for name, rule, values in _values(consortium, specs, party):
        own = sorted(text for plain, text in values.items() if plain not in known)
        some = own[:: max(1, len(own) // PER_COLUMN)]
        found[name] = set().union(*(forms(text, rule) for text in some))
    return found


def _values(consortium, specs, party):
    """Yield (data set.column, id rule, {normal form: text in the file}) of the private columns of a party's files."""
    for path in sorted((consortium.directory(party) / "data").glob("*.csv")):
        if path.stem == "catalogue":  # public and the same at all parties
            continue
        spec = specs["user" if path.stem == "people" else "interaction"]
        with path.open(encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file))
        for column in COLUMNS:
            if column in rows[0]:
                rule = spec.columns[column].rule if column == "user_id" else None
                texts = {row[column] for row in rows if row[column] and len(row[column].strip()) >= 5}
                yield f"{path.stem}.{column}", rule, {_plain(text, rule): text for text in texts}


def _plain(text, rule):
    return (normal_form(text, rule)[0] if rule is not None else None) or text.strip()
