"""Arrow streams in and out of requests.

A stream comes from anybody, so nothing in it is believed: it must not be compressed (a few bytes
could become gigabytes), it must not have more rows than allowed, and its columns are validated
completely before they are read.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa

from ..errors import InputError
from .limits import RefusedError

_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"  # of a stream
_DICTIONARY, _RECORDS = 2, 3  # kinds of messages
_LAST_ASCII = 0x7F
_MOST_BATCHES = 256  # whose columns are kept as pieces: each takes some calls of Python


def read_stream(body: bytes | memoryview, most: int) -> pa.Table:
    """The table in a stream, whose columns are views of it; `InputError` or `RefusedError`."""
    try:
        if bytes(body[-len(_END) :]) != _END:  # a part of a stream would be taken for all of it
            raise pa.ArrowInvalid
        _refuse_compressed(body)
        batches, rows = [], 0
        with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
            for batch in reader:
                rows += batch.num_rows
                if rows > most:
                    raise RefusedError(413, f"a request may have at most {most} keys, got more; send them in several")
                batches.append(batch)
            table = pa.Table.from_batches(batches, reader.schema)
        table.validate()
        for column in table.columns:
            for chunk in column.chunks:
                if not _is_ascii(chunk):
                    chunk.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, LookupError, struct.error) as error:
        if isinstance(error, InputError):
            raise
        raise InputError("the body must be a complete Arrow stream, as pyarrow.ipc.new_stream writes it") from None
    return table


def _is_ascii(chunk: pa.Array) -> bool:
    """Whether a chunk is text without nulls whose letters are all ASCII, so that every piece of them
    is text, and whose pieces follow each other; `validate` has seen that the first and the last
    piece are inside. That is seen at once, and the complete validation goes key by key.
    """
    large = pa.types.is_large_string(chunk.type)
    if not large and not pa.types.is_string(chunk.type):
        return False
    nulls, offsets, letters = chunk.buffers()
    if nulls is not None or offsets is None or letters is None:
        return False
    ends: Any = np.frombuffer(offsets, np.int64 if large else np.int32)[chunk.offset :][: len(chunk) + 1]
    return bool((ends[1:] >= ends[:-1]).all()) and np.frombuffer(letters, np.uint8).max(initial=0) <= _LAST_ASCII


def write_stream(table: pa.Table) -> list[bytes | memoryview]:
    """A table as a stream, in pieces: its columns are not copied."""
    if max((column.num_chunks for column in table.columns), default=0) > _MOST_BATCHES:
        whole = pa.BufferOutputStream()
        _write(table, whole)
        return [memoryview(whole.getvalue())]
    sink = _Sink()
    _write(table, pa.PythonFile(sink, "w"))
    return sink.pieces


def _write(table: pa.Table, sink: pa.NativeFile) -> None:
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


class _Sink:
    """A file that keeps what is written to it: columns come as buffers, all else as a few bytes."""

    closed = False

    def __init__(self) -> None:
        self.pieces: list[bytes | memoryview] = []

    def write(self, piece: bytes | pa.Buffer) -> int:
        if not isinstance(piece, bytes):
            self.pieces.append(memoryview(piece).cast("B"))
        elif self.pieces and isinstance(self.pieces[-1], bytes):
            self.pieces[-1] += piece
        else:
            self.pieces.append(piece)
        return len(piece)

    def flush(self) -> None:
        """There is nothing to flush."""


def _refuse_compressed(body: bytes | memoryview) -> None:
    for message in pa.ipc.MessageReader.open_stream(pa.py_buffer(body)):
        if _is_compressed(message.metadata.to_pybytes()):
            raise InputError("the buffers of the Arrow stream must not be compressed; write it without compression")


def _is_compressed(metadata: bytes) -> bool:
    """Whether a message has compressed buffers: a field of its flatbuffer, which pyarrow does not
    show (Message.fbs in the Arrow format: header_type and header are fields 1 and 2 of a message,
    data is field 1 of a dictionary, and compression is field 3 of a batch).
    """
    message = _offset(metadata, 0)
    kind = _field(metadata, message, 1)
    header = _field(metadata, message, 2)
    if kind is None or header is None or metadata[kind] not in (_DICTIONARY, _RECORDS):
        return False
    batch: int | None = _offset(metadata, header)
    if metadata[kind] == _DICTIONARY:
        data = _field(metadata, _offset(metadata, header), 1)
        batch = None if data is None else _offset(metadata, data)
    return batch is not None and _field(metadata, batch, 3) is not None


def _offset(data: bytes, at: int) -> int:
    """Where the table is that a reference leads to."""
    return at + int(struct.unpack_from("<I", data, at)[0])


def _field(data: bytes, table: int, number: int) -> int | None:
    """Where a field of a table is; None if the table does not have it."""
    fields = table - struct.unpack_from("<i", data, table)[0]
    if fields < 0:
        raise struct.error("a table of fields before the beginning")
    size: Any = struct.unpack_from("<H", data, fields)[0]
    if 4 + 2 * number >= size:
        return None
    relative = struct.unpack_from("<H", data, fields + 4 + 2 * number)[0]
    return table + relative if relative else None
