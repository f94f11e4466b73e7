import json
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from base.errors import AccordError, MessageRefused, WireVersionMismatch
from transport.message import MessageKey
from transport.wire import MAX_DOCUMENT, SLICE_BYTES, Claim, Header, Marker, Parcel, Statement, count_slices, slices

NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.:+-]{0,20}", fullmatch=True).filter(lambda s: ".." not in s)
NUMBERS = st.integers(0, 2**31 - 1)
TEXTS = st.text(max_size=64)
KEYS = st.builds(MessageKey, NAMES, NAMES, st.integers(1, 2**31 - 1), NAMES, NAMES, NAMES, NUMBERS)
HEADERS = st.builds(
    lambda key, schema, protection, rows, size: Header(
        **vars(key), schema=schema, protection=protection, rows=rows, size=size
    ),
    KEYS, TEXTS, TEXTS, NUMBERS, NUMBERS,
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
GOOD = Header("run", "step", 1, "part", "north", "bureau", 0, "s", "public", 1, 100)


@given(HEADERS)
def test_a_header_comes_back_as_it_was(header):
    again = Header.from_bytes(header.to_bytes())
    assert again == header
    assert str(again.key) == str(header.key)


@given(KEYS)
def test_a_key_is_a_relative_path_of_seven_plain_parts(key):
    parts = str(key).split("/")
    assert len(parts) == 7
    assert not any(part.startswith(".") or ".." in part or not part.isascii() for part in parts)


@pytest.mark.parametrize(
    "part",
    ["", ".", "..", "a/b", "/etc", "a..b", ".hidden", "a\\b", "a\n", "a\0", "ü", "\u212a", "\u017f", "a b", "x" * 129],
)
def test_a_part_that_could_leave_a_directory_is_refused(part):
    for name in ("run", "step", "name", "sender", "receiver"):
        with pytest.raises(MessageRefused, match="plain name"):
            Header.from_bytes(replace(GOOD, **{name: part}).to_bytes()).key  # noqa: B018


@pytest.mark.parametrize(("seq", "attempt"), [(2**31, 1), (0, 0), (0, 2**31)])
def test_numbers_of_a_key_are_bounded(seq, attempt):
    with pytest.raises(MessageRefused, match="out of range"):
        replace(GOOD, seq=seq, attempt=attempt).key  # noqa: B018


@given(st.binary(max_size=200))
@example(b"")
@example(b"[" * 8000)
@example(b"9" * 8000)
@example(b"\xff\xfe{}")
@example(b'{"wire": 1e999}')
def test_any_foreign_bytes_end_in_our_error(data):
    for document in (Header, Marker, Claim):
        with pytest.raises(AccordError):
            document.from_bytes(data)


@given(st.sampled_from(sorted(vars(GOOD))), JSON)
def test_a_field_of_another_type_is_refused_or_kept(name, value):
    data = json.dumps({**vars(GOOD), name: value}).encode()
    try:
        header = Header.from_bytes(data)
    except AccordError:
        return
    assert type(getattr(header, name)) is type(getattr(GOOD, name))


@given(JSON)
def test_foreign_json_is_no_header(value):
    with pytest.raises(AccordError):
        Header.from_bytes(json.dumps(value).encode())


def test_a_missing_or_further_key_is_refused():
    document = vars(GOOD)
    for changed in ({**document, "type": "pickle"}, {k: v for k, v in document.items() if k != "rows"}):
        with pytest.raises(MessageRefused, match="header of a message"):
            Header.from_bytes(json.dumps(changed).encode())
    for name in ("rows", "size", "attempt"):
        for value in (True, -1, 1.0, "1", 2**53):
            with pytest.raises(MessageRefused):
                Header.from_bytes(json.dumps({**document, name: value}).encode())


def test_a_document_above_the_limit_is_not_read():
    with pytest.raises(MessageRefused, match="header"):
        Header.from_bytes(b" " * MAX_DOCUMENT + GOOD.to_bytes())


@pytest.mark.parametrize("wire", [0, 2, "1", None, True])
def test_another_wire_version_is_named_first(wire):
    with pytest.raises(WireVersionMismatch) as caught:
        Header.from_bytes(json.dumps({"wire": wire, "features": "", "new": "field"}).encode())
    assert "wire version 1" in caught.value.expected
    assert "same release" in caught.value.remedy


def test_an_unknown_feature_is_named():
    with pytest.raises(WireVersionMismatch, match="feature"):
        Header.from_bytes(replace(GOOD, features="arrow_stream claims zstd").to_bytes())


@given(st.integers(0, 3 * SLICE_BYTES + 5))
@example(SLICE_BYTES)
@example(SLICE_BYTES + 1)
@example(2 * SLICE_BYTES)
def test_slices_are_bounded_and_whole(size):
    parts = [len(part) for part in slices(bytes(size))]
    assert sum(parts) == size
    assert len(parts) == count_slices(size)
    assert all(0 < part <= SLICE_BYTES for part in parts)


@given(KEYS, TEXTS, NUMBERS)
def test_a_statement_comes_back_from_its_document(key, text, number):
    statement = Statement(key, text, text, number, number, text)
    assert Statement.from_document(json.loads(json.dumps(statement.document()))) == statement


def test_a_body_is_not_shown():
    assert "secret rating" not in repr(Parcel(GOOD, b"secret rating", Marker(1, 13, "d", 0, "h", "s")))
