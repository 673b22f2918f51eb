"""What other systems ask of a release: an estimate, or an end of its interval, for columns in Arrow in
which keys may be missing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _native
from ..errors import InputError, KeyTypeError, ParameterError
from ..keys.arrow import as_chunked_array, key_kind, nulls_of, rows_of
from ..keys.hashing import wrong_kind
from ..keys.kinds import columns_in_words
from ..releasing.answers import check_confidence
from ..releasing.published import Floats, Release, load

WANTED = ("estimate", "low", "high")
ENDS = ("", "_low", "_high")  # of the names of functions that answer these

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Question:
    """One number for each key: the estimate, or the low or high end of its interval."""

    release: Release
    wanted: str
    confidence: float

    def numbers(self, keys: object) -> Floats:
        """The answers for keys as in `Release.lookup`, none of which is missing."""
        if self.wanted == "estimate":
            return self.release.lookup(keys)
        return self.release.interval(keys, self.confidence)[self.wanted == "high"]

    def kernel(self) -> _native.Reader | None:
        """What answers keys in a single call, if something does."""
        return self.release.kernel(self.wanted, self.confidence)

    def answers(self, columns: Sequence[Any]) -> Any:
        """The answers for Arrow columns of one length, together the key, as an Arrow array; null
        where any of them is.
        """
        import pyarrow as pa

        columns = [as_chunked_array(column) for column in columns]
        nulls = [own for own in map(nulls_of, columns) if own is not None and own.any()]
        if nulls or not len(columns[0]) or len(columns) != (len(self.release.key_space.columns) or 1):
            self._check([column.type for column in columns])  # a lookup sees only the rows that are there
        if not nulls:
            return pa.array(self.numbers(_key(columns)))
        missing = np.logical_or.reduce(nulls)
        numbers = np.zeros(len(missing))
        if not missing.all():
            numbers[~missing] = self.numbers(_key([rows_of(column, ~missing) for column in columns]))
        return pa.array(numbers, mask=missing)

    def of_batch(self, columns: Sequence[Any]) -> Any:
        """The same for some rows of a table, whose number in the table is not known."""
        try:
            return self.answers(columns)
        except InputError as error:
            raise without_position(error) from None

    def _check(self, types: Sequence[Any]) -> None:
        """`KeyTypeError` unless there are as many Arrow columns as the key has, and a simple key is
        of its kind. Columns of a composite key are checked when they are read.
        """
        import pyarrow as pa

        wanted, space = self.release.key_columns, self.release.key_space
        if len(types) != len(wanted):
            raise KeyTypeError(
                f"the keys of this release have {len(wanted)} columns ({columns_in_words(wanted)}), got {len(types)}"
            )
        if not space.columns and space.kind is not None and types[0] != pa.null():
            kind = key_kind(types[0])
            if kind != space.kind:
                raise wrong_kind(space.kind, kind)


def questions(release: Release | str | os.PathLike[str], confidence: float) -> tuple[Question, ...]:
    """All that is asked of a release, in the order of `WANTED`."""
    check_confidence(confidence)
    opened = release if isinstance(release, Release) else load(release)
    return tuple(Question(opened, wanted, confidence) for wanted in WANTED)


def check_name(name: object) -> None:
    """`ParameterError` unless SQL can call a function by this name."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ParameterError(
            f"name must be letters, digits and underscores, and not begin with a digit, got {name!r}; try 'visits'"
        )


def check_own(name: str, exists: Callable[[str], bool]) -> None:
    """`ParameterError` if one of the functions of this name belongs to a release with another name."""
    ends = ENDS[1:]
    others = [name[: -len(end)] for end in ends if name.lower().endswith(end)] + [name + end for end in ends]
    for other in others:
        if all(exists(other + end) for end in ENDS):
            raise ParameterError(
                f"name must have functions of its own, got {name!r}: {max(name, other, key=len)!r} is one of the "
                f"release that is registered as {other!r}; pass another name="
            )


def without_position(error: InputError) -> InputError:
    """An error about keys whose positions the caller cannot know."""
    return type(error)(re.sub(r" at position \d+", "", str(error)))


def _key(columns: Sequence[Any]) -> Any:
    """Keys as `Release.lookup` takes them."""
    return columns[0] if len(columns) == 1 else tuple(columns)
