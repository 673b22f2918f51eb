"""Columns of Arrow and Parquet that DuckDB would misread or refuse without a row: extension types, and
times that do not fit its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..errors import InputError
from ..keys.kinds import UNITS

_KNOWN = ("arrow.uuid", "arrow.bool8", "arrow.json", "arrow.opaque")  # DuckDB has types for them
_DAY_MS = 86_400_000


def refuse_misread(schema: Any, columns: Iterable[str]) -> None:
    """`InputError` for a column of a type that DuckDB would misread whatever its rows are: an
    extension type that it does not know, of which it would count what is stored, such as the
    integers of a pandas Period; and nanoseconds with a time zone, which it cuts to microseconds
    before version 2.
    """
    import pyarrow

    for column in columns:
        kind = schema.field(column).type
        if pyarrow.types.is_dictionary(kind):
            kind = kind.value_type
        if isinstance(kind, pyarrow.BaseExtensionType) and kind.extension_name not in _KNOWN:
            raise InputError(
                f"column {column!r} has the extension type {kind.extension_name}, which cannot be counted; cast it, "
                "e.g. astype('string')"
            )
        if is_cut_to_microseconds(kind):
            raise InputError(
                f"column {column!r} has nanoseconds with a time zone, which this version of DuckDB cuts to "
                "microseconds; cast it to microseconds (in pandas with .dt.as_unit('us')), or install duckdb>=2, "
                "which needs Python 3.11"
            )


def is_cut_to_microseconds(kind: Any) -> bool:
    """Whether this is a type of nanoseconds that the installed DuckDB has no type for."""
    import duckdb
    from pyarrow import types

    is_old = int(duckdb.__version__.split(".")[0]) < 2
    return is_old and types.is_timestamp(kind) and kind.unit == "ns" and kind.tz is not None


def narrowed(schema: Any, columns: Iterable[str]) -> dict[str, int]:
    """The columns of times that DuckDB converts to a type of a smaller range, and the largest number
    that fits.
    """
    from pyarrow import types

    found = {}
    for column in columns:
        kind = schema.field(column).type
        if types.is_date64(kind):
            found[column] = ((1 << 31) - 1) * _DAY_MS
        elif types.is_timestamp(kind) and kind.tz is not None and UNITS[kind.unit] < UNITS["us"]:
            found[column] = ((1 << 63) - 1) // (UNITS["us"] // UNITS[kind.unit])
    return found


def in_range(batches: Iterable[Any], limits: dict[str, int], rows: int = 0) -> Iterator[Any]:
    """The batches, after so many rows; `InputError` with the first row whose time is beyond the limit
    of its column.
    """
    import pyarrow
    import pyarrow.compute as pc

    for batch in batches:
        for column, most in limits.items():
            numbers = batch.column(column).cast(pyarrow.int64())
            far = pc.fill_null(pc.or_(pc.less(numbers, -most), pc.greater(numbers, most)), False)
            at = pc.index(far, True).as_py()
            if at >= 0:
                raise InputError(
                    f"column {column!r} is infinite or out of range, first in row {rows + at + 1}; fix the table"
                )
        rows += batch.num_rows
        yield batch


def check_parquet(files: Iterable[str], columns: Iterable[str]) -> None:
    """`InputError` for columns of times in Parquet files that DuckDB would misread, with the first row
    whose milliseconds do not fit the microseconds in which DuckDB reads them. Only files whose
    statistics do not exclude such rows are read.
    """
    import pyarrow
    from pyarrow import parquet, types

    most, rows = ((1 << 63) - 1) // 1000, 0
    for file in files:
        try:
            with open(file, "rb") as raw, parquet.ParquetFile(raw) as opened:  # a name is not an address
                schema = opened.schema_arrow
                refuse_misread(schema, [column for column in columns if column in schema.names])
                timed = {
                    column: most
                    for column in columns
                    if column in schema.names
                    and types.is_timestamp(kind := schema.field(column).type)
                    and kind.unit == "ms"
                }
                if timed and not _is_stated_within(opened.metadata, timed):
                    for _ in in_range(opened.iter_batches(columns=list(timed)), timed, rows):
                        pass
                rows += opened.metadata.num_rows
        except (pyarrow.ArrowException, OSError):  # DuckDB says what is wrong with the file
            return


def _is_stated_within(metadata: Any, limits: dict[str, int]) -> bool:
    """Whether the statistics of a Parquet file exclude numbers beyond the limits of its columns."""
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for chunk in map(group.column, range(group.num_columns)):
            most = limits.get(chunk.path_in_schema)
            if most is None:
                continue
            stated = chunk.statistics
            is_empty = stated is not None and stated.has_null_count and stated.null_count == chunk.num_values
            if is_empty:
                continue
            if stated is None or not stated.has_min_max or not -most <= stated.min_raw <= stated.max_raw <= most:
                return False
    return True


def check(table: Any, columns: Iterable[str]) -> None:
    """`InputError` for a column of a pyarrow Table or Dataset that DuckDB would misread."""
    import pyarrow

    columns = list(dict.fromkeys(columns))
    refuse_misread(table.schema, columns)
    limits = narrowed(table.schema, columns)
    if not limits:
        return
    try:
        batches = table.to_batches() if isinstance(table, pyarrow.Table) else table.to_batches(columns=list(limits))
        for _ in in_range(batches, limits):
            pass
    except (pyarrow.ArrowException, OSError):  # their messages may show a value
        kind = type(table).__name__
        raise InputError(f"the {kind} cannot be read; to_table() shows why, with cells of the data") from None
