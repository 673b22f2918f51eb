"""Keys in, one per line, and answers out, in blocks: at the speed of the release, not of Python's
loops.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from ..errors import InputError
from ..releasing.published import Release

BLOCK_BYTES = 1 << 22
_CONTROL = re.compile(r"[\x00-\x1f]")


def lines_of(file: BinaryIO) -> Iterator[pa.Array]:
    """The lines of a file as columns of text, a few megabytes at a time."""
    rest, line = b"", 1
    while block := file.read(BLOCK_BYTES):
        end = block.rfind(b"\n") + 1
        if not end:
            rest += block
            continue
        column = _column(rest + block[:end], line)
        line += len(column)
        rest = block[end:]
        yield column
    if rest:
        yield _column(rest + b"\n", line)


def _column(text: bytes, first_line: int) -> pa.Array:
    """Whole lines without their line ends; `InputError` names a line that is not UTF-8."""
    text = text.replace(b"\r\n", b"\n")
    try:
        text.decode()
    except UnicodeDecodeError as error:
        line = first_line + text.count(b"\n", 0, error.start)
        raise InputError(f"line {line} is not valid UTF-8") from None
    data = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(data == ord("\n"))
    offsets = np.concatenate([[0], ends - np.arange(len(ends))]).astype(np.int64)
    offsets[1:] = ends - np.arange(len(ends))
    letters = data[data != ord("\n")]
    return pa.LargeStringArray.from_buffers(len(ends), pa.py_buffer(offsets), pa.py_buffer(letters))


def column_of(texts: list[str]) -> pa.Array:
    """Arguments as a column of text."""
    try:
        return pa.array(texts, pa.large_string())
    except UnicodeEncodeError as error:
        raise InputError(f"key {error.object!r} is not valid UTF-8") from None


def as_keys(release: Release, texts: pa.Array, integer: bool, first: int) -> pa.Array | list[int]:
    """Lines as keys of the kind that the release has. Files of format 1 do not state it: then
    `integer` decides.
    """
    wanted = "integer" if integer else release.key_space.kind
    if wanted != "integer":
        return pc.cast(texts, pa.large_binary()) if wanted == "bytes" else texts
    # Arrow would also read "0x10" as an integer.
    written = pc.match_substring_regex(texts, r"^-?[0-9]{1,20}$")
    if not pc.all(written).as_py():
        at = pc.index(written, False).as_py()
        raise InputError(f"key {texts[at].as_py()!r} in line {first + at} must be a 64-bit integer")
    for kind in (pa.int64(), pa.uint64()):
        try:
            return pc.cast(texts, kind)
        except pa.ArrowInvalid:
            continue
    # No Arrow type holds both negative integers and integers from 2^63 on.
    return [_integer(text, first + at) for at, text in enumerate(texts.to_pylist())]


def _integer(text: str, line: int) -> int:
    number = int(text)
    if not -(1 << 63) <= number < 1 << 64:
        raise InputError(f"key {text!r} in line {line} must be a 64-bit integer")
    return number


def answer(release: Release, texts: pa.Array, keys: pa.Array | list[int], confidence: float) -> pa.Table:
    """The estimate and the interval of each key."""
    low, high = release.interval(keys, confidence)
    return pa.table({"key": texts, "estimate": release.lookup(keys), "low": low, "high": high})


class Writer:
    """Answers as CSV or as JSON lines on stdout."""

    def __init__(self, as_json: bool) -> None:
        self._json = as_json
        self._out = sys.stdout.buffer
        self._first = True

    def write(self, table: pa.Table) -> None:
        """Append a block of rows."""
        if self._json:
            self._out.write(_json_lines(table))
        else:
            header = pyarrow.csv.WriteOptions(include_header=self._first, quoting_style="needed")
            pyarrow.csv.write_csv(table, self._out, header)
        self._first = False
        self._out.flush()


def _json_lines(table: pa.Table) -> bytes:
    texts = pc.cast(table.column("key"), pa.large_string())
    if pc.any(pc.match_substring_regex(texts, _CONTROL.pattern)).as_py():
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in table.to_pylist()).encode()
    escaped = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
    pieces: list[Any] = ['{"key": "', escaped, '"']
    for name in ("estimate", "low", "high"):
        pieces += [f', "{name}": ', pc.cast(table.column(name), pa.large_string())]
    pieces.append("}\n")
    wide = [pa.scalar(piece, pa.large_string()) if isinstance(piece, str) else piece for piece in pieces]
    joined = pc.binary_join_element_wise(*wide, pa.scalar("", pa.large_string()))
    return b"".join(np.frombuffer(_letters(chunk), np.uint8).tobytes() for chunk in joined.chunks)


def _letters(chunk: pa.Array) -> memoryview:
    """The text of a whole column, one value after the other."""
    offsets = np.frombuffer(chunk.buffers()[1], np.int64)[chunk.offset : chunk.offset + len(chunk) + 1]
    return memoryview(chunk.buffers()[2])[offsets[0] : offsets[-1]]
