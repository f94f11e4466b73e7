from dataclasses import replace

import pyarrow as pa
import pytest

from base.errors import MessageRefused
from transport.message import FIXED_BINARY, Message, Protection, WireSchema, check_names

SCHEMA = WireSchema("s", {"x": pa.int64(), "c": FIXED_BINARY}, metadata=("key",))


def table(width=4, metadata=None, **more):
    columns = {"x": pa.array([1], pa.int64()), "c": pa.array([b"a" * width], pa.binary(width)), **more}
    return pa.table(columns).replace_schema_metadata({"key": "k"} if metadata is None else metadata)


@pytest.mark.parametrize("width", [1, 768, 4096])
def test_a_fixed_width_column_may_have_any_width_of_a_ciphertext(width):
    SCHEMA.check(table(width))


def test_other_columns_types_widths_and_metadata_are_refused():
    wrong = [
        table(4097),
        table(extra=pa.array([1])),
        table(x=pa.array([1.0])),
        table(metadata={}),
        table(metadata={"key": "k", "more": "m"}),
        table(metadata={"key": "k" * 513}),
    ]
    for content in wrong:
        with pytest.raises(MessageRefused):
            SCHEMA.check(content)


def test_metadata_of_a_field_cannot_carry_anything():
    field = pa.field("x", pa.int64(), metadata={"note": "n"})
    content = pa.table(
        [pa.array([1], pa.int64()), pa.array([b"a"], pa.binary(1))], pa.schema([field, ("c", pa.binary(1))])
    )
    with pytest.raises(MessageRefused):
        SCHEMA.check(content.replace_schema_metadata({"key": "k"}))


def test_the_digest_of_a_schema_changes_with_all_of_it():
    others = [
        WireSchema("t", SCHEMA.columns, SCHEMA.metadata),
        WireSchema("s", {"x": pa.int32(), "c": FIXED_BINARY}, SCHEMA.metadata),
        WireSchema("s", dict(reversed(SCHEMA.columns.items())), SCHEMA.metadata),
        WireSchema("s", SCHEMA.columns, ()),
    ]
    assert len({SCHEMA.digest, *(other.digest for other in others)}) == 5


def test_plain_names():
    check_names("north_bank", "run-1", "a.b", "2026-11-30T00:00:00+00:00")
    for part in ("", "..", "a..b", "a/b", "-a", "a\n"):
        with pytest.raises(MessageRefused):
            check_names("good", part)


def test_a_message_may_belong_to_some_values_of_a_parameter():
    always = Message("a", "x", "y", SCHEMA, Protection.PUBLIC, "nothing")
    seldom = replace(always, only_if=(("protection", "secagg"), ("count", True)))
    assert always.admitted({})
    assert seldom.admitted({"protection": "secagg", "count": False})
    assert seldom.admitted({"protection": "plain", "count": True})
    assert not seldom.admitted({"protection": "plain", "count": False})


def test_a_message_may_need_a_value_beside_one_of_others():
    always = Message("a", "x", "y", SCHEMA, Protection.PUBLIC, "nothing", and_if=("on_dropout", "continue"))
    assert always.admitted({"on_dropout": "continue"})
    assert not always.admitted({"on_dropout": "stop"})
    both = replace(always, only_if=(("protection", "secagg"),))
    assert both.admitted({"protection": "secagg", "on_dropout": "continue"})
    assert not both.admitted({"protection": "plain", "on_dropout": "continue"})
    assert not both.admitted({"protection": "secagg", "on_dropout": "stop"})
