"""Tables in memory and queries of polars: columns by their declared types, and objects of pandas
value by value.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from ..errors import InputError
from ..keys.arrow import column_names, errors_of_polars, read
from ..keys.containers import has, is_a, is_scanner
from .arrow_types import check, in_range, narrowed, refuse_misread
from .scans import Scan, StreamedScan, check_columns, check_places, checked


def of_lazy_frame(connection: Any, frame: Any, columns: list[str], complaints: list[InputError]) -> Scan:
    """The columns of a polars query, in batches if polars can: the result may be larger than
    memory.
    """
    import pyarrow

    polars = sys.modules["polars"]
    check_columns(column_names(frame), columns)
    frame = _selected(frame, columns)
    with errors_of_polars():
        empty = polars.DataFrame(schema=frame.collect_schema()).to_arrow()
    if not has(frame, "collect_batches"):  # polars before 1.34
        table = read(frame).to_arrow()
        check(table, columns)
        connection.register("events", table)
        return checked(connection, "events", columns)
    refuse_misread(empty.schema, columns)
    limits = narrowed(empty.schema, columns)

    def pieces() -> Iterator[Any]:
        try:
            with errors_of_polars():
                found = (batch for piece in frame.collect_batches() for batch in piece.to_arrow().to_batches())
                yield from in_range(found, limits)
        except InputError as error:  # the database would wrap it in a message of its own
            complaints.append(error)
            raise

    def batches() -> Any:
        return pyarrow.RecordBatchReader.from_batches(empty.schema, pieces())

    connection.register("events", empty)
    described = checked(connection, "events", columns)
    return StreamedScan(connection, "events", described.types, batches=batches)


def _selected(frame: Any, columns: list[str]) -> Any:
    """Some of the columns of a polars frame; categories become text."""
    polars = sys.modules["polars"]
    schema = frame.collect_schema()
    for column in columns:
        if schema[column] == polars.Object:
            raise InputError(f"column {column!r} has Python objects, which have no type; cast it to a polars type")
    # Categories differ from batch to batch, and a stream has one type.
    words = polars.col(polars.Categorical, polars.Enum).cast(polars.String)
    return frame.select(polars.selectors.by_name(*columns)).with_columns(words)


def of_dataset(connection: Any, dataset: Any, columns: list[str]) -> Scan:
    """A pyarrow Dataset, which may be larger than memory."""
    check_columns(dataset.schema.names, columns)
    _refuse_twins(dataset.schema.names, columns)
    check(dataset, columns)
    connection.register("events", dataset)
    scan = checked(connection, "events", columns)
    check_places(dataset.schema.names, scan.types, columns)
    return scan


def of_arrow(connection: Any, source: Any, columns: list[str], value: str | None) -> Scan:
    """A table that supports the Arrow interface."""
    if not (has(source, "__arrow_c_stream__") or has(source, "__dataframe__") or is_scanner(source)):
        kinds = "a path, a list of paths, a DuckDB relation, a LazyFrame or Dataset, or a table that supports Arrow"
        raise InputError(f"source must be {kinds} (pandas, polars, pyarrow), got {type(source).__name__}")
    import pyarrow

    pandas = is_a(source, "pandas", "DataFrame")
    try:
        if pandas:
            table = _of_pandas(source, columns, value)
        elif is_a(source, "polars", "DataFrame"):
            check_columns(source.columns, columns)
            table = _selected(source, columns).to_arrow()
        else:
            if is_scanner(source):  # some can be read only once, and a refusal reads again
                source = read(source)
            table = source if isinstance(source, pyarrow.Table) else pyarrow.table(source)
            table = _of_names(table, columns)
    except InputError:
        raise
    except (ValueError, TypeError, NotImplementedError):  # their messages may show a value
        raise InputError(f"source cannot be read as Arrow, got {type(source).__name__}; pass a pyarrow table") from None
    check(table, columns)
    connection.register("events", table)
    return checked(connection, "events", columns, pandas=pandas)


def _of_names(table: Any, columns: list[str]) -> Any:
    """Some of the columns of an Arrow table."""
    check_columns(table.column_names, columns)
    _refuse_twins(table.column_names, columns)
    return table.select(list(dict.fromkeys(columns)))


def _refuse_twins(names: list[Any], columns: list[str]) -> None:
    for column in columns:
        if names.count(column) > 1:
            raise InputError(f"the table has several columns {column!r}; rename all but one")


def _of_pandas(frame: Any, columns: list[str], value: str | None) -> Any:
    import pyarrow

    names = list(frame.columns)
    check_columns([name for name in names if isinstance(name, str)], columns)
    _refuse_twins(names, columns)
    arrays = {}
    for column in columns:
        series = frame[column]
        if series.dtype == object:
            if column == value:
                fix = f"for example with pandas.to_numeric(frame[{column!r}])"
                raise InputError(
                    f"column {column!r} has Python objects, and values to sum must be numbers; cast it, {fix}"
                )
            arrays[column] = _words(series.array, column)
            continue
        categories = getattr(series.dtype, "categories", None)
        if categories is not None and categories.dtype == object:
            _words(categories.array, column, "category")
            arrays[column] = _words(series.astype(object).array, column)  # text even if there is no category
            continue
        try:
            arrays[column] = pyarrow.array(series.array, from_pandas=True)
        except (ValueError, TypeError, NotImplementedError):  # their messages would show a value
            raise InputError(f"column {column!r} of type {series.dtype} cannot be read as Arrow; cast it") from None
    return pyarrow.table(arrays)


def _words(objects: Any, column: str, what: str = "position") -> Any:
    """A column of Python objects that are all text or null, as a column of text.

    Arrow would infer a type from all of them: another row could turn an integer into a float.
    """
    import pyarrow

    missing = objects.isna()
    for at, (one, none) in enumerate(zip(objects, missing, strict=True)):
        if not isinstance(one, str) and not (none is True or bool(none)):
            raise InputError(
                f"column {column!r} has Python objects, and the one at {what} {at} is {type(one).__name__}, not text; "
                f"give it a type, for example with frame[{column!r}].astype('string') or .astype('Int64')"
            )
    try:
        return pyarrow.array(objects, pyarrow.large_string(), from_pandas=True)
    except UnicodeError:
        raise InputError(f"column {column!r} has text that is not valid Unicode: half a surrogate pair") from None
