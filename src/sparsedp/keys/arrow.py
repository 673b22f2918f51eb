"""Arrow columns (and those of pandas, polars and DuckDB) without copying their strings, and nulls
in them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError, KeyTypeError, SparseDPError
from ..privacy.randomness import Words
from .batches import Batch, ids_of
from .containers import has, is_dataset, is_lazy_frame, is_unread, refuse_second_reading, unlabelled

if TYPE_CHECKING:
    from .hashing import KeySpace
    from .kinds import KeyKind

# Arrow's own exceptions are subclasses of these.
_CONVERSION_ERRORS = (ValueError, TypeError, OverflowError, NotImplementedError)


def as_chunked_array(column: Any) -> Any:
    """Any column that supports Arrow, or any pandas column, as a pyarrow ChunkedArray."""
    import pyarrow

    if isinstance(column, pyarrow.ChunkedArray):
        return column
    column = unlabelled(column)
    try:
        if has(column, "__arrow_c_stream__"):
            return pyarrow.chunked_array(column)
        array = pyarrow.array(column)  # already in chunks if pandas stores it in chunks
        return array if isinstance(array, pyarrow.ChunkedArray) else pyarrow.chunked_array([array])
    except _CONVERSION_ERRORS:  # their text shows cells of the column, here and below
        kind = getattr(column, "dtype", type(column).__name__)
        raise InputError(f"a column must have one type that Arrow supports, got {kind}; convert it first") from None


def as_keys_and_values(table: Any) -> tuple[Any, Any]:
    """The keys of any table that supports Arrow, possibly only once it has been read, and its last
    column, the values. Keys are a column, or a table if there are several.
    """
    import pyarrow

    if is_unread(table):
        check_counted_columns(column_names(table))
        table = read(table)
    refuse_second_reading(table)
    try:
        columns = pyarrow.table(table)
    except _CONVERSION_ERRORS:
        raise InputError(f"counts must be a table of keys and values, got {type(table).__name__}") from None
    check_counted_columns(columns.column_names)
    last = columns.num_columns - 1
    return columns.column(0) if last == 1 else columns.select(list(range(last))), columns.column(last)


def column_names(table: Any) -> list[str]:
    """The columns of a table that has not been read yet."""
    if is_lazy_frame(table):
        with errors_of_polars():
            return list(table.collect_schema().names())
    return list((table.schema if is_dataset(table) else table.projected_schema).names)


def read(table: Any) -> Any:
    """A polars LazyFrame, a pyarrow Dataset or Scanner in memory."""
    if not is_lazy_frame(table):
        with errors_of_arrow(table):
            return table.to_table()
    with errors_of_polars():
        return table.collect()


def as_arrow(frame: Any) -> Any:
    """A polars DataFrame as an Arrow table; `InputError` for types that Arrow does not have."""
    try:
        return frame.to_arrow()
    except _CONVERSION_ERRORS:
        raise InputError("the columns of the table must have types that Arrow supports; cast others first") from None


@contextmanager
def errors_of_arrow(table: Any) -> Iterator[None]:
    """Turn errors of reading a pyarrow Dataset or Scanner into ours: their text may show a cell."""
    try:
        yield
    except InputError:
        raise
    except (*_CONVERSION_ERRORS, OSError):
        kind = type(table).__name__
        raise InputError(f"the {kind} cannot be read; to_table() shows why, with cells of the data") from None


@contextmanager
def errors_of_polars() -> Iterator[None]:
    """Turn errors of a polars query into ours; their text is kept only if it is about names of
    columns, not cells.
    """
    exceptions = sys.modules["polars"].exceptions
    try:
        yield
    except exceptions.ColumnNotFoundError as error:
        first = str(error).strip().split("\n")[0]
        raise InputError(f"the LazyFrame cannot be read: {first}") from None
    except (SparseDPError, MemoryError):
        raise
    except Exception as error:  # of polars, or of a function in the query
        why = "collect() shows why, with cells of the data"
        raise InputError(f"the LazyFrame cannot be read ({type(error).__name__}); {why}") from None


def check_counted_columns(names: Iterable[object]) -> None:
    """`InputError` unless there are at least two names."""
    names = list(names)
    if len(names) < 2:
        got = ", ".join(map(str, names)) or "none"
        raise InputError(f"a table of counts must have columns of keys and, as the last one, of values, got {got}")


def refuse_nulls(column: Any, what: str) -> None:
    """`InputError` with the position of the first null."""
    nulls = nulls_of(column)
    if nulls is not None:
        _refuse_first(nulls, what)


def nulls_of(column: Any) -> npt.NDArray[np.bool_] | None:
    """Which rows of a ChunkedArray are null; None if none can be."""
    import pyarrow

    # A row of a dictionary array may refer to a null among its values, which does not count as a
    # null of the column.
    if not column.null_count and not pyarrow.types.is_dictionary(column.type):
        return None
    nulls = pyarrow.chunked_array([_nulls(chunk) for chunk in column.chunks], pyarrow.bool_())
    found: npt.NDArray[np.bool_] = nulls.to_numpy()
    return found


def rows_of(column: Any, kept: npt.NDArray[np.bool_]) -> Any:
    """Some rows of a ChunkedArray."""
    import pyarrow
    from pyarrow import types

    if types.is_string_view(column.type) or types.is_binary_view(column.type):  # which Arrow cannot filter
        column = column.cast(pyarrow.large_string() if types.is_string_view(column.type) else pyarrow.large_binary())
    return column.filter(pyarrow.array(kept))


def _nulls(array: Any) -> Any:
    import pyarrow

    # Before Arrow 26, is_null() of a dictionary array reports only rows without a value.
    if pyarrow.types.is_dictionary(array.type):
        return _nulls(array.dictionary).take(array.indices).fill_null(True)
    return array.is_null()


def has_mixed_categories(column: Any) -> bool:
    """Whether the categories of a pandas column have several types, which Arrow would merge or
    refuse.
    """
    categories = getattr(column.dtype, "categories", None)
    if categories is None or categories.dtype != object:
        return False
    kinds = set(map(type, categories))
    return not any(all(issubclass(kind, one) for kind in kinds) for one in (str, bytes))


def refuse_missing(column: Any, what: str) -> None:
    """`InputError` with the position of the first null of a pandas column, which NumPy would turn
    into NaN.
    """
    _refuse_first(np.asarray(unlabelled(column).isna(), bool), what)


def pandas_to_numpy(column: Any) -> npt.NDArray[Any]:
    """A pandas column without nulls as a NumPy array."""
    # By default pandas turns nullable integers into objects (before 2.2) and sparse unsigned ones
    # into floats.
    return np.asarray(column.to_numpy({"i": np.int64, "u": np.uint64}.get(column.dtype.kind)))


def values_to_numpy(column: Any) -> npt.NDArray[Any]:
    """An Arrow column of numbers as a NumPy array, of objects if they are decimals."""
    import pyarrow

    refuse_nulls(column, "value")
    if isinstance(column.type, pyarrow.BaseExtensionType):  # NumPy would get the storage: integers for booleans
        raise InputError(f"values must be numbers, got an Arrow column of {column.type}")
    try:
        return np.asarray(column.to_numpy())
    except _CONVERSION_ERRORS:
        raise InputError(f"values must be numbers, got an Arrow column of {column.type}") from None


def _refuse_first(nulls: npt.NDArray[np.bool_], what: str) -> None:
    if nulls.any():
        raise InputError(f"{what} at position {int(nulls.argmax())} is null; drop or fill missing rows first")


def key_batch(space: KeySpace, keys: object) -> Batch:
    """An Arrow column of strings, binaries, integers, or a dictionary of those."""
    column = as_chunked_array(keys)
    refuse_nulls(column, "key")
    if not len(column):  # of any type: an empty column often has the null type
        return np.empty(0, np.uint64)
    from pyarrow import types

    if space.seed is None and types.is_dictionary(column.type):  # a value that no row has may lie outside
        column = column.cast(column.type.value_type)
    if types.is_integer(column.type):
        return space.integers(column.to_numpy())
    try:
        batches = [_chunk_batch(space, chunk) for chunk in column.chunks]
    except InputError:
        raise
    except ValueError as error:  # from the core: buffers that do not belong together
        raise InputError(f"this Arrow column is damaged: {error}") from None
    return batches[0] if len(batches) == 1 else np.concatenate([ids_of(batch) for batch in batches])


def key_ids(space: KeySpace, keys: object) -> Words:
    """The ids of an Arrow column of keys."""
    return ids_of(key_batch(space, keys))


def key_kind(kind: Any) -> KeyKind | None:
    """The kind of keys that an Arrow type holds; None for a type that holds no keys, such as null."""
    from pyarrow import types

    if types.is_dictionary(kind):
        return key_kind(kind.value_type)
    if types.is_integer(kind):
        return "integer"
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "text"
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind):
        return "bytes"
    return None


def _chunk_batch(space: KeySpace, chunk: Any) -> Batch:
    from pyarrow import large_binary, large_string, types

    kind = chunk.type
    if types.is_dictionary(kind):
        ids: Words = ids_of(_chunk_batch(space, chunk.dictionary))[chunk.indices.to_numpy()]
        return ids
    if types.is_integer(kind):
        return space.integers(chunk.fill_null(0).to_numpy())  # in a dictionary, a null that no row refers to
    if types.is_string_view(kind) or types.is_binary_view(kind):
        if chunk.null_count:  # in a dictionary, nulls that no row refers to, whose views may be anything
            return _chunk_batch(space, chunk.cast(large_string() if types.is_string_view(kind) else large_binary()))
        _, views, *buffers = chunk.buffers()
        own = np.frombuffer(views or b"", np.uint8)[16 * chunk.offset : 16 * (chunk.offset + len(chunk))]
        return space.views(own, [np.frombuffer(data, np.uint8) for data in buffers], types.is_string_view(kind))
    text = types.is_string(kind) or types.is_large_string(kind)
    if text or types.is_binary(kind) or types.is_large_binary(kind):
        wide = types.is_large_string(kind) or types.is_large_binary(kind)
        _, offsets, data = chunk.buffers()
        width = np.int64 if wide else np.int32
        used = np.zeros(1, width)
        if len(chunk):
            used = np.frombuffer(offsets, width, len(chunk) + 1, chunk.offset * used.itemsize)
        return space.strings(used, np.frombuffer(data or b"", np.uint8), text)
    raise KeyTypeError(f"keys must be str, bytes or int, got an Arrow column of {kind}")
