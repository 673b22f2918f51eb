"""Canonical bytes of keys: what is hashed, and what names a stored key (docs/format.md, "Keys").

A simple key is its payload followed by one tag: UTF-8 and `s`, the bytes and `b`, or eight
little-endian bytes and `i` for integers in [-2^63, 2^63) or `u` for integers in [2^63, 2^64).

A composite key is, for each of its columns, a tag, the length of the payload in four little-endian
bytes, and the payload; then the tag `t`. Tags and payloads are those above, and one byte with `l`
(truth values), four bytes with `d` (days since 1970-01-01), eight bytes with `m` (timestamps: units
since 1970-01-01T00:00, of no time zone or UTC). As each column says where it ends, no two keys have
the same bytes: the encoding is injective.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta, timezone
from typing import Any

import numpy as np

from ..errors import FormatError
from .kinds import UNITS, ColumnKind, Component, Key, KeyColumn, is_instant, unit_of

COMPOSITE_TAG = b"t"
_FIRST_DAY = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1)
_LENGTH = 4
NO_TIME = -(1 << 63)  # what NumPy takes for no time at all is not a timestamp


def tag_of(kind: ColumnKind) -> bytes:
    """The tag of a column of this kind; integers from 2^63 on have `u`."""
    tags = {"text": b"s", "bytes": b"b", "integer": b"i", "boolean": b"l", "date": b"d"}
    return tags.get(kind, b"m")


def canonical(key: Any) -> bytes:
    """The canonical bytes of a simple key."""
    if isinstance(key, str):
        return str.encode(key) + b"s"
    if isinstance(key, bytes):
        return b"".join((key, b"b"))
    payload, tag = _integer(operator.index(key))
    return payload + tag


def _integer(number: int) -> tuple[bytes, bytes]:
    signed = number < 1 << 63
    return number.to_bytes(8, "little", signed=signed), b"i" if signed else b"u"


def canonical_row(values: tuple[Any, ...], columns: Sequence[KeyColumn]) -> bytes | None:
    """The canonical bytes of a composite key of plain Python values; None for all others, among them
    whatever is not a key.
    """
    if len(values) != len(columns):
        return None
    content = bytearray()
    for value, column in zip(values, columns, strict=True):
        own = _plain_payload(value, column.kind)
        if own is None:
            return None
        payload, tag = own
        content += tag + len(payload).to_bytes(_LENGTH, "little") + payload
    return bytes(content + COMPOSITE_TAG)


def _plain_payload(value: Any, kind: str | None) -> tuple[bytes, bytes] | None:
    own = type(value)
    if kind == "text" and own is str:
        with suppress(UnicodeEncodeError):
            return value.encode(), b"s"
    if kind == "bytes" and own is bytes:
        return value, b"b"
    if kind == "integer" and own is int and -(1 << 63) <= value < 1 << 64:
        return _integer(value)
    if kind == "boolean" and own is bool:
        return bytes([value]), b"l"
    if kind == "date" and own is date:
        return (value.toordinal() - _FIRST_DAY).to_bytes(_LENGTH, "little", signed=True), b"d"
    return None


def original(content: bytes) -> str | bytes | int:
    """The simple key with these canonical bytes, or `FormatError`."""
    payload, tag = content[:-1], content[-1:]
    key: str | bytes | int | None = None
    if tag == b"s":
        key = _text(payload)
    elif tag == b"b":
        key = payload
    elif tag in (b"i", b"u") and len(payload) == 8:
        key = int.from_bytes(payload, "little", signed=tag == b"i")
    if key is None or canonical(key) != content:
        raise FormatError("the kept keys are damaged: one has an unknown type")
    return key


def _text(payload: bytes) -> str:
    try:
        return payload.decode()
    except UnicodeDecodeError:
        raise FormatError("the kept keys are damaged: one is not UTF-8") from None


def original_row(content: bytes, columns: Sequence[KeyColumn]) -> Key:
    """The composite key with these canonical bytes, or `FormatError`; of one column, its value."""
    values: list[Component] = []
    at = 0
    for column in columns:
        tag, begin = content[at : at + 1], at + 1 + _LENGTH
        at = begin + int.from_bytes(content[at + 1 : begin], "little")
        payload = content[begin:at]
        if at >= len(content) or column.kind is None:
            raise FormatError("the kept keys are damaged: one is cut off")
        values.append(_value(payload, tag, column.kind))
    if content[at:] != COMPOSITE_TAG:
        raise FormatError("the kept keys are damaged: one has more columns than the key")
    return tuple(values) if len(values) > 1 else values[0]


def _value(payload: bytes, tag: bytes, kind: ColumnKind) -> Component:
    number = int.from_bytes(payload, "little", signed=tag != b"u")
    if kind == "integer" and tag in (b"i", b"u") and len(payload) == 8 and (tag == b"i" or number >= 1 << 63):
        return number
    if tag == tag_of(kind):
        if kind == "text":
            return _text(payload)
        if kind == "bytes":
            return payload
        if kind == "boolean" and payload in (b"\0", b"\1"):
            return payload == b"\1"
        if kind == "date" and len(payload) == 4:
            return _day(number)
        if tag == b"m" and len(payload) == 8 and number > NO_TIME:
            return _moment(number, kind)
    raise FormatError("the kept keys are damaged: one has another type than its column")


def _day(days: int) -> date | np.datetime64:
    """A date; years that Python lacks are NumPy's."""
    if 1 <= days + _FIRST_DAY <= date.max.toordinal():
        return date.fromordinal(days + _FIRST_DAY)
    return np.datetime64(days, "D")


def _moment(number: int, kind: ColumnKind) -> datetime | np.datetime64:
    """A timestamp; nanoseconds and years that Python lacks are NumPy's."""
    unit = unit_of(kind)
    assert unit is not None
    if unit != "ns":
        try:
            moment = _EPOCH + timedelta(microseconds=number * (10**6 // UNITS[unit]))
            return moment.replace(tzinfo=timezone.utc) if is_instant(kind) else moment
        except OverflowError:
            pass
    moment64: np.datetime64 = np.int64(number).astype(f"datetime64[{unit}]")
    return moment64
