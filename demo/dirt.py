"""The dirt of real life, added on purpose and counted, so that a test can compare what was caught with what was put in.

Three kinds: *spelled* ids (the same id in another form, to be normalised), *extra* rows (copies of good rows with one
field broken, to be dropped; the good row stays, so a clean table is exactly what went in) and *duplicates* (a good row
again, its ids perhaps spelled differently). Extra rows are named as the rules that catch them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

Row = dict[str, str]
BANK_FORMS = {"bank": 0.94, "blanks": 0.03, "lower": 0.02, "bare": 0.01}
BUREAU_FORMS = {"bare": 0.55, "zeros": 0.15, "blanks": 0.1, "wide": 0.1, "lower": 0.1}
ITEM_FORMS = {"plain": 0.97, "zeros": 0.02, "blanks": 0.01}
EXTRA_RATINGS: Mapping[str, tuple[str, Sequence[str]]] = {
    "user_id.null": ("user_id", ("", "NULL", "  ")),
    "user_id.form": ("user_id", ("C12-45", "12345.0", "C?")),
    "item_id.null": ("item_id", ("", "n/a")),
    "rating.bounds": ("rating", ("9", "0", "-1")),
    "rating.type": ("rating", ("good", "4,5")),
    "rating.null": ("rating", ("", "NaN")),
    "timestamp.bounds": ("timestamp", ("0", "99999999999")),
}
EXTRA_PEOPLE: Mapping[str, tuple[str, Sequence[str]]] = {
    "user_id.null": ("user_id", ("", "None")),
    "user_id.form": ("user_id", ("C-17", "31.0")),
    "age.bounds": ("age", ("212", "-4")),
    "age.type": ("age", ("old",)),
    "sex.values": ("sex", ("X", "?")),
    "occupation.null": ("occupation", ("", "null")),
}


def spell(number: int, form: str) -> str:
    """Write a customer number in a form of its own; all forms have one normal form."""
    forms = {
        "bank": f"C{number:07d}",
        "bare": str(number),
        "plain": str(number),
        "zeros": f"{number:09d}" if number > 9999 else f"{number:06d}",
        "blanks": f"  {number} ",
        "lower": f"c{number:07d}",
        "wide": str(number).translate({ord("0") + d: 0xFF10 + d for d in range(10)}),
    }
    return forms[form]


@dataclass
class Dirty:
    """Rows with their dirt counted."""

    rows: list[Row]
    clean: int  # rows that must be left after validation
    spelled: Counter[str] = field(default_factory=Counter)  # form -> ids
    extra: Counter[str] = field(default_factory=Counter)  # rule -> rows that it must catch


def spelled_ids(
    numbers: np.ndarray, forms: Mapping[str, float], rng: np.random.Generator
) -> tuple[list[str], Counter[str]]:
    """Write each number in a form drawn with the given shares."""
    drawn = rng.choice(len(forms), len(numbers), p=list(forms.values()))
    names = [list(forms)[d] for d in drawn]
    return [spell(int(n), form) for n, form in zip(numbers, names, strict=True)], Counter(names)


def soil(
    rows: list[Row], extra: Mapping[str, tuple[str, Sequence[str]]], share: float, rng: np.random.Generator
) -> Dirty:
    """Add broken copies (`share` of the rows for each kind) and twice as many duplicates, and shuffle the file."""
    dirty = Dirty(list(rows), clean=len(rows))
    each = max(1, round(share * len(rows)))
    for rule, (column, spellings) in extra.items():
        for n, source in enumerate(rng.choice(len(rows), each, replace=False)):
            dirty.rows.append({**rows[source], column: spellings[n % len(spellings)]})
        dirty.extra[rule] = each
    for source in rng.choice(len(rows), 2 * each, replace=False):
        ids = {name: f" {value}" for name, value in rows[source].items() if name.endswith("_id")}
        dirty.rows.append({**rows[source], **ids})
    dirty.extra["duplicate"] = 2 * each
    dirty.rows = [dirty.rows[i] for i in rng.permutation(len(dirty.rows))]
    return dirty
