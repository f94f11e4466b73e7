import base64
import hashlib
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.id_forms import DIGEST_BYTES, FORMS, PATTERNS, _kinds
from features.idnorm import normal_form
from features.spec import Algorithm, IdRule, IdType, NationalId

PHONE = IdRule(type="phone", region="DE")
EMAIL = IdRule(type="email", case="lower")
SHA256 = IdRule(type="hashed", algorithm="sha256")
DIGEST = hashlib.sha256(b"somebody").digest()


def national(kind: NationalId) -> IdRule:
    return IdRule(type="national_id", kind=kind)


@pytest.mark.parametrize(
    "spelling",
    [
        "+49 30 23125 012", "0049 30 23125 012", "030 23125012", "(030) 23125-012", "+49 (0)30 23125 012",
        "030/23125 012", "\uff10\uff13\uff10 23125012", " +493023125012\t",
    ],
)  # fmt: skip
def test_spellings_of_one_phone_number(spelling: str) -> None:
    """The number is one of those that the Bundesnetzagentur keeps for films."""
    assert normal_form(spelling, PHONE) == ("+493023125012", "")


@pytest.mark.parametrize(
    ("spelling", "region", "found"),
    [
        ("020 7946 0018", "GB", ("+442079460018", "")),  # Ofcom's numbers for films
        ("+44 20 7946 0018", "DE", ("+442079460018", "")),
        ("650-253-0000", "US", ("+16502530000", "")),
        ("06 698 12345", "IT", ("+390669812345", "")),  # Italy keeps the zero
        ("030 23125012 ext. 5", "DE", (None, "form")),
        ("030 23125012#5", "DE", (None, "form")),
        ("1-800-FLOWERS", "US", (None, "form")),
        ("4.93023E+12", "DE", (None, "form")),  # what a spreadsheet makes of it
        ("-", "DE", (None, "form")),
        ("+999 30 23125012", "DE", (None, "region")),
        ("555 0100", "US", (None, "length")),
        ("000 0000000", "DE", (None, "region")),
        ("030 231250123456789", "DE", (None, "length")),
        ("110", "DE", (None, "length")),
        ("\u202a+493023125012\u202c", "DE", (None, "control")),
        ("none", "DE", (None, "null")),
    ],
)
def test_phone_numbers_of_other_regions_and_what_is_none(spelling: str, region: str, found: Any) -> None:
    assert normal_form(spelling, IdRule(type="phone", region=region)) == found


@pytest.mark.parametrize(
    ("spelling", "found"),
    [
        ("Anna@Example.COM", ("anna@example.com", "")),
        ("anna@b\u00fccher.example.org", ("anna@xn--bcher-kva.example.org", "")),
        ("anna@XN--BCHER-KVA.example.org", ("anna@xn--bcher-kva.example.org", "")),
        ("\uff41nna\uff20example.com", ("anna@example.com", "")),
        ("anna+news@example.com", ("anna+news@example.com", "")),
        ("a.n.na@example.com", ("a.n.na@example.com", "")),  # one provider ignores dots, others do not
        ("\u00e4nna@example.com", ("\u00e4nna@example.com", "")),
        ("Anna <anna@example.com>", (None, "form")),
        ('"an na"@example.com', (None, "form")),
        ("anna@example.com,bob@example.com", (None, "form")),
        ("anna@@example.com", (None, "form")),
        ("anna@localhost", (None, "form")),
        ("anna@[192.0.2.1]", (None, "form")),
        ("anna", (None, "form")),
        ("a" * 65 + "@example.com", (None, "length")),
        ("a@" + "b" * 63 + ("." + "c" * 63) * 3 + ".com", (None, "length")),
        ("an\x00na@example.com", (None, "control")),
    ],
)
def test_emails(spelling: str, found: Any) -> None:
    assert normal_form(spelling, EMAIL) == found


def test_an_email_keeps_case_and_loses_its_tag_where_the_rule_says_so() -> None:
    assert normal_form("Anna@Example.COM", IdRule(type="email")) == ("Anna@example.com", "")
    strip = IdRule(type="email", subaddress="strip")
    assert normal_form("anna+news@example.com", strip) == ("anna@example.com", "")
    assert normal_form("+news@example.com", strip) == (None, "form")


def _dni(n: int) -> str:
    return f"{n:08d}" + "TRWAGMYFPDXBNJZSQVHLCKE"[n % 23]


def _bsn(n: int) -> str | None:
    check = sum(w * int(d) for w, d in zip(range(9, 1, -1), f"{n:08d}", strict=True)) % 11
    return f"{n:08d}{check}" if check < 10 else None


def _pesel(n: int) -> str:
    body = f"{1900 + n % 100:04d}"[2:] + "07" + f"{1 + n % 28:02d}" + f"{n % 10000:04d}"
    return body + str(-sum(w * int(d) for w, d in zip((1, 3, 7, 9) * 3, body, strict=False)) % 10)


def _nhs(n: int) -> str | None:
    body = f"{n:09d}"
    check = -sum(w * int(d) for w, d in zip(range(10, 1, -1), body, strict=True)) % 11
    return f"{body}{check}" if check < 10 else None


def _nir(n: int) -> str:
    body = f"1{n % 100:02d}0375{n % 1000:03d}{n % 997:03d}"
    return f"{body}{97 - int(body) % 97:02d}"


def _ahv(n: int) -> str:
    body = f"756{n % 10**9:09d}"
    return body + str(-sum(int(d) * (3 if place % 2 else 1) for place, d in enumerate(body)) % 10)


MADE: dict[NationalId, Any] = {
    "es_dni": _dni, "nl_bsn": _bsn, "pl_pesel": _pesel, "gb_nhs": _nhs, "fr_nir": _nir, "ch_ahv": _ahv,
}  # fmt: skip


@pytest.mark.parametrize("kind", MADE)
@settings(deadline=None, max_examples=60)
@given(n=st.integers(1, 10**8 - 1), place=st.integers(0, 7))
def test_a_check_digit_by_the_published_formula_is_right_and_any_other_digit_wrong(
    kind: NationalId, n: int, place: int
) -> None:
    made = MADE[kind](n)
    if made is None:
        return
    spaced = made[:3] + " " + made[3:6] + " " + made[6:]
    assert normal_form(spaced, national(kind)) == normal_form(made, national(kind)) == (made, "")
    wrong = made[:-1] + ("0123456789" if made[-1].isdigit() else "TRWAGMYFPD")[(place + n) % 10]
    if wrong != made:
        assert normal_form(wrong, national(kind)) == (None, "check_digit")


@pytest.mark.parametrize(
    ("kind", "spelling", "found"),
    [
        ("de_idnr", "86 095 742 719", ("86095742719", "")),  # a published example, like the others here
        ("de_idnr", "86095742718", (None, "check_digit")),
        ("de_idnr", "86095742", (None, "length")),
        ("de_idnr", "8609574271x", (None, "form")),
        ("es_nie", "x-2482300-w", ("X2482300W", "")),
        ("fi_hetu", "131052-308T", ("131052-308T", "")),
        ("fi_hetu", "131352-308T", (None, "part")),
        ("it_codicefiscale", "mrtmtt91d08f205j", ("MRTMTT91D08F205J", "")),
        ("it_codicefiscale", "00743110157", (None, "length")),  # a company's number
        ("at_vnr", "1237 010180", ("1237010180", "")),
        ("nl_bsn", "1112.22.333", ("111222333", "")),
        ("nl_bsn", "\uff11\uff11\uff11222333", ("111222333", "")),
        ("nl_bsn", "\u0661\u0661\u0661222333", (None, "form")),
        ("pl_pesel", "44131301359", (None, "check_digit")),
    ],
)
def test_national_ids(kind: NationalId, spelling: str, found: Any) -> None:
    assert normal_form(spelling, national(kind)) == found


def test_the_list_of_kinds_is_closed_and_every_form_is_known() -> None:
    assert set(_kinds()) == set(get_args(NationalId))
    assert set(DIGEST_BYTES) == set(get_args(Algorithm))
    assert set(FORMS) == set(PATTERNS) == set(get_args(IdType)) - {"text", "integer"}


@pytest.mark.parametrize("name", [name for name in DIGEST_BYTES if not name.startswith("hmac")])
def test_digests_are_read_in_every_spelling(name: Algorithm) -> None:
    rule = IdRule(type="hashed", algorithm=name)
    digest = hashlib.new(name, b"\xff somebody").digest()
    plain = base64.b64encode(digest).decode()
    url = base64.urlsafe_b64encode(digest).decode()
    for spelling in (digest.hex(), digest.hex().upper(), plain, plain.rstrip("="), url, url.rstrip("=")):
        assert normal_form(spelling, rule) == (digest.hex(), "")


@pytest.mark.parametrize(
    ("spelling", "found"),
    [
        (DIGEST.hex()[:-1], (None, "length")),
        (DIGEST.hex() + "00", (None, "length")),
        (hashlib.sha1(b"somebody").hexdigest(), (None, "length")),
        ("g" + DIGEST.hex()[1:], (None, "form")),
        (DIGEST.hex()[:30] + "  " + DIGEST.hex()[32:], (None, "form")),
        (base64.b64encode(DIGEST).decode()[:-2] + "!=", (None, "form")),
        (base64.b64encode(bytes(32)).decode()[:-2] + "B=", (None, "form")),  # bits after the last byte
        (hashlib.sha256(b"").hexdigest(), (None, "null")),
        (hashlib.sha256(b"NULL").hexdigest().upper(), (None, "null")),
        ("", (None, "null")),
    ],
)
def test_what_is_no_digest_and_the_digest_of_nothing(spelling: str, found: Any) -> None:
    assert normal_form(spelling, SHA256) == found


def test_a_keyed_hash_has_no_known_digest_of_nothing() -> None:
    empty = hashlib.sha256(b"").hexdigest()
    assert normal_form(empty, IdRule(type="hashed", algorithm="hmac_sha256")) == (empty, "")
