"""Text as keys of the kinds that a release has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import pyarrow as pa

from ..errors import InputError
from ..keys.kinds import columns_in_words, labels, printable
from ..keys.written import parsed
from ..releasing.published import Release
from .app import say
from .lines import lines_of, objects_of, records_of

Place: TypeAlias = Callable[[int, int], str]  # where a row of a column comes from, for messages

JSON = (".jsonl", ".ndjson", ".json")
ANSWERS = ("estimate", "low", "high")


@dataclass(frozen=True)
class Asked:
    """Keys as they were asked for, and as the release takes them."""

    texts: dict[str, pa.Array]  # by the names that they have in answers
    keys: Any

    def text(self, row: int) -> str | tuple[str, ...]:
        """One of the keys as it was asked for."""
        values = tuple(column[row].as_py() for column in self.texts.values())
        return values[0] if len(values) == 1 else values


def asked_of(release: Release, arguments: list[str], integer: bool) -> Asked:
    """Arguments of the command line: each a key, or a column of the only key."""
    columns = release.key_columns
    if len(columns) == 1:
        return _asked(release, [_column_of(arguments)], integer, lambda row, _: f"(argument {row + 1})")
    if len(arguments) != len(columns):
        raise InputError(
            f"a key of this release has {len(columns)} columns, {columns_in_words(columns)}: pass one argument for "
            f"each, got {len(arguments)}; several keys are read with --file"
        )
    return _asked(
        release, [_column_of([text]) for text in arguments], integer, lambda _, column: f"(argument {column + 1})"
    )


def asked_from(release: Release, file: BinaryIO, integer: bool, ending: str) -> Iterator[Asked]:
    """The keys of a file, block by block: CSV or JSON lines by the ending of its name; otherwise one
    in each line, or CSV if they have several columns.
    """
    columns, line = release.key_columns, 1
    if len(columns) == 1 and ending not in (*JSON, ".csv"):
        for texts in lines_of(file):
            yield _asked(release, [texts], integer, _lines(_from(line)))
            line += len(texts)
        return
    names = [column.name or "key" for column in columns]
    for at, block in enumerate(objects_of(file, names) if ending in JSON else records_of(file, names)):
        if at == 0 and block.names != names:  # or else a first line that is a key would be lost in silence
            say(f"keys are those of column {printable(block.names[0])!r}, as the file names it")
        yield _asked(release, block.columns, integer, _lines(block.line_of))


def _from(first: int) -> Callable[[int], int]:
    """Where each row is the next line."""
    return lambda row: first + row


def _lines(line_of: Callable[[int], int]) -> Place:
    return lambda row, _: f"in line {line_of(row)}"


def _row_of(place: Place, column: int, row: int) -> str:
    return place(row, column)


def _column_of(texts: list[str]) -> pa.Array:
    """Arguments as a column of text; without `pa.array`, which would import pandas."""
    try:
        letters = [text.encode() for text in texts]
    except UnicodeEncodeError as error:
        raise InputError(f"key {error.object!r} is not valid UTF-8") from None
    ends = np.cumsum([0, *map(len, letters)], dtype=np.int64)
    return pa.LargeStringArray.from_buffers(len(texts), pa.py_buffer(ends), pa.py_buffer(b"".join(letters)))


def _asked(release: Release, texts: list[pa.Array], integer: bool, place: Place) -> Asked:
    """Text as keys of the release. Files of format 1 do not state the kind: `integer` decides."""
    columns = release.key_columns
    if integer and any(own.kind not in (None, "integer") for own in columns):
        raise InputError(
            "--integer is for files that do not state the kind of their keys, and those of this one are "
            f"{columns_in_words(columns)}; omit it"
        )
    shown = dict(zip(labels(columns, ANSWERS), texts, strict=True))
    values = tuple(
        parsed(column, "integer" if integer else own.kind or "text", partial(_row_of, place, at))
        for at, (column, own) in enumerate(zip(texts, columns, strict=True))
    )
    return Asked(shown, values if len(columns) > 1 else values[0])
