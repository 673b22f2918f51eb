"""A table of events as a DuckDB relation with known columns: files, relations, polars, anything
that supports Arrow.

How a row is read depends on that row and on what is public: names and types of columns, and how
files are written.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .. import _native
from ..errors import InputError, ParameterError
from ..keys.containers import is_dataset, is_lazy_frame, refuse_second_reading
from .files import Reading, listed, matching, of_files
from .frames import of_arrow, of_dataset, of_lazy_frame
from .scans import RelationScan, Scan, check_columns, literal

DATABASE_SHARE = 0.85  # of the memory that counting may use

_INTERRUPTED = "Query interrupted"  # what DuckDB raises for any exception of a signal handler


@contextmanager
def open_table(
    source: object,
    columns: list[str],
    memory_limit: str | None,
    reading: Reading | None = None,
    value: str | None = None,
) -> Iterator[Scan]:
    """The table of a source, with at least the given columns; anything spilled to disk is removed
    afterwards.
    """
    import duckdb

    reading = reading or Reading()
    if reading.stated and not _is_path(source) and not isinstance(source, (list, tuple)):
        raise ParameterError(f"{reading.stated[0]} is for files, and source is {type(source).__name__}; omit it")
    if isinstance(source, duckdb.DuckDBPyRelation):
        if memory_limit is not None:
            raise ParameterError("memory_limit of a DuckDB relation is that of its connection; set it there")
        with _errors_of(duckdb, []):
            yield _of_relation(source, columns)
        return
    complaints: list[InputError] = []
    with tempfile.TemporaryDirectory(prefix="sparsedp-") as spilled, _errors_of(duckdb, complaints):
        connection = new_database()
        try:
            connection.execute("SET autoinstall_known_extensions = false")
            connection.execute(f"SET temp_directory = {literal(spilled)}")
            if "SPARSEDP_THREADS" in os.environ:
                connection.execute(f"SET threads = {_native.thread_count()}")
            if memory_limit is not None:
                _limit_memory(connection, memory_limit)
            yield _open(connection, source, columns, reading, value, complaints)
        finally:
            _close(duckdb, connection)


def new_database() -> Any:
    """A connection to a database in memory that nobody else has."""
    import duckdb

    return duckdb.connect()


def _close(duckdb: Any, connection: Any) -> None:
    """Close a connection whose last query may have been interrupted and still be ending: until then it
    refuses.
    """
    for wait in (*[0.01] * 100, None):
        try:
            connection.close()
            return
        except duckdb.Error:
            if wait is None:
                raise
            time.sleep(wait)


def _limit_memory(connection: Any, limit: object) -> None:
    size = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMGT]i?B)", str(limit))
    if size is None or float(size[1]) <= 0:
        raise ParameterError(f"memory_limit must be a size such as '4GB', got {limit!r}")
    # The rest is for Python, and for memory that DuckDB does not account for.
    connection.execute(f"SET memory_limit = '{float(size[1]) * DATABASE_SHARE:.3f}{size[2]}'")


@contextmanager
def _errors_of(duckdb: Any, complaints: list[InputError]) -> Iterator[None]:
    """Turn errors of DuckDB into ours; those of a stream that it read are ours already."""
    try:
        yield
    except duckdb.OutOfMemoryException:
        raise InputError(
            "counting needs more memory than memory_limit allows; raise the limit, or lower it if it is more "
            "than this machine has"
        ) from None
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    except RuntimeError as error:
        if str(error) == _INTERRUPTED:
            raise KeyboardInterrupt from None
        raise
    except duckdb.Error as error:
        if complaints:
            raise complaints[0] from None
        kind = type(error).__name__.removesuffix("Exception")
        raise InputError(f"the table cannot be read: {_without_cells(kind, str(error))}") from None


# Errors about names, files and SQL. The messages of all others may show what was read.
_OF_NO_ROW = {"Binder", "Catalog", "Connection", "HTTP", "IO", "NotImplemented", "Parser", "Permission"}


def _without_cells(kind: str, text: str) -> str:
    """The error of a database without what it read: lines of the table must not get into logs."""
    if "maximum_object_size" in text:
        return "a JSON record has over 16 MB, the most; shorten it, or leave it out"
    if malformed := re.search(r'(?:JSON in file|transform error in file) "(.*?)"', text):
        place = re.search(r"in (line|record/value) (\d+)", text)
        near = f" near line {place[2]}" if place else ""
        return f"{malformed[1]} is malformed{near}; it must contain JSON objects, one per line or all in one array"
    first = re.sub(r"^(\w+ )+Error: ", "", text.strip().split("\n")[0])
    is_cast = re.search("could not convert|failed to cast|out of range|conversion|casting", first, re.IGNORECASE)
    if is_cast or kind in ("Conversion", "OutOfRange"):
        return "a value cannot be converted to the type of its column"
    if re.search("invalid (string|unicode|value)|not valid UTF", first, re.IGNORECASE):
        return "text of a column is not valid UTF-8"
    if kind in _OF_NO_ROW:
        return first
    return f"{kind} error of the database; read the table with DuckDB alone to see why, with cells of the data"


def _open(
    connection: Any,
    source: Any,
    columns: list[str],
    reading: Reading,
    value: str | None,
    complaints: list[InputError],
) -> Scan:
    if _is_path(source):
        pattern = os.fsdecode(source)
        return of_files(connection, matching(pattern), columns, pattern, reading, complaints)
    if isinstance(source, (list, tuple)) and all(map(_is_path, source)):
        files = listed([os.fsdecode(path) for path in source])
        return of_files(connection, files, columns, None, reading, complaints)
    if is_lazy_frame(source):
        return of_lazy_frame(connection, source, columns, complaints)
    if is_dataset(source):
        return of_dataset(connection, source, columns, complaints)
    refuse_second_reading(source)
    return of_arrow(connection, source, columns, value)


def _is_path(source: object) -> bool:
    return isinstance(source, (str, os.PathLike))


def _of_relation(relation: Any, columns: list[str]) -> Scan:
    types = dict(zip(relation.columns, map(str, relation.types), strict=True))
    check_columns(types, columns)
    return RelationScan(relation, "source", types)
