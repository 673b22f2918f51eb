"""A table of events as a DuckDB relation whose columns are known: files, relations, whatever speaks Arrow."""

from __future__ import annotations

import difflib
import glob
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import _native
from ..errors import InputError, ParameterError

# How files are read, by the end of their name. A text format has no types, so its keys and users are text.
_PACKED = ("", ".gz", ".zst")
_READERS = {
    **{f".{kind}{packed}": "csv" for kind in ("csv", "tsv", "txt") for packed in _PACKED},
    **{f".{kind}{packed}": "json" for kind in ("json", "jsonl", "ndjson") for packed in _PACKED},
    ".parquet": "parquet",
}


DATABASE_SHARE = 0.85  # of the memory that counting may use


@dataclass(frozen=True)
class Table:
    """A table that DuckDB can scan: SQL that names it, the types of its columns, and the connection that knows it."""

    connection: Any
    sql: str
    types: dict[str, str]

    def query(self, sql: str) -> Any:
        """A relation of SQL over this table, which it calls `source`."""
        return self.connection.sql(f"WITH source AS (FROM {self.sql}) {sql}")


def quoted(name: str) -> str:
    """An SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """An SQL string."""
    return "'" + text.replace("'", "''") + "'"


@contextmanager
def open_table(source: object, columns: list[str], memory_limit: str | None) -> Iterator[Table]:
    """The table of a source, with at least the given columns; what it spills to disk is gone afterwards."""
    import duckdb  # here, because it takes a while

    if isinstance(source, duckdb.DuckDBPyRelation):
        if memory_limit is not None:
            raise ParameterError("memory_limit is the connection's own for a DuckDB relation; set it there")
        yield _of_relation(source, columns)
        return
    with tempfile.TemporaryDirectory(prefix="sparsedp-") as spilled, _errors_of(duckdb):
        connection = duckdb.connect()
        try:
            connection.execute("SET autoinstall_known_extensions = false")
            connection.execute(f"SET temp_directory = {literal(spilled)}")
            if "SPARSEDP_THREADS" in os.environ:
                connection.execute(f"SET threads = {_native.thread_count()}")
            if memory_limit is not None:
                _limit_memory(connection, memory_limit)
            yield _of_path(connection, source, columns) if _is_path(source) else _of_arrow(connection, source, columns)
        finally:
            connection.close()


def _limit_memory(connection: Any, limit: object) -> None:
    size = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMGT]i?B)", str(limit))
    if size is None or float(size[1]) <= 0:
        raise ParameterError(f"memory_limit must be a size such as '4GB', got {limit!r}")
    # The rest is for what DuckDB does not count, and for Python.
    connection.execute(f"SET memory_limit = '{float(size[1]) * DATABASE_SHARE:.3f}{size[2]}'")


@contextmanager
def _errors_of(duckdb: Any) -> Iterator[None]:
    """DuckDB's complaints as ours."""
    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise InputError(f"counting needs more memory than memory_limit allows: {_first_line(error)}") from None
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    except duckdb.Error as error:
        raise InputError(f"the table cannot be read: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]


def _is_path(source: object) -> bool:
    return isinstance(source, (str, os.PathLike))


def _of_path(connection: Any, source: Any, columns: list[str]) -> Table:
    pattern = os.fspath(source)
    if os.path.isdir(pattern):
        raise InputError(f"{pattern} is a directory; pass its files, such as {os.path.join(pattern, '*.parquet')}")
    files = [pattern] if os.path.exists(pattern) else sorted(glob.glob(pattern, recursive=True))
    if not files:
        raise InputError(f"there is no file {pattern}")
    readers = {_reader_of(file) for file in files}
    if len(readers) > 1:
        raise InputError(f"{pattern} matches files of several kinds ({', '.join(sorted(readers))}); pass one kind")
    (reader,) = readers
    empty = [file for file in files if os.path.getsize(file) == 0]
    if empty:
        raise InputError(f"{empty[0]} is empty: it has no columns")
    names = "[" + ", ".join(map(literal, files)) + "]"
    if reader == "parquet":
        return _checked(connection, f"read_parquet({names})", columns)
    if reader == "csv":
        return _checked(connection, f"read_csv({names}, header = true, all_varchar = true)", columns)
    _checked(connection, f"read_json({names}, records = true)", columns)
    as_text = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in columns)
    return _checked(connection, f"read_json({names}, records = true, columns = {{{as_text}}})", columns)


def _reader_of(file: str) -> str:
    name = Path(file).name.lower()
    for ending, reader in sorted(_READERS.items(), key=lambda item: -len(item[0])):
        if name.endswith(ending):
            return reader
    endings = ".parquet, .csv, .tsv, .txt, .json, .jsonl or .ndjson (the text formats also in .gz or .zst)"
    raise InputError(f"the name of {file} must end in {endings}")


def _of_relation(relation: Any, columns: list[str]) -> Table:
    types = dict(zip(relation.columns, map(str, relation.types), strict=True))
    check_columns(types, columns)
    return _RelationTable(relation, "source", types)


class _RelationTable(Table):
    """A relation of the caller's own connection."""

    def query(self, sql: str) -> Any:
        return self.connection.query("source", sql)


def _of_arrow(connection: Any, source: object, columns: list[str]) -> Table:
    if not hasattr(source, "__arrow_c_stream__") and not hasattr(source, "__dataframe__"):
        kinds = "a path, a DuckDB relation, or a table that speaks Arrow (pandas, polars, pyarrow)"
        raise InputError(f"source must be {kinds}, got {type(source).__name__}")
    import pyarrow

    try:
        table = source if isinstance(source, pyarrow.Table) else pyarrow.table(source)
    except (ValueError, TypeError, NotImplementedError) as error:
        raise InputError(f"the table cannot be read as Arrow: {error}") from None
    connection.register("events", table)
    return _checked(connection, "events", columns)


def _checked(connection: Any, sql: str, columns: list[str]) -> Table:
    described = connection.sql(f"DESCRIBE FROM {sql}").fetchall()
    types = {row[0]: row[1] for row in described}
    check_columns(types, columns)
    return Table(connection, sql, types)


def check_columns(types: dict[str, str], columns: list[str]) -> None:
    """`InputError` with the nearest names unless the table has the columns."""
    for column in columns:
        if column not in types:
            near = difflib.get_close_matches(column, types, n=3, cutoff=0.5)
            hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"it has {', '.join(map(repr, types))}"
            raise InputError(f"there is no column {column!r} in the table; {hint}")
