"""From keys to ids: key → canonical bytes → 64-bit fingerprint, and from ids to rows of the
embedding.

A key is a str, bytes or int, or has several columns (`composite`). 1, "1" and b"1" are three keys:
different keys have different canonical bytes (`encoding`). The fingerprint is SipHash-2-4 of these
under a fresh public seed. With an explicit domain, keys are integers in [0, domain) and are their
own ids.

A release knows the kind of its keys and refuses any other: 1 and "1" are different keys, and a
caller who asks for one of the two means the one that was counted.

Hash seeds are drawn independently of the data, so privacy holds for every outcome of them; they are
published.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from .. import _native
from ..errors import InputError, KeyTypeError
from ..privacy.randomness import Randomness, Words
from . import arrow
from .batches import Batch, ids_of
from .columns import as_column, is_arrow
from .composite import KeyTable, one_id
from .containers import is_table
from .kinds import Key, KeyColumn, KeyKind

_KIND_OF_TYPE: dict[type, KeyKind] = {str: "text", bytes: "bytes", int: "integer"}
_KIND_NAMES: dict[KeyKind, str] = {"text": "text (str)", "bytes": "bytes", "integer": "integers"}
_CONVERSIONS: dict[tuple[KeyKind, KeyKind], str] = {
    ("text", "integer"): "ask for str(key)",
    ("text", "bytes"): "ask for key.decode()",
    ("bytes", "text"): "ask for key.encode()",
    ("bytes", "integer"): "ask for the bytes that were counted",
    ("integer", "text"): "ask for int(key)",
    ("integer", "bytes"): "ask for int(key)",
}

_ONE_COLUMN = "pass one of its columns, such as table['key'], and collect() a query first"

HASHED_DOMAIN = 1 << 64
ROW_PRIME = (1 << 89) - 1
MOST_ROWS = (1 << 39) - 1


@dataclass(frozen=True)
class KeySpace:
    """How keys become ids in [0, domain): unchanged, or by SipHash under `seed` if there is one."""

    domain: int
    seed: tuple[int, int] | None
    kind: KeyKind | None = None  # of simple keys that it answers for; None for any, as in files that do not state it
    columns: tuple[KeyColumn, ...] = ()  # of composite keys

    @classmethod
    def draw(cls, domain: int | None, randomness: Randomness) -> KeySpace:
        """Integer keys of a given domain, or hashed keys under a fresh seed."""
        if domain is not None:
            return cls(domain, None, "integer")
        k0, k1 = randomness.words(2).tolist()
        return cls(HASHED_DOMAIN, (k0, k1))

    def id(self, key: Key) -> int:
        """The id of one key."""
        if self.columns and self.seed is not None:
            return one_id(self.seed, key, self.columns)
        if self.seed is not None and (self.kind is None or _KIND_OF_TYPE.get(type(key)) == self.kind):
            fingerprint = _native.hash_key(self.seed[0], self.seed[1], key)
            if fingerprint is not None:
                return fingerprint
        return int(self.ids([key])[0])  # raises the right error for a bad key

    def ids(self, keys: object) -> Words:
        """The ids of a list, tuple, NumPy array, Arrow, pandas or polars column, or other iterable
        of keys; of composite keys, also of a table, a dict or a tuple of columns.

        `KeyTypeError` if their kind is not that of the release.
        """
        return ids_of(self.batch(keys))

    def batch(self, keys: object) -> Batch:
        """Keys for a kernel that computes their ids as it goes, or the ids themselves if they are
        not those of one column. Otherwise as `ids`.
        """
        if self.columns and self.seed is not None:
            return KeyTable.read(keys, self.columns).ids(self.seed)
        batch, kind = self._read(keys)
        if len(batch) and self.kind is not None and kind != self.kind:
            raise wrong_kind(self.kind, kind)
        return batch

    def read(self, keys: Any) -> tuple[Words, KeyKind | None]:
        """The ids of keys and their kind, which is None if there are no keys and the column has no
        type.
        """
        batch, kind = self._read(keys)
        return ids_of(batch), kind

    def _read(self, keys: Any) -> tuple[Batch, KeyKind | None]:
        column = as_column(keys, "key")
        if isinstance(column, (list, tuple)):
            return self._from_sequence(column), _kind_of_first(column)
        if isinstance(column, np.ndarray):
            return self._from_numpy(column), _kind_of_array(column)
        if is_arrow(column):
            return arrow.key_batch(self, column), arrow.key_kind(column.type)
        kind = type(keys).__name__
        if isinstance(column, (str, bytes)):
            raise KeyTypeError(f"keys must be a collection of keys, got a single key, {kind}; use release[key]")
        if is_table(column):
            raise KeyTypeError(f"keys must be one column, got a table ({kind}); {_ONE_COLUMN}")
        raise KeyTypeError(f"keys must be a collection of str, bytes or int, got {kind}")

    def integers(self, values: np.ndarray) -> Batch:
        """A one-dimensional array of integers."""
        unsigned = values.dtype.kind == "u"
        if self.seed is not None:
            if unsigned:
                return _native.unsigned_keys(*self.seed, aligned(values, np.uint64))
            return _native.signed_keys(*self.seed, aligned(values, np.int64))
        ids = aligned(values, np.uint64)
        outside = (values < 0) | (ids > np.uint64(self.domain - 1))
        if outside.any():
            self._refuse(values.tolist(), int(np.argmax(outside)))
        return ids

    def strings(self, offsets: np.ndarray, data: np.ndarray, text: bool) -> Batch:
        """An Arrow string (`text`) or binary column, given by its buffers."""
        of_offsets = _native.offset_keys if offsets.dtype == np.int32 else _native.large_offset_keys
        return of_offsets(*self._seed_for(text), aligned(offsets, offsets.dtype), data, text)

    def views(self, views: np.ndarray, buffers: list[np.ndarray], text: bool) -> Batch:
        """An Arrow string_view (`text`) or binary_view column, given by its buffers."""
        return _native.view_keys(*self._seed_for(text), views, buffers, text)

    def _seed_for(self, text: bool) -> tuple[int, int]:
        if self.seed is None:
            kind = "str" if text else "bytes"
            raise KeyTypeError(
                f"keys must be integers in [0, {self.domain}), got {kind} keys; omit domain= to hash them"
            )
        return self.seed

    def _from_numpy(self, keys: np.ndarray) -> Batch:
        if keys.ndim != 1:
            raise KeyTypeError(f"keys must be one-dimensional, got {keys.ndim} dimensions")
        if not len(keys):  # of any type: np.array([]) has the type float
            return np.empty(0, np.uint64)
        if keys.dtype.kind in "iu":
            return self.integers(keys)
        if keys.dtype.kind in "US" and self.seed is not None and keys.dtype.itemsize:
            return self._from_fixed(aligned(keys, keys.dtype.newbyteorder("=")), self.seed)
        if keys.dtype.kind in "USOT":  # strings, bytes, objects, variable-width strings
            return self._from_sequence(keys.tolist())
        raise KeyTypeError(f"keys must be str, bytes or int, got an array of {keys.dtype}")

    def _from_fixed(self, keys: np.ndarray, seed: tuple[int, int]) -> Batch:
        """NumPy strings or bytes of a fixed width."""
        if keys.dtype.kind == "S":
            return _native.fixed_bytes_keys(*seed, keys.view(np.uint8), keys.dtype.itemsize)
        batch = _native.fixed_text_keys(*seed, keys.view(np.uint32), keys.dtype.itemsize // 4)
        if isinstance(batch, int):
            # Not told by the key itself: Python has no str for what may be in such an array.
            raise InputError(f"key at position {batch} must be valid Unicode, got a lone surrogate or worse; use bytes")
        return batch

    def _from_sequence(self, keys: list[Any] | tuple[Any, ...]) -> Words:
        if self.seed is not None:
            ids = _native.hash_objects(*self.seed, keys)
        else:
            ids = _native.integer_objects(keys, self.domain - 1)
        if isinstance(ids, int):
            self._refuse(keys, ids)
        return ids

    def _refuse(self, keys: list[Any] | tuple[Any, ...], position: int) -> NoReturn:
        """Report what is wrong with the key at a position that a kernel refused, without the key:
        it may be data.
        """
        key, kind = keys[position], type(keys[position]).__name__
        is_integer = _is_integer(key)
        if self.seed is None:
            message = f"key at position {position} must be an integer in [0, {self.domain})"
            raise InputError(message) if is_integer else KeyTypeError(f"{message}, got {kind}")
        if not is_integer and not isinstance(key, (str, bytes)):
            raise KeyTypeError(f"key at position {position} must be str, bytes or int, got {kind}")
        first = keys[0]
        if (isinstance(key, str), isinstance(key, bytes)) != (isinstance(first, str), isinstance(first, bytes)):
            raise KeyTypeError(
                f"keys must all be of one type, got {type(first).__name__} at position 0 "
                f"and {kind} at position {position}; convert them to one"
            )
        if is_integer:
            raise InputError(f"key at position {position} must be in [-2^63, 2^64); use str for larger integers")
        raise InputError(f"key at position {position} must be valid Unicode, got a lone surrogate; use bytes")


def wrong_kind(wanted: KeyKind, got: KeyKind | None) -> KeyTypeError:
    """The error for keys whose kind is not that of the counted keys."""
    if got is None:
        return KeyTypeError(f"the keys of this release are {_KIND_NAMES[wanted]}, got others")
    fix = _CONVERSIONS[wanted, got]
    return KeyTypeError(f"the keys of this release are {_KIND_NAMES[wanted]}, got {_KIND_NAMES[got]}; {fix}")


def _kind_of_array(keys: np.ndarray) -> KeyKind | None:
    kinds: dict[str, KeyKind] = {"i": "integer", "u": "integer", "U": "text", "T": "text", "S": "bytes"}
    return _kind_of_first(keys[:1].tolist()) if keys.dtype.kind == "O" else kinds.get(keys.dtype.kind)


def _kind_of_first(keys: Sequence[Any]) -> KeyKind | None:
    """The kind of keys that all have the same kind: that of the first."""
    if not keys:
        return None
    return "text" if isinstance(keys[0], str) else "bytes" if isinstance(keys[0], bytes) else "integer"


@dataclass(frozen=True)
class Partition:
    """Which part a key belongs to: the high word of placement × parts.

    Fingerprints are placed as they are, so a part is a range of them; integer keys are mixed with
    two seeds first. A third seed is for code that needs one more seed shared by all parts.
    """

    parts: int
    hashed: bool
    seeds: tuple[int, int, int] = (0, 0, 0)

    def part_of(self, ids: Words) -> Words:
        """The part of each id."""
        return _native.parts_of(ids, self.hashed, self.seeds[0], self.seeds[1], self.parts)

    def range_of(self, part: int) -> tuple[int, int]:
        """The fingerprints of a part, as a half-open range."""
        return -(-(part << 64) // self.parts), -(-(part + 1 << 64) // self.parts)


def aligned(values: np.ndarray, dtype: npt.DTypeLike) -> np.ndarray:
    """A contiguous array at an address that kernels may read: an array in a packed struct may begin
    anywhere.
    """
    if values.dtype == dtype and values.flags.c_contiguous and values.flags.aligned:
        return values
    return np.require(values, dtype, ["C_CONTIGUOUS", "ALIGNED"])


def _is_integer(key: object) -> bool:
    if isinstance(key, (bool, np.bool_)):
        return False
    try:
        operator.index(key)  # type: ignore[arg-type]  # that is the question
    except TypeError:
        return False
    return True


def draw_row_functions(randomness: Randomness, levels: int) -> Words:
    """One function x → ((a x + b) mod (2^89 - 1)) scaled to the rows, per level: four words, a and
    b, low first.
    """
    low = (1 << 64) - 1
    functions = np.empty((levels, 4), np.uint64)
    for level in range(levels):
        a, b = 1 + randomness.below(ROW_PRIME - 1), randomness.below(ROW_PRIME)
        functions[level] = [a & low, a >> 64, b & low, b >> 64]
    return functions
