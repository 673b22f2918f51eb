"""Keys that are written as text, as they come from a command line, a file or a request: each kind
has one way to write it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InputError
from .kinds import is_instant, unit_of

Place: TypeAlias = Callable[[int], str]  # where a row comes from, for messages: "in line 3"

_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?"
_ZONE = "(Z|[+-][0-9]{2}:[0-9]{2})"


def parsed(texts: pa.Array, kind: str, place: Place) -> pa.Array | list[int]:
    """Text as values of a kind; `InputError` says which cannot be read, and where it is."""
    if kind == "text":
        return texts
    if kind == "bytes":
        return pc.cast(texts, pa.large_binary())
    if kind == "integer":
        return _integers(texts, place)
    if kind == "boolean":
        _require(texts, "true|false", "true or false", place)
        return pc.equal(texts, "true")
    if kind == "date":
        return _cast(texts, _DAY, pa.date32(), "a date such as 2024-01-31", place)
    unit, instant = unit_of(kind), is_instant(kind)
    wanted = pa.timestamp(unit, "UTC" if instant else None)
    example = f"a time such as 2024-01-31T12:00:00{'Z' if instant else ''}, in {unit}"
    return _cast(texts, f"{_DAY}[T ]{_TIME}{_ZONE if instant else ''}", wanted, example, place)


def _require(texts: pa.Array, pattern: str, must: str, place: Place) -> None:
    """`InputError` with the first text that does not look like this."""
    written = pc.match_substring_regex(texts, f"^({pattern})$")
    if not pc.all(written, min_count=0).as_py():
        at = pc.index(written, False).as_py()
        raise _unreadable(texts, at, must, place)


def _cast(texts: pa.Array, pattern: str, wanted: pa.DataType, must: str, place: Place) -> pa.Array:
    _require(texts, pattern, must, place)
    try:
        return pc.cast(texts, wanted)
    except pa.ArrowInvalid:
        at = next(at for at in range(len(texts)) if not _can_be(texts[at], wanted))
        raise _unreadable(texts, at, must, place) from None


def _can_be(text: pa.Scalar, wanted: pa.DataType) -> bool:
    try:
        pc.cast(text, wanted)
    except pa.ArrowInvalid:
        return False
    return True


def _unreadable(texts: pa.Array, at: int, must: str, place: Place) -> InputError:
    return InputError(f"key {texts[at].as_py()!r} {place(at)} must be {must}")


def _integers(texts: pa.Array, place: Place) -> pa.Array | list[int]:
    _require(texts, "-?[0-9]{1,20}", "a 64-bit integer", place)  # Arrow would also read "0x10"
    for kind in (pa.int64(), pa.uint64()):
        try:
            return pc.cast(texts, kind)
        except pa.ArrowInvalid:
            continue
    # No Arrow type holds both negative integers and integers from 2^63 on.
    numbers = [int(text) for text in texts.to_pylist()]
    for at, number in enumerate(numbers):
        if not -(1 << 63) <= number < 1 << 64:
            raise _unreadable(texts, at, "a 64-bit integer", place)
    return numbers
