"""Files of keys as columns of text, in blocks: one key in each line, or CSV or JSON lines with all
columns of the key.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv

from ..errors import InputError
from ..keys.kinds import printable

BLOCK_BYTES = 1 << 22
MOST_RECORD_BYTES = 1 << 26


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
    _decoded(text, first_line)
    data = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(data == ord("\n"))
    offsets = np.concatenate([[0], ends - np.arange(len(ends))]).astype(np.int64)
    offsets[1:] = ends - np.arange(len(ends))
    letters = data[data != ord("\n")]
    return pa.LargeStringArray.from_buffers(len(ends), pa.py_buffer(offsets), pa.py_buffer(letters))


@dataclass(frozen=True)
class Block:
    """Some keys: their columns, and the line in which the key of a row begins."""

    columns: list[pa.Array]
    line_of: Callable[[int], int]
    names: list[str]  # of the columns in the file


def records_of(file: BinaryIO, names: list[str]) -> Iterator[Block]:
    """Some of the columns of a CSV file, whose first line names them."""
    header: list[str] = []
    for first, content in _whole_records(file):
        text = _decoded(content, first)
        skipped = 0 if header else 1
        if not header:
            header = next(record for _, record in _starts(text.removeprefix("\ufeff")))
            names = _named(header, names)
            _check_header(header, names)
        table = _table(content, names, [] if skipped else header)
        if table is None:
            wrong = (first + at for at, record in _starts(text) if len(record) != len(header))
            raise InputError(
                f"line {next(wrong, first)} has another number of columns than the first, which has {len(header)}"
            )
        columns = [table.column(name).combine_chunks() for name in names]
        yield Block(columns, partial(_line_of, text, first, skipped), names)
    if not header:
        raise InputError(f"the keys cannot be read as CSV: it is empty; its first line must be {_listed(names, ',')}")


def _whole_records(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Blocks of whole records, without those of blank lines only, and the line that each begins in."""
    rest, line = b"", 1
    while True:
        block = file.read(BLOCK_BYTES)
        rest += block
        end = _end_of_records(rest)
        content = rest[:end] if block else rest + b"\n"
        begin = _open_record(content)
        if len(rest) - end > MOST_RECORD_BYTES or (not block and rest.count(b'"', end) % 2):
            begin = rest.count(b"\n", 0, end)
        if begin is not None:
            raise InputError(
                f"the record in line {line + begin} has a quote that is not closed; double quotes inside of text"
            )
        if content.strip(b"\r\n"):
            yield line, content
        if not block:
            return
        line += content.count(b"\n")
        rest = rest[end:]


def _end_of_records(content: bytes) -> int:
    """Where the last line ends that is not inside of quotes."""
    if b'"' not in content:
        return content.rfind(b"\n") + 1
    letters = np.frombuffer(content, np.uint8)
    inside = np.bitwise_xor.accumulate(letters == ord('"'))
    ends = np.flatnonzero((letters == ord("\n")) & ~inside)
    return int(ends[-1]) + 1 if len(ends) else 0


def _open_record(content: bytes) -> int | None:
    """The number of lines before the last record, if a quote in it is not closed though the number of
    quotes is even: others are within text that is not quoted, where they are plain letters.
    """
    if b'"' not in content:
        return None
    quotes = (letters := np.frombuffer(content, np.uint8)) == ord('"')
    opening = quotes & np.bitwise_xor.accumulate(quotes)
    if np.isin(letters[:-1][opening[1:]], np.frombuffer(b',"\r\n', np.uint8)).all():
        return None
    *_, (before, record) = _starts(content.decode(errors="replace") + "\n.")  # which an open quote would swallow
    return None if record == ["."] else before


def _named(found: Sequence[str], names: list[str]) -> list[str]:
    """The names to read: if a key has one column, that of the only one that there is will do."""
    return list(found) if len(names) == len(found) == 1 else names


def _check_header(header: list[str], names: list[str]) -> None:
    for name in names:
        if name not in header:
            fix = "" if len(names) > 1 else ", if there are several; or write one key in each line of a .txt file"
            raise InputError(f"the first line of the keys must name the columns of the key: {_listed(names)}{fix}")
        if header.count(name) > 1:
            raise InputError(f"the first line of the keys names several columns {name!r}; rename all but one")


def _listed(names: list[str], between: str = ", ") -> str:
    return between.join(map(printable, names))


def _table(content: bytes, names: list[str], header: list[str]) -> pa.Table | None:
    """Some of the columns of CSV, which begins with a header unless one is given; None if a record has
    another number of columns.
    """
    try:
        return pyarrow.csv.read_csv(
            pa.BufferReader(content),
            read_options=pyarrow.csv.ReadOptions(block_size=len(content) + 1, column_names=header),
            parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
            convert_options=pyarrow.csv.ConvertOptions(
                include_columns=names,
                column_types=dict.fromkeys(names, pa.large_string()),
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid:
        return None


def _starts(text: str) -> Iterator[tuple[int, list[str]]]:
    """The records of CSV, without blank lines, and the number of lines before each: slowly, for the
    header and for messages.
    """
    csv.field_size_limit(2 * MOST_RECORD_BYTES)
    reader, before = csv.reader(io.StringIO(text, newline="")), 0
    try:
        for record in reader:
            if record:
                yield before, record
            before = reader.line_num
    except csv.Error as error:
        raise InputError(f"the keys cannot be read as CSV: {error}") from None


def _line_of(text: str, first: int, skipped: int, row: int) -> int:
    before, _ = next(islice(_starts(text), skipped + row, None))
    return first + before


def _decoded(content: bytes, first_line: int) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = first_line + content.count(b"\n", 0, error.start)
        raise InputError(f"line {line} is not valid UTF-8") from None


def objects_of(file: BinaryIO, names: list[str]) -> Iterator[Block]:
    """Some of the fields of JSON lines, as text."""
    first, is_named = 1, False
    for texts in lines_of(file):
        numbered = [(line, text) for line, text in enumerate(texts.to_pylist(), first) if text.strip()]
        first += len(texts)
        if numbered:
            records = [(line, _record(text, names, line)) for line, text in numbered]
            if not is_named:
                names, is_named = _named(list(records[0][1]), names), True
            rows = [[_as_text(record.get(name), name, line) for name in names] for line, record in records]
            columns = [pa.array([row[at] for row in rows], pa.large_string()) for at in range(len(names))]
            yield Block(columns, [line for line, _ in numbered].__getitem__, names)


def _record(text: str, names: list[str], line: int) -> dict[str, Any]:
    try:
        record = json.loads(text)
    except ValueError:
        raise InputError(f"line {line} is not JSON") from None
    except RecursionError:
        raise InputError(f"line {line} is nested too deeply") from None
    if not isinstance(record, dict):
        raise InputError(f"line {line} must be a JSON object with the fields {_listed(names)}")
    return record


def _as_text(value: Any, name: str, line: int) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int)):
        text = str(value)
        if any("\ud800" <= letter <= "\udfff" for letter in text):
            raise InputError(f"field {name!r} in line {line} must be valid Unicode, got a lone surrogate")
        return text
    what = "is missing" if value is None else "must be text, an integer or a truth value"
    raise InputError(f"field {name!r} in line {line} {what}")
