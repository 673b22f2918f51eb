"""Text as keys of the kinds that a release has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InputError
from ..keys.kinds import columns_in_words, is_instant, labels, unit_of
from ..releasing.published import Release
from .lines import lines_of, objects_of, records_of

ANSWERS = ("estimate", "low", "high")
_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?"
_ZONE = "(Z|[+-][0-9]{2}:[0-9]{2})"


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
        return _asked(release, [_column_of(arguments)], integer, _from(1))
    if len(arguments) != len(columns):
        raise InputError(
            f"a key of this release has {len(columns)} columns, {columns_in_words(columns)}: pass one argument for "
            f"each, got {len(arguments)}; several keys are read with --file"
        )
    return _asked(release, [_column_of([text]) for text in arguments], integer, _from(1))


def asked_from(release: Release, file: BinaryIO, integer: bool, as_json: bool) -> Iterator[Asked]:
    """The keys of a file, block by block: one in each line, or CSV or JSON lines if they have several
    columns.
    """
    columns, line = release.key_columns, 1
    if len(columns) == 1:
        for texts in lines_of(file):
            yield _asked(release, [texts], integer, _from(line))
            line += len(texts)
        return
    names = [str(column.name) for column in columns]
    for block in objects_of(file, names) if as_json else records_of(file, names):
        yield _asked(release, block.columns, integer, block.line_of)


def _from(first: int) -> Callable[[int], int]:
    """Where each row is the next line."""
    return lambda row: first + row


def _column_of(texts: list[str]) -> pa.Array:
    """Arguments as a column of text."""
    try:
        return pa.array(texts, pa.large_string())
    except UnicodeEncodeError as error:
        raise InputError(f"key {error.object!r} is not valid UTF-8") from None


def _asked(release: Release, texts: list[pa.Array], integer: bool, line_of: Callable[[int], int]) -> Asked:
    """Text as keys of the release. Files of format 1 do not state the kind: `integer` decides."""
    columns, simple = release.key_columns, not release.key_space.columns
    shown = dict(zip(labels(columns, ANSWERS), texts, strict=True))
    values = tuple(
        parsed(column, "integer" if integer and simple else own.kind or "text", line_of)
        for column, own in zip(texts, columns, strict=True)
    )
    return Asked(shown, values if len(columns) > 1 else values[0])


def parsed(texts: pa.Array, kind: str, line_of: Callable[[int], int]) -> pa.Array | list[int]:
    """Text as values of a kind; `InputError` names the line of what cannot be read."""
    if kind == "text":
        return texts
    if kind == "bytes":
        return pc.cast(texts, pa.large_binary())
    if kind == "integer":
        return _integers(texts, line_of)
    if kind == "boolean":
        _require(texts, "true|false", "true or false", line_of)
        return pc.equal(texts, "true")
    if kind == "date":
        return _cast(texts, _DAY, pa.date32(), "a date such as 2024-01-31", line_of)
    unit, instant = unit_of(kind), is_instant(kind)
    wanted = pa.timestamp(unit, "UTC" if instant else None)
    example = f"a time such as 2024-01-31T12:00:00{'Z' if instant else ''}, in {unit}"
    return _cast(texts, f"{_DAY}[T ]{_TIME}{_ZONE if instant else ''}", wanted, example, line_of)


def _require(texts: pa.Array, pattern: str, must: str, line_of: Callable[[int], int]) -> None:
    """`InputError` with the first text that does not look like this."""
    written = pc.match_substring_regex(texts, f"^({pattern})$")
    if not pc.all(written, min_count=0).as_py():
        at = pc.index(written, False).as_py()
        raise _unreadable(texts, at, must, line_of)


def _cast(texts: pa.Array, pattern: str, wanted: pa.DataType, must: str, line_of: Callable[[int], int]) -> pa.Array:
    _require(texts, pattern, must, line_of)
    try:
        return pc.cast(texts, wanted)
    except pa.ArrowInvalid:
        at = next(at for at in range(len(texts)) if not _can_be(texts[at], wanted))
        raise _unreadable(texts, at, must, line_of) from None


def _can_be(text: pa.Scalar, wanted: pa.DataType) -> bool:
    try:
        pc.cast(text, wanted)
    except pa.ArrowInvalid:
        return False
    return True


def _unreadable(texts: pa.Array, at: int, must: str, line_of: Callable[[int], int]) -> InputError:
    return InputError(f"key {texts[at].as_py()!r} in line {line_of(at)} must be {must}")


def _integers(texts: pa.Array, line_of: Callable[[int], int]) -> pa.Array | list[int]:
    _require(texts, "-?[0-9]{1,20}", "a 64-bit integer", line_of)  # Arrow would also read "0x10"
    for kind in (pa.int64(), pa.uint64()):
        try:
            return pc.cast(texts, kind)
        except pa.ArrowInvalid:
            continue
    # No Arrow type holds both negative integers and integers from 2^63 on.
    numbers = [int(text) for text in texts.to_pylist()]
    for at, number in enumerate(numbers):
        if not -(1 << 63) <= number < 1 << 64:
            raise _unreadable(texts, at, "a 64-bit integer", line_of)
    return numbers
