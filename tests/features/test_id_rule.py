import base64
import re
import subprocess
import sys
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from features.idnorm import normal_form
from features.quality import _pattern
from features.spec import Algorithm, Column, FeatureSpec, IdRule, NationalId


def _rules() -> st.SearchStrategy[IdRule]:
    common = {"nfkc": st.booleans(), "strip": st.booleans()}
    phone = {"type": st.just("phone"), "region": st.sampled_from(["DE", "IT", "US", "GB", "AR", "MX", "CI"])}
    mail = {"type": st.just("email"), "case": st.sampled_from(["keep", "lower"])}
    tag = {"subaddress": st.sampled_from(["keep", "strip"])}
    kinds = {"type": st.just("national_id"), "kind": st.sampled_from(get_args(NationalId))}
    digests = {"type": st.just("hashed"), "algorithm": st.sampled_from(get_args(Algorithm))}
    return st.one_of(*(st.builds(IdRule, **common, **own) for own in (phone, {**mail, **tag}, kinds, digests)))


DIGITS = st.text("0123456789", min_size=8, max_size=16)
TEXTS = st.one_of(
    st.text(max_size=20),
    st.builds("{}{}".format, st.sampled_from(["", "+", "+49", "+54 9", "00", " 0"]), DIGITS),
    st.builds("{}@{}".format, st.text(min_size=1, max_size=8), st.text(min_size=1, max_size=8).map("{}.com".format)),
    st.emails(),
    st.builds("{}{}".format, DIGITS, st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ-+ ", max_size=4)),
    st.integers(1, 10**8 - 1).map(lambda n: f"{n:08d}" + "TRWAGMYFPDXBNJZSQVHLCKE"[n % 23]),
    st.binary(min_size=16, max_size=64).map(bytes.hex),
    st.binary(min_size=32, max_size=32).map(lambda b: base64.b64encode(b).decode()),
)


@settings(deadline=None, max_examples=1500)
@given(TEXTS, _rules())
def test_idempotent_and_every_outcome_is_a_form_or_a_reason(text: str, rule: IdRule) -> None:
    value, reason = normal_form(text, rule)
    assert (value is None) == (reason != "")
    if value is not None:
        assert normal_form(value, rule) == (value, "")
        assert re.search(_pattern(rule), value)


def test_the_digest_of_a_rule_changes_with_every_field() -> None:
    def digest(**rule: Any) -> str:
        own: dict[str, Any] = {"owner": ("data_holder",), "sensitivity": "sensitive"}
        columns = {"who": Column(type="id", rule=IdRule(**rule), **own)}
        return FeatureSpec(name="one", description="", key=("who",), columns=columns).digest

    variants: list[dict[str, Any]] = [
        {}, {"nfkc": False}, {"strip": False}, {"case": "lower"}, {"case": "upper"}, {"max_length": 63},
        {"nulls": ("",)},
        {"type": "integer"}, {"type": "integer", "prefix": "C"}, {"type": "integer", "width": 7},
        {"type": "phone", "region": "DE"}, {"type": "phone", "region": "AT"},
        {"type": "email"}, {"type": "email", "case": "lower"}, {"type": "email", "subaddress": "strip"},
        {"type": "national_id", "kind": "es_dni"}, {"type": "national_id", "kind": "es_nie"},
        {"type": "hashed", "algorithm": "sha256"}, {"type": "hashed", "algorithm": "hmac_sha256"},
    ]  # fmt: skip
    assert len({digest(**rule) for rule in variants}) == len(variants)
    assert set().union(*variants) == set(IdRule.model_fields)


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ({"type": "phone"}, "phone needs region"),
        ({"type": "phone", "region": "UK"}, "region must be one that has telephone numbers"),
        ({"type": "phone", "region": "de"}, "pattern"),
        ({"type": "national_id"}, "national_id needs kind"),
        ({"type": "national_id", "kind": "stdnum.de.vat"}, "Input should be 'at_vnr'"),
        ({"type": "hashed"}, "hashed needs algorithm"),
        ({"type": "hashed", "algorithm": "sha256", "case": "lower"}, "case belongs to text, integer, email"),
        ({"type": "email", "case": "upper"}, "case of an email"),
        ({"type": "email", "max_length": 20}, "max_length belongs to text, integer"),
        ({"width": 7}, "width belongs to integer"),
        ({"prefix": "C"}, "prefix belongs to integer"),
        ({"region": "DE"}, "region belongs to phone"),
        ({"algorithm": "md5"}, "algorithm belongs to hashed"),
        ({"kind": "es_dni"}, "kind belongs to national_id"),
        ({"subaddress": "strip"}, "subaddress belongs to email"),
    ],
)
def test_a_setting_that_does_not_apply_is_refused(rule: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        IdRule(**rule)


def test_plain_ids_load_no_library_of_forms(repository: Any) -> None:
    code = (
        "import sys; from features.idnorm import normal_form; from features.spec import IdRule, load_all; "
        "from pathlib import Path; load_all(Path('feature_specs')); assert normal_form('1', IdRule())[0] == '1'; "
        "sys.exit(' '.join({'phonenumbers', 'stdnum', 'email_validator', 'dns'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=repository, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
