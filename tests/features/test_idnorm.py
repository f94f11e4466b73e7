import unicodedata

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.idnorm import normal_form, normalise
from features.spec import IdRule

CUSTOMER = IdRule(type="integer", case="upper", prefix="C", width=7, max_length=12)
COMMON = {"nfkc": st.booleans(), "strip": st.booleans(), "case": st.sampled_from(["keep", "lower", "upper"])}
RULES = st.builds(IdRule, **COMMON) | st.builds(
    IdRule,
    type=st.just("integer"),
    width=st.integers(0, 12),
    prefix=st.sampled_from(["", "C", "c-", "\u00df"]),
    **COMMON,
)


@pytest.mark.parametrize(
    "spelling",
    [
        "C0001234",
        "c0001234",
        "1234",
        "0001234",
        " C1234 ",
        "\tC1234\n",
        "C001234",
        "\uff11234",
        "\uff431234",
        "C1234\u3000",
    ],
)
def test_spellings_of_one_customer(spelling: str) -> None:
    assert normal_form(spelling, CUSTOMER) == ("C0001234", "")


@pytest.mark.parametrize(
    ("spelling", "reason"),
    [
        (None, "null"),
        ("", "null"),
        ("   ", "null"),
        ("NULL", "null"),
        ("None", "null"),
        ("nan", "null"),
        ("NaN", "null"),
        ("1234.0", "form"),
        ("1.2e3", "form"),
        ("-1234", "form"),
        ("+1234", "form"),
        ("12 34", "form"),
        ("12٣4", "form"),  # an Arabic-Indic digit is not a decimal of this rule
        ("C", "form"),
        ("CC1234", "form"),
        ("12\x0034", "control"),
        ("12\u200b34", "control"),
        ("1234567890123", "length"),
    ],
)
def test_what_is_no_id(spelling: str | None, reason: str) -> None:
    assert normal_form(spelling, CUSTOMER) == (None, reason)


def test_leading_zeros_are_kept_or_stripped_by_rule_and_long_ids_stay_exact() -> None:
    assert normal_form("007", IdRule(type="integer")) == ("7", "")
    assert normal_form("000", IdRule(type="integer")) == ("0", "")
    assert normal_form("007", IdRule()) == ("007", "")
    long = "123456789012345678"  # a double would end in ...680
    assert normal_form(long, IdRule(type="integer")) == (long, "")


def test_case_and_compatibility_forms() -> None:
    assert normal_form("\uff21nna", IdRule(case="lower")) == ("anna", "")
    assert normal_form("Anna", IdRule()) == ("Anna", "")
    assert normal_form("straße", IdRule(case="upper")) == ("STRASSE", "")
    assert normal_form("\uff11\uff12", IdRule(type="integer", nfkc=False)) == (None, "form")


@settings(deadline=None)
@given(st.text(max_size=12), RULES)
def test_idempotent(text: str, rule: IdRule) -> None:
    value, reason = normal_form(text, rule)
    if value is not None:
        assert reason == ""
        assert normal_form(value, rule) == (value, "")


@settings(deadline=None)
@given(
    st.integers(0, 10**7 - 1),
    st.integers(0, 4),
    st.booleans(),
    st.sampled_from(["", "C", "c"]),
    st.text(" \t\n", max_size=3),
)
def test_every_form_of_an_integer_id_meets(number: int, zeros: int, wide: bool, prefix: str, blanks: str) -> None:
    digits = "0" * zeros + str(number)
    if wide:
        digits = "".join(chr(ord(d) - ord("0") + 0xFF10) for d in digits)
    assert normal_form(blanks + prefix + digits + blanks, CUSTOMER) == (f"C{number:07d}", "")


@settings(deadline=None)
@given(st.lists(st.integers(0, 10**9), min_size=2, max_size=30, unique=True))
def test_different_integers_never_meet(numbers: list[int]) -> None:
    forms = {normal_form(str(n), IdRule(type="integer", width=5))[0] for n in numbers}
    assert len(forms) == len(numbers)


def test_every_character_reaches_a_fixed_point() -> None:
    unstable = [
        c
        for case in ("keep", "lower", "upper")
        for c in map(chr, range(0x11000))
        if unicodedata.category(c) not in ("Cs", "Cn") and normal_form(c, IdRule(case=case))[1] == "unstable"
    ]
    assert unstable == []


@settings(deadline=None)
@given(st.text(st.characters(max_codepoint=127), max_size=12), st.builds(IdRule, **COMMON))
def test_plain_text_takes_a_short_way_to_the_same_form(text: str, rule: IdRule) -> None:
    far = normal_form(text + "\u00e9", rule)  # the last character makes it take the long way
    near = normal_form(text + "e", rule)
    assert (far[0] and far[0][:-1]) == (near[0] and near[0][:-1])
    assert far[1] == near[1]


@settings(deadline=None)
@given(st.lists(st.none() | st.sampled_from(["1", "01", " 1", "2", "x", "", "null", "\uff19"]), max_size=40))
def test_columns_agree_with_single_ids(texts: list[str | None]) -> None:
    rule = IdRule(type="integer")
    values, reasons = normalise(pa.chunked_array([texts[:7], texts[7:]], pa.string()), rule)
    assert [(v, r) for v, r in zip(values.to_pylist(), reasons.to_pylist(), strict=True)] == [
        normal_form(t, rule) for t in texts
    ]
