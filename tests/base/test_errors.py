"""Errors travel and come back as themselves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base import errors
from base.errors import AccordError, from_wire


def _classes(cls: type[AccordError] = AccordError) -> list[type[AccordError]]:
    return [
        cls,
        *(found for sub in cls.__subclasses__() if sub.__module__ == errors.__name__ for found in _classes(sub)),
    ]


@pytest.mark.parametrize("cls", _classes())
def test_every_class_survives_the_wire(cls: type[AccordError]) -> None:
    error = cls("it broke", expected=3, found=2, where="here", remedy="mend it", party="north_bank")
    back = from_wire(error.to_wire())
    assert type(back) is cls
    assert str(back) == str(error)


def test_codes_are_unique() -> None:
    codes = [cls.code for cls in _classes()]
    assert len(codes) == len(set(codes))


@given(
    st.dictionaries(
        st.sampled_from(["code", "what", "expected", "where"]), st.one_of(st.integers(), st.text(max_size=5000))
    )
)
def test_a_peer_cannot_name_a_class(document: dict[str, object]) -> None:
    error = from_wire(document)
    assert isinstance(error, AccordError)
    assert len(error.what) <= 2000


def test_a_peer_cannot_steer_the_terminal() -> None:
    error = from_wire({"code": 30, "what": "\x1b]0;title\x07 broke \x9b2J", "found": "two\nlines"})
    assert (error.what, error.found) == ("?]0;title? broke ?2J", "two\nlines")


def test_text_names_expected_found_where_and_remedy() -> None:
    text = str(
        AccordError("the port is taken", expected="a free port", found="7401", where="north_bank", remedy="end it")
    )
    assert [line.split()[0] for line in text.splitlines()[1:]] == ["where", "expected", "found", "remedy"]
