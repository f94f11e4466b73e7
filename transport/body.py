"""A table as bytes and back: an Arrow IPC stream of at most one uncompressed record batch.

Foreign bytes are checked message by message before Arrow builds anything from them: no dictionaries, no compression
(64 MiB of ZSTD can unfold to many gigabytes), no nulls, every buffer validated.
"""

from __future__ import annotations

import struct

import pyarrow as pa

from base.errors import MessageRefused
from transport.message import Message


def encode(table: pa.Table, message: Message) -> bytes:
    """Return the body of a table; raise `MessageRefused` unless it fits the message's schema and size."""
    message.schema.check(table)
    _no_nulls(table, message)
    if table.nbytes > message.max_bytes:
        raise too_large(message, table.nbytes)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    body: bytes = sink.getvalue().to_pybytes()
    if len(body) > message.max_bytes:
        raise too_large(message, len(body))
    return body


def decode(body: bytes, message: Message) -> pa.Table:
    """Return the table of foreign bytes; raise `MessageRefused` unless they are a plain stream of the schema."""
    try:
        _check_plain(body, message)
        table = pa.ipc.open_stream(pa.py_buffer(body)).read_all()
        table.validate(full=True)
        message.schema.check(table)  # inside: foreign names need not be UTF-8
    except (pa.ArrowException, OSError, struct.error, EOFError, UnicodeDecodeError) as error:
        raise MessageRefused(
            f"the body of {message.name} is not an Arrow stream",
            expected="Arrow IPC stream",
            found=type(error).__name__,
        ) from None
    _no_nulls(table, message)
    return table


def too_large(message: Message, found: int) -> MessageRefused:
    """Return the error of a body above the message's limit."""
    return MessageRefused(
        f"message {message.name} is too large", expected=f"at most {message.max_bytes} bytes", found=f"{found} bytes"
    )


def _no_nulls(table: pa.Table, message: Message) -> None:
    nulls = [name for name in table.column_names if table[name].null_count]
    if nulls:
        raise MessageRefused(f"message {message.name} has nulls", expected="no null", found=", ".join(nulls))


def _check_plain(body: bytes, message: Message) -> None:
    """Walk over the stream's messages without building anything: one schema, then uncompressed record batches."""
    for position, part in enumerate(pa.ipc.MessageReader.open_stream(pa.py_buffer(body))):
        if part.type != ("schema" if position == 0 else "record batch") or position > 1:
            raise MessageRefused(
                f"the body of {message.name} is not a plain stream", expected="a schema, one batch", found=part.type
            )
        if position and _is_compressed(part.metadata.to_pybytes()):
            raise MessageRefused(
                f"the body of {message.name} is compressed", expected="no compression", found="compressed buffers"
            )


def _is_compressed(metadata: bytes) -> bool:
    """Tell whether a record batch's flatbuffer has the field `compression` (Arrow format, Message.fbs)."""
    (root,) = struct.unpack_from("<I", metadata, 0)
    header = _field(metadata, root, 2)  # Message.header
    (offset,) = struct.unpack_from("<I", metadata, header)
    return _field(metadata, header + offset, 3) != 0  # RecordBatch.compression


def _field(metadata: bytes, table: int, slot: int) -> int:
    """Return the position of a flatbuffer table's field, or 0 when it is absent."""
    (back,) = struct.unpack_from("<i", metadata, table)
    vtable = table - back
    (size,) = struct.unpack_from("<H", metadata, vtable)
    if 4 + 2 * slot >= size:
        return 0
    (offset,) = struct.unpack_from("<H", metadata, vtable + 4 + 2 * slot)
    return table + offset if offset else 0
