"""The golden vectors are what independent code says, and what the package gives."""

import json
import runpy

import pytest

NAMES = ("paillier", "blind_rsa", "hashes", "curve", "noise", "secagg", "secagg_stop", "secagg_continue")


@pytest.fixture(scope="module")
def golden(repository):
    return repository / "tests" / "golden" / "crypto"


@pytest.mark.parametrize("name", NAMES)
def test_independent_code_agrees_with_the_vectors(golden, name):
    runpy.run_path(str(golden / "verify.py"))["VERIFIERS"][name]()


@pytest.mark.parametrize("name", NAMES)
def test_the_package_gives_the_vectors(golden, name):
    made = runpy.run_path(str(golden / "generate.py"))["VECTORS"][name]()
    assert made == json.loads((golden / f"{name}.json").read_text())


def test_the_verifier_notices_a_changed_digit(golden, tmp_path):
    (tmp_path / "verify.py").write_text((golden / "verify.py").read_text())
    for name in NAMES:
        document = json.loads((golden / f"{name}.json").read_text())
        last = next(k for k in reversed(document) if isinstance(document[k], list | str))
        changed = json.dumps(document).replace(json.dumps(document[last]), json.dumps(_other(document[last])))
        (tmp_path / f"{name}.json").write_text(changed)
        with pytest.raises(AssertionError):
            runpy.run_path(str(tmp_path / "verify.py"))["VERIFIERS"][name]()


@pytest.mark.parametrize("part", ["adverts", "offers", "vectors", "consents", "reveals"])
def test_the_verifier_notices_a_changed_digit_in_each_message_of_a_secure_sum(golden, tmp_path, part):
    (tmp_path / "verify.py").write_text((golden / "verify.py").read_text())
    document = json.loads((golden / "secagg_continue.json").read_text())
    (tmp_path / "secagg_continue.json").write_text(json.dumps({**document, part: _other(document[part])}))
    with pytest.raises(AssertionError):
        runpy.run_path(str(tmp_path / "verify.py"))["VERIFIERS"]["secagg_continue"]()


def _other(value):
    if isinstance(value, dict):
        last = list(value)[-1]
        return {**value, last: _other(value[last])}
    if isinstance(value, list):
        return [_other(value[0]), *value[1:]]
    if isinstance(value, str):
        return ("1" if value[0] != "1" else "2") + value[1:]
    return value + 1
