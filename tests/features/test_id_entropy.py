from typing import Any, get_args

import pyarrow as pa
import pytest

from features.id_entropy import id_space, low_entropy, mostly_digits, notes
from features.spec import Column, FeatureSpec, IdRule, NationalId


@pytest.mark.parametrize(
    ("rule", "space", "low"),
    [
        ({"type": "integer", "width": 7, "prefix": "C"}, 10**7, True),
        ({"type": "integer", "width": 12}, 10**12, True),
        ({"type": "integer", "width": 13}, 10**13, True),
        ({"type": "integer", "width": 32}, None, True),
        ({"type": "integer", "max_length": 9, "prefix": "C"}, 10**8, True),
        ({"type": "integer"}, None, True),
        ({"type": "phone", "region": "DE"}, 10**10, True),
        ({"type": "hashed", "algorithm": "sha256"}, None, True),
        ({"type": "hashed", "algorithm": "hmac_sha256"}, None, True),
        ({"type": "email"}, None, False),
        ({}, None, False),
    ],
)
def test_how_many_ids_a_rule_allows(rule: dict[str, Any], space: int | None, low: bool) -> None:
    assert id_space(IdRule(**rule)) == space
    assert low_entropy(IdRule(**rule)) is low


@pytest.mark.parametrize("kind", get_args(NationalId))
def test_every_national_id_can_be_enumerated(kind: NationalId) -> None:
    rule = IdRule(type="national_id", kind=kind)
    assert low_entropy(rule)
    assert kind == "it_codicefiscale" or 10**7 <= (id_space(rule) or 0) <= 10**12


def test_the_tax_numbers_of_germany_counted_by_their_rule() -> None:
    """Ten digits, one twice or three times, the others once: counted with 4 digits of which one stands twice."""
    from itertools import product
    from math import comb, perm

    def count(length: int, digits: int, times: tuple[int, ...]) -> float:
        return sum(digits * comb(length, t) * perm(digits - 1, length - t) for t in times) * (digits - 1) / digits

    def by_hand(length: int, digits: int, times: tuple[int, ...]) -> int:
        found = 0
        for number in product(range(digits), repeat=length):
            repeated = [number.count(d) for d in range(digits) if number.count(d) > 1]
            found += number[0] != 0 and len(repeated) == 1 and repeated[0] in times
        return found

    assert count(5, 5, (2, 3)) == by_hand(5, 5, (2, 3))
    assert count(10, 10, (2, 3)) == id_space(IdRule(type="national_id", kind="de_idnr"))


def test_the_report_says_that_plain_hashes_can_be_enumerated() -> None:
    def spec(**rule: Any) -> FeatureSpec:
        column = Column(type="id", owner=("data_holder",), sensitivity="sensitive", rule=IdRule(**rule))
        return FeatureSpec(name="one", description="", key=("who",), columns={"who": column})

    (note,) = notes(spec(type="hashed", algorithm="sha256"))
    assert note.startswith("column who")
    assert "trying all of them" in note
    assert notes(spec(type="hashed", algorithm="hmac_sha256")) == notes(spec()) == []


@pytest.mark.parametrize(
    ("ids", "numbers"),
    [
        (["+4915112000001", "0151/12 00.00-02", "(0151) 12"], True),
        (["4111 1111 1111 1111"], True),
        (["\u0661\u0662", "\uff17", "17\u00a0"], True),  # digits of other scripts
        (["17", "", "18"], True),
        (["17", "a18"], False),
        ([*map(str, range(30)), "unknown"], True),  # a dirty row changes nothing
        (["\u00fc"], False),
        (["17\n18a"], False),
        ([], False),
    ],
)
def test_numbers_that_were_declared_as_text_are_known_by_their_digits(ids: list[str], numbers: bool) -> None:
    assert mostly_digits(pa.array(ids, pa.string())) is numbers
