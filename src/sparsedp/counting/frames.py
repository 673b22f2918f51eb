"""Tables in memory and queries of polars: columns by their declared types, and objects of pandas
value by value.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

from ..errors import InputError
from ..keys.arrow import as_arrow, column_names, errors_of_arrow, errors_of_polars, read
from ..keys.containers import has, is_a, is_scanner
from .arrow_types import Checked
from .scans import Scan, StreamedScan, check_columns, checked


def of_lazy_frame(connection: Any, frame: Any, columns: list[str], complaints: list[InputError]) -> Scan:
    """The columns of a polars query, in batches if polars can: the result may be larger than
    memory.
    """
    polars = sys.modules["polars"]
    check_columns(column_names(frame), columns)
    frame = _selected(frame, columns)
    with errors_of_polars():
        empty = polars.DataFrame(schema=frame.collect_schema())
    reading = Checked(as_arrow(empty).schema, columns)
    if not has(frame, "collect_batches"):  # polars before 1.34
        connection.register("events", reading.table(as_arrow(read(frame))))
        return checked(connection, "events", columns)

    def pieces() -> Iterator[Any]:
        with errors_of_polars():
            for piece in frame.collect_batches():
                yield from as_arrow(piece).to_batches()

    return _streamed(connection, reading, pieces, complaints)


def _streamed(
    connection: Any, reading: Checked, pieces: Callable[[], Iterator[Any]], complaints: list[InputError]
) -> Scan:
    """Batches that are read anew for each query."""
    import pyarrow

    def told() -> Iterator[Any]:
        try:
            yield from reading.of(pieces())
        except InputError as error:  # the database would wrap it in a message of its own
            complaints.append(error)
            raise

    def batches() -> Any:
        return pyarrow.RecordBatchReader.from_batches(reading.schema, told())

    connection.register("events", reading.schema.empty_table())
    described = checked(connection, "events", reading.schema.names)
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


def of_dataset(connection: Any, dataset: Any, columns: list[str], complaints: list[InputError]) -> Scan:
    """A pyarrow Dataset, which may be larger than memory."""
    from pyarrow.compute import field

    check_columns(dataset.schema.names, columns)
    _refuse_twins(dataset.schema.names, dataset.schema.names)  # with any twins Arrow scans no column
    reading = Checked(dataset.schema, columns)
    fields = {name: field(name) for name in reading.schema.names}  # by name: a dot in it does not lead inside

    def pieces() -> Iterator[Any]:
        with errors_of_arrow(dataset):
            yield from dataset.to_batches(columns=fields)

    return _streamed(connection, reading, pieces, complaints)


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
            table = as_arrow(_selected(source, columns))
        else:
            if is_scanner(source):  # some can be read only once, and a refusal reads again
                source = read(source)
            table = source if isinstance(source, pyarrow.Table) else pyarrow.table(source)
            table = _of_names(table, columns)
    except InputError:
        raise
    except (ValueError, TypeError, NotImplementedError):  # their messages may show a value
        raise InputError(f"source cannot be read as Arrow, got {type(source).__name__}; pass a pyarrow table") from None
    connection.register("events", Checked(table.schema, columns).table(table))
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
