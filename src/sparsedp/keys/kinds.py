"""Kinds of keys, and of the columns of a key that has several.

A simple key is text, bytes or an integer. A column of a composite key may also be a truth value, a
date, or a timestamp in a stated unit: of no time zone, or an instant (UTC).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeGuard, get_args

import numpy as np

from ..errors import ParameterError

if TYPE_CHECKING:
    from typing_extensions import TypeIs

Component: TypeAlias = str | bytes | int | bool | date | datetime | np.datetime64
Key: TypeAlias = str | bytes | int | date | datetime | np.datetime64 | tuple[Component, ...]
KeyKind: TypeAlias = Literal["text", "bytes", "integer"]
ColumnKind: TypeAlias = Literal[
    "text",
    "bytes",
    "integer",
    "boolean",
    "date",
    "timestamp[s]",
    "timestamp[ms]",
    "timestamp[us]",
    "timestamp[ns]",
    "timestamp[s, UTC]",
    "timestamp[ms, UTC]",
    "timestamp[us, UTC]",
    "timestamp[ns, UTC]",
]

KEY_KINDS: tuple[KeyKind, ...] = get_args(KeyKind)
COLUMN_KINDS: tuple[ColumnKind, ...] = get_args(ColumnKind)
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}  # in a second
MOST_COLUMNS = 64
_MOST_NAME_BYTES = 1000
NAMES_IN_WORDS = f"valid Unicode, at most {_MOST_NAME_BYTES} bytes"

_WORDS: dict[str, str] = {
    "text": "text (str)",
    "bytes": "bytes",
    "integer": "integers",
    "boolean": "truth values (bool)",
    "date": "dates (datetime.date)",
}


@dataclass(frozen=True)
class KeyColumn:
    """A column of the key: its name, if it is known, and its kind."""

    name: str | None
    kind: ColumnKind | None  # None if the file does not state it: any simple kind

    def __str__(self) -> str:
        return str(self.kind) if self.name is None else f"{printable(self.name)} ({self.kind})"


def printable(name: str) -> str:
    """A name of a column without anything that a terminal would obey: who wrote a file chose it."""
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in name)


def is_name(name: str) -> bool:
    """Whether a column may have this name: a release writes it into its file."""
    try:
        return 1 <= len(name.encode()) <= _MOST_NAME_BYTES
    except UnicodeEncodeError:
        return False


def is_simple(kind: str | None) -> TypeIs[KeyKind]:
    """Whether a key of one column of this kind is a simple key."""
    return kind in KEY_KINDS


def is_column_kind(kind: object) -> TypeGuard[ColumnKind]:
    """Whether this is the name of a kind."""
    return kind in COLUMN_KINDS


def unit_of(kind: str) -> str | None:
    """The unit of a kind of timestamps; None for other kinds."""
    return kind[10:-1].removesuffix(", UTC") if kind.startswith("timestamp[") else None


def is_instant(kind: str) -> bool:
    """Whether this is a kind of timestamps in UTC."""
    return kind.endswith(", UTC]")


def timestamps(unit: str, instant: bool) -> ColumnKind:
    """The kind of timestamps in this unit."""
    kind = f"timestamp[{unit}, UTC]" if instant else f"timestamp[{unit}]"
    assert is_column_kind(kind)
    return kind


def in_words(kind: str) -> str:
    """A kind for a message."""
    unit = unit_of(kind)
    if unit is None:
        return _WORDS[kind]
    return f"instants in {unit} (datetime with a time zone)" if is_instant(kind) else f"timestamps in {unit} (datetime)"


def default_names(count: int) -> tuple[str, ...]:
    """The names of columns that have none."""
    return ("key",) if count == 1 else tuple(f"key{at}" for at in range(1, count + 1))


def columns_in_words(columns: Sequence[KeyColumn]) -> str:
    """All columns of a key."""
    return ", ".join(map(str, columns))


def labels(columns: Sequence[KeyColumn], taken: Sequence[str]) -> list[str]:
    """Names for the columns of a key beside other columns of a table."""
    names: list[str] = []
    for column in columns:
        name = column.name or "key"
        while name in taken or name in names:
            name = f"key_{name}"
        names.append(name)
    return names


def stated_kinds(key_type: Any) -> tuple[ColumnKind, ...]:
    """The kinds that a caller states, one for each column, or `ParameterError`."""
    kinds = (key_type,) if isinstance(key_type, str) else tuple(key_type) if isinstance(key_type, (list, tuple)) else ()
    known = tuple(kind for kind in kinds if is_column_kind(kind))
    if not kinds or len(known) < len(kinds):
        raise ParameterError(
            f"key_type must be one of {', '.join(map(repr, COLUMN_KINDS))}, or a list of one for each column of the "
            f"key, got {key_type!r}"
        )
    return known
