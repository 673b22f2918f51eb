"""Keys as they come in a request (text in a query, JSON, or an Arrow stream), as a release takes
them.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import pyarrow as pa

from ..errors import InputError
from ..keys.kinds import KeyColumn, columns_in_words
from ..keys.written import Place, parsed
from ..releasing.published import Release
from .streams import read_stream

_FEW = 64  # keys that are hashed sooner than a column of them is taken apart
_LONGEST_SHOWN = 80  # letters of a key in a message
_NAMES = {str: "text", int: "a number", float: "a number with a fraction", bool: "a truth value", dict: "an object"}


@dataclass(frozen=True)
class Asked:
    """Keys as the release takes them, and as they were asked for."""

    keys: Any
    count: int
    values: Sequence[Any] = ()  # of JSON, to be repeated in the answer
    table: pa.Table | None = None  # of an Arrow stream, in the same way

    def shown(self, most: int) -> list[Any]:
        """Some of the keys of a stream, for a log that has keys."""
        if self.table is None:
            return []
        some = self.table.slice(0, most)
        columns = [_logged(column) for column in some.columns]
        return [dict(zip(some.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def from_query(release: Release, texts: list[str]) -> Asked:
    """Keys of a query: text, or a JSON array for each key of several columns."""
    if len(release.key_columns) == 1:
        return from_values(release, texts)
    values = []
    for at, text in enumerate(texts):
        try:
            values.append(parsed_json(text, f"key {_position(at)}"))
        except InputError:
            _refuse_row(release, text, at)
    return from_values(release, values)


def listed(body: Any) -> list[Any]:
    """The list of keys in a JSON object."""
    keys = body.get("keys")
    if not isinstance(keys, list):
        raise InputError(f'"keys" must be a list of keys, got {what_is(keys)}')
    return keys


def from_values(release: Release, values: list[Any]) -> Asked:
    """Keys as JSON values: of one column, or a list for each key of several."""
    columns = release.key_columns
    if len(columns) == 1:
        return Asked(_column(values, columns[0].kind), len(values), values)
    for at, value in enumerate(values):
        if not isinstance(value, list) or len(value) != len(columns):
            _refuse_row(release, value, at)
    read = [
        _column([value[at] for value in values], column.kind, f" in column {column.name!r}")
        for at, column in enumerate(columns)
    ]
    return Asked(tuple(read), len(values), values)


def from_stream(release: Release, body: memoryview, most: int) -> Asked:
    """Keys of an Arrow stream: its only column, the one that is called like the key, or all columns of
    the key.
    """
    table = read_stream(body, most)
    columns = release.key_columns
    if len(columns) == 1:
        table = _only_column(table, columns[0])
        return Asked(table.column(0), table.num_rows, table=table)
    missing = [str(column.name) for column in columns if column.name not in table.column_names]
    if missing:
        raise InputError(
            f"a key has the columns {columns_in_words(columns)}; the stream has no column {missing[0]!r}, only "
            f"{', '.join(map(repr, table.column_names[:20]))}"
        )
    for column in columns:
        if table.column_names.count(column.name) > 1:
            raise InputError(f"the stream has several columns {column.name!r}; rename all but one")
    table = table.select([column.name for column in columns])
    return Asked(table, table.num_rows, table=table)


def _logged(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column; of times, some may be beyond those of Python."""
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        return [str(column.type)] * len(column)


def _only_column(table: pa.Table, column: KeyColumn) -> pa.Table:
    name = column.name or "key"
    if table.num_columns == 1:
        return table
    if table.column_names.count(name) == 1:
        return table.select([name])
    raise InputError(f"the stream must have one column, or one that is called {name!r}, got {table.num_columns}")


def parsed_json(text: memoryview | str, what: str) -> Any:
    """JSON, and nothing that only Python reads; `InputError` otherwise."""
    try:
        if isinstance(text, memoryview):
            text = str(text, "utf-8")
        return json.loads(text, parse_constant=_no_number)
    except UnicodeDecodeError:
        raise InputError(f"{what} must be JSON in UTF-8, got bytes that are not UTF-8") from None
    except RecursionError:
        raise InputError(f"{what} must be JSON, got too many brackets inside of each other") from None
    except json.JSONDecodeError as error:
        raise InputError(f"{what} must be JSON: {error.msg} (line {error.lineno}, column {error.colno})") from None
    except ValueError:
        raise InputError(f"{what} must be JSON with numbers of at most 4300 digits") from None


def _no_number(name: str) -> NoReturn:
    raise json.JSONDecodeError(f"{name} is not a number of JSON", name, 0)


def _column(values: list[Any], kind: str | None, where: str = "") -> Any:
    """Values of one column; integers may be text too, as JavaScript rounds large ones."""

    def place(at: int) -> str:
        return f"{_position(at)}{where}"

    kinds = set(map(type, values))
    if kind is None:  # a file of format 1 does not state it
        kind = "integer" if kinds == {int} else "text"
    if kind == "integer" and kinds == {int}:
        return _in_range(values, place)
    if kind == "bytes" and dict in kinds:
        return pa.array([_as_bytes(value, at, place) for at, value in enumerate(values)], pa.large_binary())
    if kinds - {str}:
        values = [_as_text(value, kind, at, place) for at, value in enumerate(values)]
    try:
        texts = pa.array(values, pa.large_string())
    except UnicodeEncodeError:
        at = next(at for at, value in enumerate(values) if not _is_unicode(value))
        raise InputError(f"key {place(at)} must be valid Unicode, got a lone surrogate") from None
    if kind == "text" and not where and len(values) <= _FEW:
        return values
    return parsed(texts, kind, place)


def _in_range(values: list[int], place: Place) -> Any:
    for at, value in enumerate(values) if min(values) < -(1 << 63) or max(values) >= 1 << 64 else ():
        if not -(1 << 63) <= value < 1 << 64:
            raise InputError(f"key {place(at)} must be a 64-bit integer, got {_short(value)}")
    return values


def _as_text(value: Any, kind: str, at: int, place: Place) -> str:
    if isinstance(value, str):
        return value
    if kind == "integer" and type(value) is int:
        return str(value)
    if kind == "boolean" and isinstance(value, bool):
        return "true" if value else "false"
    must = {"integer": "an integer", "boolean": "true or false", "text": "text"}.get(kind, f"text ({kind})")
    raise InputError(f"key {place(at)} must be {must}, got {what_is(value)}")


def _as_bytes(value: Any, at: int, place: Place) -> bytes:
    """Bytes that are text, or {"base64": "…"}."""
    if isinstance(value, str) and _is_unicode(value):
        return value.encode()
    try:
        if isinstance(value, dict) and list(value) == ["base64"] and isinstance(value["base64"], str):
            return base64.b64decode(value["base64"], validate=True)
    except ValueError:  # not base64, or not ASCII
        pass
    raise InputError(f'key {place(at)} must be text, or bytes such as {{"base64": "AP8="}}')


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _refuse_row(release: Release, value: Any, at: int) -> NoReturn:
    columns = release.key_columns
    got = f"{len(value)} values" if isinstance(value, list) else what_is(value)
    raise InputError(
        f"key {_position(at)} must be a JSON array of {len(columns)} values, {columns_in_words(columns)}, got {got}"
    )


def _position(at: int) -> str:
    return f"at position {at}"


def what_is(value: Any) -> str:
    """A JSON value for a message."""
    if value is None:
        return "nothing"
    if isinstance(value, list):
        return "a list"
    return f"{_NAMES[type(value)]} ({_short(value)})"


def _short(value: Any) -> str:
    try:
        text = json.dumps(value)
    except (ValueError, RecursionError):  # an integer with too many digits
        return "a long number"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
