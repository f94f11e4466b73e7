"""The normal forms of phone numbers, e-mail addresses, national ids with a check digit, and ids that came as digests.

Each function takes text that is already in Unicode's compatibility form and without control characters, and returns
(normal form, "") or (None, why not). What these say is valid depends on the version of the library (a numbering plan
grows), so parties run the same pins. The libraries are imported on the first use: a worker that normalises plain text
does not pay for them. What they raise quotes the value, so it goes no further than here.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from features.spec import IdRule, NationalId

FORM = "form"  # not written like such an id
LENGTH = "length"
REGION = "region"  # no such country code, or no number of that region's plan
CHECK_DIGIT = "check_digit"
PART = "part"  # a part cannot be, such as a 13th month
DIGEST_BYTES = {"md5": 16, "sha1": 20, "sha256": 32, "sha512": 64, "hmac_sha256": 32}
PATTERNS = {  # what a normal form looks like, for a second look with another library
    "phone": r"^[+][1-9][0-9]{2,14}$",
    "email": r"^[^@\s]+@[a-z0-9.-]+$",
    "national_id": r"^[0-9A-Z+-]+$",
    "hashed": r"^([0-9a-f]{2}){16,64}$",
}
_LONGEST_EMAIL, _LONGEST_LOCAL = 254, 64  # RFC 5321, 4.5.3.1
_URL_SAFE = str.maketrans("-_", "+/")

Outcome = tuple[str | None, str]


_E164 = 15  # digits at most (ITU-T E.164, 6.1)


def phone(text: str, rule: IdRule) -> Outcome:
    """E.164: plus, country code, number. A number without country code is one of `rule.region`.

    Letters are refused (a word is no number, and an extension names another person behind the same number).
    """
    import phonenumbers
    from phonenumbers import NumberParseException, ValidationResult

    if any(char.isalpha() for char in text):
        return None, FORM
    try:
        number = phonenumbers.parse(text, rule.region)
    except NumberParseException as error:
        why = {NumberParseException.INVALID_COUNTRY_CODE: REGION, NumberParseException.NOT_A_NUMBER: FORM}
        return None, why.get(error.error_type, LENGTH)
    if number.extension:
        return None, FORM
    if phonenumbers.is_valid_number(number):
        written = phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)
        return (written, "") if len(written) <= 1 + _E164 else (None, LENGTH)  # some numbering plans allow more
    possible = phonenumbers.is_possible_number_with_reason(number)
    return None, REGION if possible in (ValidationResult.IS_POSSIBLE, ValidationResult.INVALID_COUNTRY_CODE) else LENGTH


def email(text: str, rule: IdRule) -> Outcome:
    """Local part as the rule's case says, `@`, domain in lower case, an international one in punycode (RFC 5891).

    No look-up in the DNS. Refused: quoted local parts, display names, domains that no mail can reach.
    """
    from email_validator import EmailNotValidError, validate_email

    local, at, domain = text.rpartition("@")
    if len(local) > _LONGEST_LOCAL or len(text) > _LONGEST_EMAIL:
        return None, LENGTH
    local = local.partition("+")[0] if rule.subaddress == "strip" else local
    try:
        found = validate_email(local + at + domain, check_deliverability=False)
    except EmailNotValidError:
        return None, FORM
    return f"{found.local_part}@{found.ascii_domain}", ""


def national_id(text: str, rule: IdRule) -> Outcome:
    """Compact form (no separators) of the rule's kind, with a right check digit."""
    from stdnum import exceptions

    assert rule.kind is not None
    kind, length = _kinds()[rule.kind]
    compact = kind.compact(text)
    if not compact.isascii():
        return None, FORM
    if len(compact) != length:
        return None, LENGTH
    try:
        return str(kind.validate(compact)), ""
    except exceptions.InvalidFormat:
        return None, FORM
    except exceptions.InvalidChecksum:
        return None, CHECK_DIGIT
    except exceptions.InvalidComponent:
        return None, PART


def hashed(text: str, rule: IdRule) -> Outcome:
    """Hexadecimal in lower case; read as hexadecimal or base64 (with or without padding, either alphabet).

    The two differ in length for every algorithm. The digest of a spelling of null is a null: else all people without an
    id would be one person.
    """
    assert rule.algorithm is not None
    size = DIGEST_BYTES[rule.algorithm]
    plain = text.rstrip("=")
    if len(plain) not in (2 * size, -(-8 * size // 6)):
        return None, LENGTH
    try:
        digest = bytes.fromhex(plain) if len(plain) == 2 * size else _base64(plain)
    except ValueError:
        return None, FORM
    if len(digest) != size:
        return None, FORM
    return (None, "null") if digest in _null_digests(rule.algorithm, rule.nulls) else (digest.hex(), "")


FORMS: Mapping[str, Callable[[str, IdRule], Outcome]] = {
    "phone": phone,
    "email": email,
    "national_id": national_id,
    "hashed": hashed,
}


@cache
def _kinds() -> dict[NationalId, tuple[Any, int]]:
    """Return (module of python-stdnum, length of the compact form) by kind.

    Not here: kinds without a check digit, with several spellings of one id, or whose check looks at today's date.
    """
    from stdnum.at import vnr
    from stdnum.ch import ssn
    from stdnum.de import idnr
    from stdnum.es import dni, nie
    from stdnum.fi import hetu
    from stdnum.fr import nir
    from stdnum.gb import nhs
    from stdnum.it import codicefiscale
    from stdnum.nl import bsn
    from stdnum.pl import pesel

    return {
        "at_vnr": (vnr, 10), "ch_ahv": (ssn, 13), "de_idnr": (idnr, 11), "es_dni": (dni, 9), "es_nie": (nie, 9),
        "fi_hetu": (hetu, 11), "fr_nir": (nir, 15), "gb_nhs": (nhs, 10), "it_codicefiscale": (codicefiscale, 16),
        "nl_bsn": (bsn, 9), "pl_pesel": (pesel, 11),
    }  # fmt: skip


def _base64(text: str) -> bytes:
    """Return the bytes; `ValueError` unless the text is the one spelling of them."""
    plain = text.translate(_URL_SAFE)
    found = base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    if base64.b64encode(found).decode().rstrip("=") != plain:
        raise ValueError
    return found


@cache
def _null_digests(algorithm: str, nulls: tuple[str, ...]) -> frozenset[bytes]:
    """Return the digests of the spellings of null, as they stand and in capitals; none of a keyed hash."""
    if algorithm.startswith("hmac_"):
        return frozenset()
    return frozenset(hashlib.new(algorithm, text.encode()).digest() for null in nulls for text in (null, null.upper()))
