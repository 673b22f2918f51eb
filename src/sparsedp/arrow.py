"""Arrow columns (and pandas, polars, DuckDB columns that speak Arrow) without copying their strings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import InputError, KeyTypeError, MissingDependencyError
from .randomness import Words

if TYPE_CHECKING:
    from .hashing import KeySpace

# Arrow's own exceptions are subclasses of these.
_CONVERSION_ERRORS = (ValueError, TypeError, OverflowError, NotImplementedError)


def import_pyarrow() -> Any:
    """The pyarrow module, or an error that says how to install it."""
    try:
        import pyarrow
    except ImportError:
        raise MissingDependencyError(
            "Arrow, pandas and polars columns need pyarrow: pip install 'sparsedp[arrow]'"
        ) from None
    return pyarrow


def as_chunked_array(column: object) -> Any:
    """Any column that speaks Arrow as a pyarrow ChunkedArray."""
    pyarrow = import_pyarrow()
    if isinstance(column, pyarrow.ChunkedArray):
        return column
    try:
        if hasattr(column, "__arrow_c_stream__"):
            return pyarrow.chunked_array(column)
        return pyarrow.chunked_array([pyarrow.array(column)])
    except _CONVERSION_ERRORS as error:
        raise InputError(f"a column must be of one type that Arrow has: {error}") from None


def as_two_columns(table: object) -> tuple[Any, Any]:
    """The key and the value column of any table that speaks Arrow."""
    try:
        columns = import_pyarrow().table(table)
    except _CONVERSION_ERRORS as error:
        raise InputError(
            f"counts must be a table of two columns, key and value, got {type(table).__name__}: {error}"
        ) from None
    check_two_columns(columns.column_names)
    return columns.column(0), columns.column(1)


def check_two_columns(names: Iterable[object]) -> None:
    """`InputError` unless there are two names."""
    names = list(names)
    if len(names) != 2:
        got = ", ".join(map(str, names)) or "none"
        raise InputError(f"a table of counts must have two columns, key and value, got {got}")


def refuse_nulls(column: Any, what: str) -> None:
    """`InputError` with the position of the first null."""
    # A dictionary may have a null among its values, which is no null of the column.
    if column.null_count or import_pyarrow().types.is_dictionary(column.type):
        nulls = column.is_null().to_numpy()
        if not nulls.any():
            return
        position = int(nulls.argmax())
        raise InputError(f"{what} at position {position} is null; drop or fill missing rows first")


def key_ids(space: KeySpace, keys: object) -> Words:
    """The ids of an Arrow column of strings, binaries, integers, or a dictionary of those."""
    column = as_chunked_array(keys)
    refuse_nulls(column, "key")
    if not len(column):  # of any type: an empty column is often of nulls
        return np.empty(0, np.uint64)
    types = import_pyarrow().types
    if space.seed is None and types.is_dictionary(column.type):  # a value that no row has may lie outside
        column = column.cast(column.type.value_type)
    if types.is_integer(column.type):
        return space.integers(column.to_numpy())
    return np.concatenate([_chunk_ids(space, chunk) for chunk in column.chunks])


def _chunk_ids(space: KeySpace, chunk: Any) -> Words:
    pyarrow = import_pyarrow()
    types = pyarrow.types
    kind = chunk.type
    if types.is_dictionary(kind):
        ids: Words = _chunk_ids(space, chunk.dictionary)[chunk.indices.to_numpy()]
        return ids
    if types.is_integer(kind):
        return space.integers(chunk.to_numpy())
    if hasattr(types, "is_string_view") and (types.is_string_view(kind) or types.is_binary_view(kind)):
        chunk = chunk.cast(pyarrow.large_string() if types.is_string_view(kind) else pyarrow.large_binary())
        kind = chunk.type
    text = types.is_string(kind) or types.is_large_string(kind)
    if text or types.is_binary(kind) or types.is_large_binary(kind):
        wide = types.is_large_string(kind) or types.is_large_binary(kind)
        _, offsets, data = chunk.buffers()
        width = np.int64 if wide else np.int32
        offset_array = np.zeros(1, width) if offsets is None else np.frombuffer(offsets, width)
        first = chunk.offset
        used = offset_array[first : first + len(chunk) + 1] if len(chunk) else np.zeros(1, width)
        return space.columns(used, np.frombuffer(data or b"", np.uint8), text)
    raise KeyTypeError(f"keys must be str, bytes or int, got an Arrow column of {kind}")
