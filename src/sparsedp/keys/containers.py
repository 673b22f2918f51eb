"""What a caller's object is, by its type.

Never by its attributes: `thing.columns` may be a row of a Series with that label, a column of a
DataFrame, or an entry of a dictionary. Libraries that the caller did not import are not imported to
find out.
"""

from __future__ import annotations

import sys
from typing import Any
from weakref import WeakSet

import numpy as np

from ..errors import InputError

# Tables that are not columns: the module, and the names of its classes.
_TABLES = (
    ("pandas", ("DataFrame",)),
    ("polars", ("DataFrame", "LazyFrame")),
    ("pyarrow", ("Table", "RecordBatch", "RecordBatchReader")),
    ("pyarrow.dataset", ("Dataset", "Scanner")),
    ("duckdb", ("DuckDBPyRelation",)),
    ("pyspark.sql", ("DataFrame",)),
)


_streams: WeakSet[Any] = WeakSet()


def has(thing: object, name: str) -> bool:
    """Whether the type of a thing has an attribute, regardless of the labels, columns or entries of
    the thing.
    """
    return hasattr(type(thing), name)


def is_a(thing: object, module: str, name: str) -> bool:
    """Whether this is an instance of a library's class; if it is, the caller has imported the
    library.
    """
    return isinstance(thing, getattr(sys.modules.get(module), name, ()))


def speaks_arrow(thing: object) -> bool:
    """Whether this is a column or a table with Arrow's C interface."""
    return has(thing, "__arrow_c_stream__") or has(thing, "__arrow_c_array__")


def is_numpy_inside(column: Any) -> bool:
    """Whether this is a pandas column backed by a NumPy array."""
    return has(column, "to_numpy") and has(column, "dtype") and isinstance(column.dtype, np.dtype)


def is_pandas(column: Any) -> bool:
    """Whether this is a pandas column that is not a NumPy array: nullable, strings, categories, or
    backed by Arrow.

    Only the Series of pandas 3 support Arrow, so the test is for what every Series, Index and array
    of pandas has.
    """
    if not (has(column, "dtype") and has(column, "isna") and has(column, "to_numpy")):
        return False
    return hasattr(column.dtype, "kind") and not isinstance(column.dtype, np.dtype)


def is_time(column: Any) -> bool:
    """Whether this is a pandas column of times, which may have a time zone."""
    return has(column, "isna") and has(column, "dtype") and getattr(column.dtype, "kind", None) == "M"


def unmasked(array: np.ndarray, what: str) -> np.ndarray:
    """A plain array; `InputError` with the position of the first entry that is masked and so is not
    data.
    """
    if isinstance(array, np.ma.MaskedArray):
        masked = np.ma.getmaskarray(array)
        if array.ndim == 1 and array.dtype.names is None and masked.any():
            raise InputError(f"{what} at position {int(masked.argmax())} is masked; fill or drop masked entries first")
        array = np.ma.getdata(array)
    return np.asarray(array)


def unlabelled(column: Any) -> Any:
    """The array of a pandas column: NumPy and Arrow would mistake labels such as
    `__array_interface__` for methods.
    """
    return column.array if has(column, "array") and has(column, "isna") else column


def is_lazy_frame(table: object) -> bool:
    """Whether this is a polars query that has not run yet."""
    return is_a(table, "polars", "LazyFrame")


def is_dataset(table: object) -> bool:
    """Whether this is a pyarrow Dataset, which can be scanned again and again."""
    return is_a(table, "pyarrow.dataset", "Dataset")


def is_scanner(table: object) -> bool:
    """Whether this is a pyarrow Scanner, which can be read only once."""
    return is_a(table, "pyarrow.dataset", "Scanner")


def is_unread(table: object) -> bool:
    """Whether this is a table that has to be read before it supports Arrow."""
    return is_lazy_frame(table) or is_dataset(table) or is_scanner(table)


def is_table(thing: object) -> bool:
    """Whether this is a table of columns, not a column."""
    return any(is_a(thing, module, name) for module, names in _TABLES for name in names)


def refuse_second_reading(table: object) -> None:
    """`InputError` for a stream of record batches that this process has been given before: it does not
    tell that it is at its end, and would be taken for a table without rows.
    """
    if is_a(table, "pyarrow", "RecordBatchReader"):
        if table in _streams:
            raise InputError(
                "the RecordBatchReader has been read before, and it can be read only once; pass the table that "
                "read_all() of a new one gives"
            )
        _streams.add(table)
