"""Columns of Arrow as DuckDB is to read them: columns that it would misread are refused or decoded,
and text and times are checked row by row, because DuckDB takes both as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ..errors import InputError
from ..keys.kinds import UNITS

_KNOWN = ("arrow.uuid", "arrow.bool8", "arrow.json", "arrow.opaque")  # DuckDB has types for them
_DAY_MS = 86_400_000


def decoded(kind: Any) -> Any:
    """The type of the values of dictionaries and of run-end encoding."""
    from pyarrow import types

    while types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        kind = kind.value_type
    return kind


def as_read(kind: Any) -> Any:
    """The type in which a column is given to DuckDB. It reads the codes of dictionaries inside of
    runs, cannot read dictionaries of dictionaries, and converts times that no row refers to.
    """
    import pyarrow
    from pyarrow import types

    plain = decoded(kind)
    if kind == plain:
        return kind
    if types.is_dictionary(kind) and kind.value_type in (pyarrow.string(), pyarrow.large_string()):
        return kind
    if types.is_string_view(plain):  # of which Arrow takes no rows
        return pyarrow.large_string()
    return pyarrow.large_binary() if types.is_binary_view(plain) else plain


def refuse_misread(schema: Any, columns: Iterable[str]) -> None:
    """`InputError` for a column of a type that DuckDB would misread or not read, whatever its rows
    are: an extension type that it does not know, of which it would count what is stored, such as
    the integers of a pandas Period; and nanoseconds with a time zone, which it cuts to microseconds
    before version 2.
    """
    import pyarrow
    from pyarrow import types

    for column in columns:
        kind = decoded(schema.field(column).type)
        if isinstance(kind, pyarrow.BaseExtensionType) and kind.extension_name not in _KNOWN:
            raise InputError(
                f"column {column!r} has the extension type {kind.extension_name}, which cannot be counted; cast it, "
                "e.g. astype('string')"
            )
        if types.is_float16(kind) or types.is_decimal256(kind):
            raise InputError(f"column {column!r} has {kind} values, which DuckDB does not have; cast it")
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


class Checked:
    """Some columns of batches of a schema, as DuckDB is to read them; `InputError` for a column that
    it cannot read.
    """

    def __init__(self, schema: Any, columns: Iterable[str]) -> None:
        import pyarrow

        self._columns = list(dict.fromkeys(columns))
        refuse_misread(schema, self._columns)
        self.schema = pyarrow.schema([(own, as_read(schema.field(own).type)) for own in self._columns])
        self._limits = _narrowed(self.schema)

    def of(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The batches; `InputError` with the first row that has text or a time that is not valid."""
        import pyarrow

        rows = 0
        for batch in batches:
            arrays = [_converted(batch.column(own), self.schema.field(own).type, own) for own in self._columns]
            found = pyarrow.RecordBatch.from_arrays(arrays, schema=self.schema)
            for column in self._columns:
                _refuse_invalid(found.column(column), column, rows)
            _refuse_far(found, self._limits, rows)
            rows += batch.num_rows
            yield found

    def table(self, table: Any) -> Any:
        """A table, whole."""
        import pyarrow

        return pyarrow.Table.from_batches(list(self.of(table.to_batches())), self.schema)


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _converted(column: Any, kind: Any, name: str) -> Any:
    """An array in the type in which it is read."""
    import pyarrow

    try:
        while column.type != kind:
            column = _rows_of_encoded(column)
    except pyarrow.ArrowException:
        raise InputError(f"column {name!r} has codes that its dictionary does not have; fix the table") from None
    return column


def _rows_of_encoded(column: Any) -> Any:
    """The rows of a dictionary or of runs, as they are: text is validated later."""
    import pyarrow
    from pyarrow import types

    if types.is_dictionary(column.type):
        values, places = column.dictionary, column.indices
    else:  # Arrow itself does not decode runs of all types
        ends = column.run_ends.to_numpy()
        values, places = column.values, np.searchsorted(ends, column.offset + np.arange(len(column)), side="right")
    if types.is_string_view(values.type):
        values = values.cast(pyarrow.large_binary()).view(pyarrow.large_string())
    elif types.is_binary_view(values.type):
        values = values.cast(pyarrow.large_binary())
    return values.take(pyarrow.array(places))


def _refuse_invalid(column: Any, name: str, rows: int) -> None:
    """`InputError` with the first row, after so many, that is not what its type says, such as text
    that is not UTF-8: DuckDB believes all of Arrow, and would mix such text up with that of other
    rows.
    """
    from pyarrow import types

    if _is_valid(column):
        return
    if types.is_dictionary(column.type):
        column = _converted(column, decoded(column.type), name)
        if _is_valid(column):  # only a value that no row has is wrong
            return
    first, end = 0, len(column)  # the first row that is wrong is among these
    while end - first > 1:
        middle = (first + end) // 2
        if _is_valid(column.slice(first, middle - first)):
            first = middle
        else:
            end = middle
    wrong = "text that is not valid UTF-8" if _is_text(column.type) else "values that are not valid"
    raise InputError(f"column {name!r} has {wrong}, first in row {rows + first + 1}; fix the table")


def _is_valid(column: Any) -> bool:
    import pyarrow

    try:
        column.validate(full=True)
    except pyarrow.ArrowException:
        return False
    return True


def _narrowed(schema: Any) -> dict[str, int]:
    """The columns of times that DuckDB converts to a type of a smaller range, and the largest number
    that fits.
    """
    from pyarrow import types

    found = {}
    for field in schema:
        if types.is_date64(field.type):
            found[field.name] = ((1 << 31) - 1) * _DAY_MS
        elif types.is_timestamp(field.type) and field.type.tz is not None and UNITS[field.type.unit] < UNITS["us"]:
            found[field.name] = ((1 << 63) - 1) // (UNITS["us"] // UNITS[field.type.unit])
    return found


def _refuse_far(batch: Any, limits: dict[str, int], rows: int) -> None:
    """`InputError` with the first row, after so many, whose time is beyond the limit of its column."""
    import pyarrow
    import pyarrow.compute as pc

    for column, most in limits.items():
        numbers = batch.column(column).cast(pyarrow.int64())
        far = pc.fill_null(pc.or_(pc.less(numbers, -most), pc.greater(numbers, most)), False)
        at = pc.index(far, True).as_py()
        if at >= 0:
            raise InputError(
                f"column {column!r} is infinite or out of range, first in row {rows + at + 1}; fix the table"
            )


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
                    at = rows
                    for batch in opened.iter_batches(columns=list(timed)):
                        _refuse_far(batch, timed, at)
                        at += batch.num_rows
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
