"""How many ids a rule allows, and whether somebody could try them all.

A hash of an id hides nothing from somebody who can hash every possible id. So the size of the id space says which
protections are worth something, and how many tests an accord may allow.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from features.spec import FeatureSpec, IdRule, NationalId

_NUMBER = r"^[\p{Nd}\p{P}\p{S}\p{Z}]*$"
_LIFETIMES = 36_525  # birth dates in 100 years
_PHONES = 10**10  # ten digits after the country code (North America's plan); others are of this order
_NATIONAL_IDS: Mapping[NationalId, int | None] = {  # possible ids, check digits not counted; an order of magnitude
    "at_vnr": 1_000 * _LIFETIMES,  # serial, birth date
    "ch_ahv": 10**9,
    "de_idnr": 342_921_600,  # ten digits, one of them twice or three times, the first not zero
    "es_dni": 10**8,
    "es_nie": 3 * 10**7,
    "fi_hetu": 898 * _LIFETIMES,
    "fr_nir": 2 * 1_200 * 36_000 * 1_000,  # sex, birth month, commune, serial
    "gb_nhs": 10**9 * 10 // 11,
    "it_codicefiscale": None,  # many, but computed from name, sex, birth date and place
    "nl_bsn": 10**9 // 11,
    "pl_pesel": 10_000 * _LIFETIMES,
}


def id_space(rule: IdRule) -> int | None:
    """Return the number of possible ids, in orders of magnitude; None for large or unknown.

    An integer of a given width has 10^width: so many that a peer could name, of which serial numbers use the first few
    whatever the width. So it bounds what a quota may allow from above, and says nothing about `low_entropy`. Ids that
    outgrow the width are few. Without a width, all digits that `max_length` leaves room for.
    """
    if rule.type == "integer":
        digits = rule.width or rule.max_length - len(rule.prefix)
        return 10**digits if digits <= 18 else None
    if rule.type == "national_id" and rule.kind:
        return _NATIONAL_IDS[rule.kind]
    return _PHONES if rule.type == "phone" else None


def low_entropy(rule: IdRule) -> bool:
    """Return whether a peer could try every id: integer, phone, national id and hashed.

    An integer counts at any width, since zeros fill a serial number, and the digits of a card or an account follow a
    plan. Hashed counts, since the spec does not say what was hashed. Text and email do not: nothing is known about text
    (`mostly_digits` looks at it), and an email is guessed from lists, not counted through.
    """
    return rule.type in ("integer", "phone", "national_id", "hashed")


def mostly_digits(ids: pa.Array) -> bool:
    """Return whether ids are numbers that were declared as text: digits, signs and separators, but for one in ten."""
    numbers = pc.sum(pc.match_substring_regex(ids, _NUMBER)).as_py() or 0
    return len(ids) > 0 and bool(numbers >= 0.9 * len(ids))


def notes(spec: FeatureSpec) -> list[str]:
    """Return what the reader of a report should know about the id columns of a spec; no values."""
    return [
        f"column {name}: whoever holds a plain {column.rule.algorithm} of a low-entropy id (a phone number, a customer "
        "number) finds the id by trying all of them"
        for name, column in spec.columns.items()
        if column.type == "id"
        and column.rule
        and column.rule.type == "hashed"
        and column.rule.algorithm != "hmac_sha256"
    ]
