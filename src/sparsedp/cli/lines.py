"""Files of keys as columns of text, in blocks: one key in each line, or CSV or JSON lines with all
columns of the key.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv

from ..errors import InputError

BLOCK_BYTES = 1 << 22


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


def records_of(file: BinaryIO, names: list[str]) -> Iterator[dict[str, pa.Array]]:
    """Some of the columns of a CSV file, whose first line names them."""
    try:
        reader = pyarrow.csv.open_csv(
            pa.PythonFile(file, mode="r"),
            read_options=pyarrow.csv.ReadOptions(block_size=BLOCK_BYTES),
            parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
            convert_options=pyarrow.csv.ConvertOptions(
                include_columns=names,
                column_types=dict.fromkeys(names, pa.large_string()),
                strings_can_be_null=False,
            ),
        )
        for batch in reader:
            yield dict(zip(names, batch.columns, strict=True))
    except pa.ArrowKeyError:
        wanted = ", ".join(names)
        raise InputError(f"the first line of the keys must name the columns of the key: {wanted}") from None
    except pa.ArrowInvalid as error:
        why = "it is empty" if "Empty CSV" in str(error) else "a line has another number of columns, or is not UTF-8"
        raise InputError(f"the keys cannot be read as CSV: {why}; its first line must be {','.join(names)}") from None


def objects_of(file: BinaryIO, names: list[str]) -> Iterator[dict[str, pa.Array]]:
    """Some of the fields of JSON lines, as text."""
    first = 1
    for lines in lines_of(file):
        rows = [_fields(text, names, first + at) for at, text in enumerate(lines.to_pylist()) if text.strip()]
        first += len(lines)
        yield {name: pa.array([row[at] for row in rows], pa.large_string()) for at, name in enumerate(names)}


def _fields(text: str, names: list[str], line: int) -> list[str]:
    try:
        record = json.loads(text)
    except ValueError:
        raise InputError(f"line {line} is not JSON") from None
    if not isinstance(record, dict):
        raise InputError(f"line {line} must be a JSON object with the fields {', '.join(names)}")
    return [_as_text(record.get(name), name, line) for name in names]


def _as_text(value: Any, name: str, line: int) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int)):
        return str(value)
    what = "is missing" if value is None else "must be text, an integer or a truth value"
    raise InputError(f"field {name!r} in line {line} {what}")
