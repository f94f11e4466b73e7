"""How many ids a rule allows, and whether somebody could try them all.

A hash of an id hides nothing from somebody who can hash every possible id. So the size of the id space says which
protections are worth something, and how many tests an accord may allow.
"""

from __future__ import annotations

from collections.abc import Mapping

from features.spec import FeatureSpec, IdRule, NationalId

ENUMERABLE = 10**12  # ids; a laptop hashes so many in days, without a key it needs nothing else
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

    An integer of a given width has 10^width; ids that outgrow the width are few. Without a width, all digits that
    `max_length` leaves room for.
    """
    if rule.type == "integer":
        digits = rule.width or rule.max_length - len(rule.prefix)
        return 10**digits if digits <= 18 else None
    if rule.type == "national_id" and rule.kind:
        return _NATIONAL_IDS[rule.kind]
    return _PHONES if rule.type == "phone" else None


def low_entropy(rule: IdRule) -> bool:
    """Return whether a peer could try every id: phone, national id, hashed, and integers of up to 12 digits.

    Hashed counts, since the spec does not say what was hashed. An integer without a width counts, since such ids are
    serial numbers. Text and email do not: nothing is known about text, and an email is guessed from lists, not counted
    through. ASSUMPTION: the spec declares a column of numbers as integer and not as text.
    """
    if rule.type == "integer":
        return not rule.width or 10**rule.width <= ENUMERABLE
    return rule.type in ("phone", "national_id", "hashed")


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
