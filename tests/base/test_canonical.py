"""One document, one spelling."""

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.canonical import canonical_bytes, digest, digest_bytes

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON)
def test_bytes_read_back_as_the_document(document: object) -> None:
    assert json.loads(canonical_bytes(document)) == document


@given(st.dictionaries(st.text(), st.integers(), min_size=2))
def test_the_order_of_keys_does_not_matter(document: dict[str, int]) -> None:
    assert digest(document) == digest(dict(reversed(list(document.items()))))


def test_known_answer() -> None:
    assert canonical_bytes({"b": [1, "ä"], "a": None}) == '{"a":null,"b":[1,"ä"]}'.encode()
    assert digest_bytes(b"abc") == hashlib.sha256(b"abc").hexdigest()


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_numbers_that_json_cannot_say_are_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        canonical_bytes([bad])
