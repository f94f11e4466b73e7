import struct

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from base.errors import MessageRefused
from transport.body import decode, encode
from transport.message import Message, Protection, WireSchema

MIXED = WireSchema("mixed", {"n": pa.int64(), "t": pa.string(), "c": "fixed_size_binary"}, metadata=("key",))
MESSAGE = Message("mixed", "a", "b", MIXED, Protection.PUBLIC, "", max_bytes=100_000)


def table(rows):
    n, t, c = zip(*rows, strict=True) if rows else ((), (), ())
    columns = {"n": pa.array(n, pa.int64()), "t": pa.array(t, pa.string()), "c": pa.array(c, pa.binary(4))}
    return pa.table(columns).replace_schema_metadata({"key": "k"})


ROWS = st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.text(max_size=10), st.binary(min_size=4, max_size=4)))
GOOD = encode(table([(1, "one", b"aaaa"), (2, "two", b"bbbb")]), MESSAGE)


def stream(content, **options):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, content.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(content)
    return sink.getvalue().to_pybytes()


@given(ROWS)
def test_a_table_comes_back_as_it_was(rows):
    content = table(rows)
    assert decode(encode(content, MESSAGE), MESSAGE).equals(content, check_metadata=True)


@given(ROWS, st.integers(0, 5))
def test_the_bytes_depend_on_the_rows_alone(rows, cut):
    content = table(rows)
    parts = pa.concat_tables([content.slice(0, cut), content.slice(cut)])
    assert encode(parts, MESSAGE) == encode(content, MESSAGE)


@settings(max_examples=300)
@given(st.integers(0, len(GOOD) - 1), st.integers(1, 255))
def test_a_changed_byte_is_refused_or_gives_a_valid_table(position, change):
    changed = bytearray(GOOD)
    changed[position] ^= change
    try:
        content = decode(bytes(changed), MESSAGE)
    except MessageRefused:
        return
    content.validate(full=True)
    MIXED.check(content)


@given(st.binary(max_size=300))
def test_any_bytes_are_refused(data):
    with pytest.raises(MessageRefused):
        decode(data, MESSAGE)


@pytest.mark.parametrize("size", range(0, len(GOOD), 40))
def test_a_cut_stream_is_refused(size):
    try:
        content = decode(GOOD[:size], MESSAGE)
    except MessageRefused:
        return
    assert content.num_rows in (0, 2)  # cut between messages: the header's row count and digest tell


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_a_compressed_body_is_refused_before_it_unfolds(codec):
    content = table([(0, "", b"\0\0\0\0")] * 200_000)
    body = stream(content, compression=codec)
    assert len(body) < 100_000 < content.nbytes
    before = pa.total_allocated_bytes()
    pool = pa.default_memory_pool()
    with pytest.raises(MessageRefused, match="is compressed"):
        decode(body, MESSAGE)
    assert pa.total_allocated_bytes() - before < 100_000
    assert pool.bytes_allocated() - before < 100_000


def test_dictionaries_and_further_batches_are_refused():
    column = pa.array(["a", "b"]).dictionary_encode()
    with pytest.raises(MessageRefused, match="not a plain stream"):
        decode(stream(pa.table({"n": column})), MESSAGE)
    two = pa.concat_tables([table([(1, "a", b"aaaa")]), table([(2, "b", b"bbbb")])])
    with pytest.raises(MessageRefused, match="not a plain stream"):
        decode(stream(two), MESSAGE)


@pytest.mark.parametrize(
    "content",
    [
        table([(1, "a", b"aaaa")]).drop_columns(["t"]),
        table([(1, "a", b"aaaa")]).append_column("user_id", pa.array(["x"])),
        table([(1, "a", b"aaaa")]).select(["t", "n", "c"]),
        table([(1, "a", b"aaaa")]).replace_schema_metadata({"key": "k", "note": "x"}),
        table([(1, "a", b"aaaa")]).replace_schema_metadata(None),
        table([(1, "a", b"aaaa")]).replace_schema_metadata({"key": "x" * 513}),
        table([(1, "a", b"aaaa")]).set_column(0, "n", pa.array([1], pa.int32())),
        table([(1, "a", b"aaaa")]).set_column(2, "c", pa.array([b"aaaa"], pa.binary())),
    ],
)
def test_another_schema_is_refused_at_both_ends(content):
    with pytest.raises(MessageRefused):
        encode(content, MESSAGE)
    with pytest.raises(MessageRefused):
        decode(stream(content), MESSAGE)


def test_nulls_are_refused_at_both_ends():
    content = table([(1, "a", b"aaaa")]).set_column(0, "n", pa.array([None], pa.int64()))
    for work in (lambda: encode(content, MESSAGE), lambda: decode(stream(content), MESSAGE)):
        with pytest.raises(MessageRefused, match="nulls") as caught:
            work()
        assert caught.value.found == "n"


def test_offsets_outside_the_buffer_are_refused():
    good = encode(table([(1, "abcdefgh", b"aaaa"), (2, "ijklmnop", b"bbbb")]), MESSAGE)
    offsets = struct.pack("<iii", 0, 8, 16)
    assert good.count(offsets) == 1
    with pytest.raises(MessageRefused):
        decode(good.replace(offsets, struct.pack("<iii", 0, 8, 2**30)), MESSAGE)


def test_a_body_above_the_limit_is_refused():
    with pytest.raises(MessageRefused, match="too large") as caught:
        encode(table([(1, "x" * 1000, b"aaaa")] * 120), MESSAGE)
    assert caught.value.expected == "at most 100000 bytes"
