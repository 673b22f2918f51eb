"""Keys of several columns, from any container: a table, a dict of columns, columns, or tuples.

A key of one column whose kind is no simple one (a date, a timestamp) is a composite key of one
column, and is written without a tuple.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .. import _native
from ..errors import InputError, KeyTypeError
from ..privacy.randomness import Words
from .arrow import as_chunked_array, read
from .columns import as_column, is_arrow
from .components import kind_of_value, read_component
from .containers import has, is_a, is_numpy_inside, is_pandas, is_table, is_unread, speaks_arrow
from .encoding import canonical_row, original_row, tag_of
from .kinds import (
    MOST_COLUMNS,
    NAMES_IN_WORDS,
    ColumnKind,
    Key,
    KeyColumn,
    columns_in_words,
    default_names,
    is_name,
    is_simple,
)

if TYPE_CHECKING:
    import pyarrow as pa

_NO_OFFSETS = np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class KeyTable:
    """Keys of known columns, in Arrow."""

    columns: tuple[KeyColumn, ...]
    table: pa.Table  # a column of each kind, without nulls; names are positions

    @classmethod
    def read(cls, keys: Any, columns: Sequence[KeyColumn] = (), kinds: Sequence[ColumnKind] = ()) -> KeyTable:
        """The keys, of the stated columns or kinds if there are any; otherwise their types, or for
        Python values the first key, determine the kinds.
        """
        if isinstance(keys, cls):  # which has been read, by the same columns
            return keys
        found = _by_name(keys, columns) if _is_table(keys) else _by_position(keys, len(columns or kinds))
        names = [column.name for column in columns] if columns else list(found)
        wanted = [column.kind for column in columns] or list(kinds) or [None] * len(found)
        if len(wanted) != len(found):
            raise KeyTypeError(f"keys must have {_columns(columns, len(wanted))}, got {len(found)}")
        _check_names(names)
        arrays, made = [], []
        for name, thing, kind in zip(names, found.values(), wanted, strict=True):
            array, own = read_component(thing, kind, f"column {name!r} of the keys")
            arrays.append(array)
            made.append(KeyColumn(name, own or "text"))
        if len(set(map(len, arrays))) > 1:
            raise InputError(
                f"the columns of the keys must have one length, got {', '.join(str(len(a)) for a in arrays)}"
            )
        return cls(tuple(made), _as_table(arrays))

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @property
    def simple(self) -> Any:
        """The only column, if its keys are simple ones; otherwise None."""
        return self.table.column(0) if len(self.columns) == 1 and is_simple(self.columns[0].kind) else None

    def ids(self, seed: tuple[int, int]) -> Words:
        """The fingerprints of all keys."""
        k0, k1 = seed
        pieces = [_native.hash_composite(k0, k1, *_buffers(batch, self.columns)) for batch in self.table.to_batches()]
        return np.concatenate(pieces) if pieces else np.empty(0, np.uint64)

    def encoded(self) -> pa.ChunkedArray:
        """The canonical bytes of all keys."""
        import pyarrow as pa

        chunks = []
        for batch in self.table.to_batches():
            starts, content = _native.encode_composite(*_buffers(batch, self.columns))
            buffers = [None, pa.py_buffer(starts), pa.py_buffer(content)]
            chunks.append(pa.Array.from_buffers(pa.large_binary(), batch.num_rows, buffers))
        return pa.chunked_array(chunks, pa.large_binary())

    def at(self, rows: npt.NDArray[np.int64]) -> KeyTable:
        """Some of the keys."""
        return KeyTable(self.columns, self.table.take(rows))

    def names(self) -> list[bytes]:
        """The canonical bytes of each key, as Python objects."""
        names: list[bytes] = self.encoded().to_pylist()
        return names

    def keys(self) -> list[Key]:
        """The keys as Python objects."""
        return [original_row(name, self.columns) for name in self.names()]


@dataclass(frozen=True, eq=False)
class EncodedKeys:
    """Composite keys by their canonical bytes."""

    content: Any  # an Arrow column of binaries

    def __len__(self) -> int:
        return len(self.content)

    def ids(self, seed: tuple[int, int]) -> Words:
        """The fingerprints of all keys."""
        import pyarrow as pa

        k0, k1 = seed
        pieces = [np.empty(0, np.uint64)]
        for chunk in as_chunked_array(self.content.cast(pa.large_binary())).chunks:
            _, offsets, data = _component(chunk, "bytes")[1:]
            pieces.append(_native.hash_encoded(k0, k1, offsets, data))
        return np.concatenate(pieces)

    def at(self, rows: npt.NDArray[np.int64]) -> EncodedKeys:
        """Some of the keys."""
        return EncodedKeys(self.content.take(rows))

    def names(self) -> list[bytes]:
        """The canonical bytes of each key, as Python objects."""
        names: list[bytes] = self.content.to_pylist()
        return names


def one_id(seed: tuple[int, int], key: Any, columns: Sequence[KeyColumn]) -> int:
    """The fingerprint of one key."""
    values = key if isinstance(key, tuple) and len(columns) > 1 else (key,)
    content = canonical_row(values, columns)
    if content is not None:
        return _native.siphash24(seed[0].to_bytes(8, "little") + seed[1].to_bytes(8, "little"), content)
    if len(columns) > 1 and not isinstance(key, tuple):
        raise KeyTypeError(f"a key of this release is a tuple ({columns_in_words(columns)}), got {type(key).__name__}")
    return int(KeyTable.read([key], columns).ids(seed)[0])


def settled(keys: Any) -> Any:
    """Keys that can be read twice: a table or columns as they are, anything else as a column."""
    return keys if isinstance(keys, KeyTable) or _is_table(keys) or is_columns(keys) else as_column(keys, "key")


def is_composite(keys: Any) -> bool:
    """Whether settled keys have several columns, or one column of dates or timestamps."""
    if isinstance(keys, KeyTable) or _is_table(keys) or is_columns(keys):
        return True
    if is_arrow(keys):
        from pyarrow import types

        return bool(types.is_date(keys.type) or types.is_timestamp(keys.type))
    if isinstance(keys, np.ndarray) and keys.dtype.kind != "O":
        return bool(keys.dtype.kind == "M")
    first = keys[0] if isinstance(keys, (list, tuple, np.ndarray)) and len(keys) else None
    kind = None if first is None else kind_of_value(first)
    return isinstance(first, tuple) or (kind is not None and not is_simple(kind) and kind != "boolean")


def is_columns(keys: Any) -> bool:
    """Whether this is a tuple of columns."""
    return isinstance(keys, tuple) and len(keys) > 0 and all(map(_is_column, keys))


def _is_table(keys: Any) -> bool:
    if isinstance(keys, Mapping):  # of columns, or a collection of keys
        return len(keys) > 0 and all(map(_is_column, keys.values()))
    return is_table(keys) or is_a(keys, "pandas", "MultiIndex")


def _is_column(thing: Any) -> bool:
    """Whether this is a column of values, and not a value."""
    if isinstance(thing, np.ndarray):
        return thing.ndim > 0
    return (
        isinstance(thing, list)
        or is_arrow(thing)
        or is_numpy_inside(thing)
        or is_pandas(thing)
        or speaks_arrow(thing)
        or (has(thing, "to_numpy") and has(thing, "__len__"))
    )


def _by_name(table: Any, columns: Sequence[KeyColumn]) -> dict[str, Any]:
    """The columns of a table that the key has, or all of them."""
    if is_unread(table):
        table = read(table)
    names, column_at = _columns_of(table, columns)
    if not columns:
        _check_names(names)
        return {name: column_at(at) for at, name in enumerate(names)}
    found = {}
    for column in columns:
        places = [at for at, name in enumerate(names) if isinstance(name, str) and name == column.name]
        if not places:
            have = ", ".join(map(repr, names)) or "none"
            raise KeyTypeError(
                f"the keys of this release have the columns {columns_in_words(columns)}, and the table has no column "
                f"{column.name!r} (it has {have}); rename its columns, or pass a tuple of columns"
            )
        if len(places) > 1:
            raise KeyTypeError(f"the table has several columns {column.name!r}; rename all but one")
        found[str(column.name)] = column_at(places[0])
    return found


def _columns_of(table: Any, columns: Sequence[KeyColumn]) -> tuple[list[Any], Callable[[int], Any]]:
    """The names of the columns of a table, and the column at each position. The levels of an index
    without names are the columns of the key, like the values of tuples.
    """
    if is_a(table, "pandas", "MultiIndex"):
        names = default_names(table.nlevels) if None in table.names else table.names
        if len(columns) == table.nlevels and set(table.names) == {None}:
            names = [column.name for column in columns]
        unnamed = table.set_names([None] * table.nlevels)  # a level named 0 would be taken for the first
        return list(names), unnamed.get_level_values
    if isinstance(table, Mapping):
        return list(table), list(table.values()).__getitem__
    if is_a(table, "pandas", "DataFrame"):
        return list(table.columns), lambda at: table.iloc[:, at]
    known = _as_arrow(table)
    return known.column_names, known.column


def _as_arrow(table: Any) -> pa.Table:
    import pyarrow as pa

    try:
        return table if isinstance(table, pa.Table) else pa.table(table)
    except (ValueError, TypeError, NotImplementedError):  # their messages may show a value
        raise InputError(f"a table of keys must support Arrow, got {type(table).__name__}") from None


def _by_position(keys: Any, count: int) -> dict[str, Any]:
    """Columns without names: a tuple of columns, a sequence of tuples, or the only column."""
    if is_columns(keys):
        return dict(zip(default_names(len(keys)), keys, strict=True))
    if isinstance(keys, (str, bytes)):
        kind = type(keys).__name__
        raise KeyTypeError(f"keys must be a collection of keys, got a single key, {kind}; use release[key]")
    column = as_column(keys, "key")
    if isinstance(column, np.ndarray) and column.dtype.kind == "O" and column.ndim == 1:
        column = column.tolist()
    if isinstance(column, (list, tuple)):
        many = count or (len(column[0]) if column and isinstance(column[0], tuple) else 1)
        if many > 1:
            return _transposed(column, many)
    if count > 1:
        raise KeyTypeError(f"keys must be tuples, a table, or a tuple of columns, got {type(keys).__name__}")
    return {default_names(1)[0]: column}


def _transposed(rows: Sequence[Any], count: int) -> dict[str, Any]:
    """The columns of tuples of one length."""
    if isinstance(rows, tuple) and rows and not any(isinstance(row, tuple) for row in rows):
        raise KeyTypeError("keys must be a collection of keys, got a single key, tuple; use release[key]")
    if set(map(type, rows)) - {tuple} or set(map(len, rows)) - {count}:
        for at, row in enumerate(rows):
            if not isinstance(row, tuple):
                raise KeyTypeError(f"key at position {at} must be a tuple of {count} values, got {type(row).__name__}")
            if len(row) != count:
                raise KeyTypeError(f"key at position {at} must have {count} values, got {len(row)}")
    return {name: list(map(itemgetter(at), rows)) for at, name in enumerate(default_names(count))}


def _check_names(names: Sequence[Any]) -> None:
    for name in names:
        if not isinstance(name, str) or not name:
            raise KeyTypeError(f"columns of keys must have names, got {name!r}")
        if not is_name(name):
            raise KeyTypeError(f"columns of keys must have names of {NAMES_IN_WORDS}, got {name[:20]!r}…; rename it")
    if len(set(names)) < len(names):
        raise KeyTypeError("columns of keys must have different names; rename all but one")
    if not 1 <= len(names) <= MOST_COLUMNS:
        raise KeyTypeError(f"a key must have 1 to {MOST_COLUMNS} columns, got {len(names)}")


def _columns(columns: Sequence[KeyColumn], count: int) -> str:
    return f"{count} columns ({columns_in_words(columns)})" if columns else f"{count} columns"


def _as_table(arrays: list[Any]) -> Any:
    import pyarrow as pa

    return pa.Table.from_arrays(arrays, [str(at) for at in range(len(arrays))])


def _buffers(batch: Any, columns: Sequence[KeyColumn]) -> tuple[bytes, list[int], list[Any], list[Any], int]:
    """What the kernels take: tags, widths, offsets and data of the columns, and the number of rows."""
    tags, widths, offsets, data = [], [], [], []
    for array, column in zip(batch.columns, columns, strict=True):
        assert column.kind is not None
        tag, width, own, content = _component(array, column.kind)
        tags.append(tag)
        widths.append(width)
        offsets.append(own)
        data.append(content)
    return b"".join(tags), widths, offsets, data, batch.num_rows


def _component(array: Any, kind: ColumnKind) -> tuple[bytes, int, Any, Any]:
    from pyarrow import types

    tag = tag_of(kind)
    if types.is_null(array.type) or not len(array):
        return tag, 0, np.zeros(1, np.int64), np.zeros(0, np.uint8)
    if kind in ("text", "bytes"):
        wide = types.is_large_string(array.type) or types.is_large_binary(array.type)
        _, starts, content = array.buffers()
        all_offsets = np.frombuffer(starts, np.int64 if wide else np.int32)
        own = all_offsets[array.offset : array.offset + len(array) + 1]
        return tag, 0, np.ascontiguousarray(own, np.int64), np.frombuffer(content or b"", np.uint8)
    if kind == "boolean":
        return tag, 1, _NO_OFFSETS, np.asarray(array.to_numpy(zero_copy_only=False)).view(np.uint8)
    width = array.type.bit_width // 8
    if types.is_decimal(array.type) or types.is_unsigned_integer(array.type):
        tag = b"u"
    begin = width * array.offset
    return tag, width, _NO_OFFSETS, np.frombuffer(array.buffers()[1], np.uint8)[begin : begin + width * len(array)]
