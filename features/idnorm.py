"""The normal form of ids: most "empty intersection" reports come from ids that only look different.

Ids are text, always. An id that became a float ("123.0"), carries a sign or a control character is invalid: it is
counted by rule and never guessed at. A null matches nothing. Phone numbers and other ids with a form of their own
are in `features.id_forms`.
"""

from __future__ import annotations

import unicodedata

import pyarrow as pa
import pyarrow.compute as pc

from features.id_forms import FORM, FORMS, LENGTH
from features.spec import IdRule

NULL = "null"
CONTROL = "control"  # a control or invisible character
UNSTABLE = "unstable"  # Unicode forms that go round in a circle
_PASSES = 4


def normal_form(text: str | None, rule: IdRule) -> tuple[str | None, str]:
    """Return (normal form, "") or (None, why not): the reasons are those of this file and of `features.id_forms`.

    Idempotent: the normal form of a normal form is itself.
    """
    if text is None:
        return None, NULL
    plain = _plain(text, rule)
    if plain is None:
        return None, UNSTABLE
    if _is_null(plain, rule):
        return None, NULL
    if not _printable(plain):
        return None, CONTROL
    if rule.type in FORMS:
        return _stable(*FORMS[rule.type](plain, rule), rule)
    if rule.type == "integer":
        digits = plain.removeprefix(_plain(rule.prefix, rule) or "")
        if not (digits.isascii() and digits.isdigit()):
            return None, FORM
        plain = rule.prefix + (digits.lstrip("0") or "0").rjust(rule.width, "0")
    return (plain, "") if 0 < len(plain) <= rule.max_length else (None, LENGTH)


def normalise(column: pa.Array | pa.ChunkedArray, rule: IdRule) -> tuple[pa.Array, pa.Array]:
    """Return (normal forms, reasons), both string arrays of the column's length; a valid id has the reason ""."""
    encoded = pc.dictionary_encode(_one_chunk(column))
    outcomes = [normal_form(text, rule) for text in encoded.dictionary.to_pylist()]
    values = pa.array([value for value, _ in outcomes], pa.string())
    reasons = pa.array([reason for _, reason in outcomes], pa.string())
    return values.take(encoded.indices), pc.fill_null(reasons.take(encoded.indices), NULL)


def _plain(text: str, rule: IdRule) -> str | None:
    """Apply NFKC, strip and case until nothing changes: a change of case can undo NFKC, NFKC can make blanks."""
    if text.isascii():  # NFKC changes nothing, a change of case is final
        text = text.strip() if rule.strip else text
        return text.lower() if rule.case == "lower" else text.upper() if rule.case == "upper" else text
    for _ in range(_PASSES):
        before = text
        text = unicodedata.normalize("NFKC", text) if rule.nfkc else text
        text = text.strip() if rule.strip else text
        text = text.lower() if rule.case == "lower" else text.upper() if rule.case == "upper" else text
        if text == before:
            return text
    return None


def _is_null(plain: str, rule: IdRule) -> bool:
    return (plain if plain.isascii() else unicodedata.normalize("NFKC", plain)).strip().lower() in rule.nulls


def _printable(plain: str) -> bool:
    if plain.isascii():
        return plain.isprintable()
    return all(unicodedata.category(char)[0] != "C" for char in plain)


def _stable(value: str | None, reason: str, rule: IdRule) -> tuple[str | None, str]:
    """Refuse what the rule would change once more."""
    return (value, reason) if value is None or _plain(value, rule) == value else (None, UNSTABLE)


def _one_chunk(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
