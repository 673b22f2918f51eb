"""A table of events as a DuckDB relation whose columns are known: files, relations, polars, whatever speaks Arrow."""

from __future__ import annotations

import csv
import difflib
import glob
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import _native
from ..arrow import column_names, errors_of_polars, read
from ..containers import has, is_dataset, is_lazy_frame, is_scanner
from ..errors import InputError, ParameterError, reason_of

# How files are read, by the end of their name. A text format has no types, so its keys and users are text.
_PACKED = ("", ".gz", ".zst")
_READERS = {
    **{f".{kind}{packed}": "csv" for kind in ("csv", "tsv", "txt") for packed in _PACKED},
    **{f".{kind}{packed}": "json" for kind in ("json", "jsonl", "ndjson") for packed in _PACKED},
    ".parquet": "parquet",
}


_LONGEST_HEADER = 1 << 20
DATABASE_SHARE = 0.85  # of the memory that counting may use


@dataclass(frozen=True)
class Table:
    """A table that DuckDB can scan: SQL that names it, the types of its columns, and the connection that knows it."""

    connection: Any
    sql: str
    types: dict[str, str]
    path: str | None = None  # or glob, as it was given

    def query(self, sql: str) -> Any:
        """A relation of SQL over this table, which it calls `source`."""
        return self.connection.sql(f"WITH source AS (FROM {self.sql}) {sql}")

    def cast(self, column: str, kind: str) -> str:
        """Words that say how to give a column another type: a line that can be run."""
        cast = f"SELECT * REPLACE (CAST({quoted(column)} AS {kind}) AS {quoted(column)}) FROM"
        if self.path is None:
            return f'cast it, for example with duckdb.sql("""{cast} …""")'
        copy = f"COPY ({cast} {literal(self.path)}) TO 'cast.parquet'"
        return f'cast it, for example with duckdb.sql("""{copy}""")'


def quoted(name: str) -> str:
    """An SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """An SQL string."""
    return "'" + text.replace("'", "''") + "'"


@contextmanager
def open_table(source: object, columns: list[str], memory_limit: str | None) -> Iterator[Table]:
    """The table of a source, with at least the given columns; what it spills to disk is gone afterwards."""
    import duckdb

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
            yield _open(connection, source, columns)
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
    except duckdb.OutOfMemoryException:
        raise InputError(
            "counting needs more memory than memory_limit allows; raise it, or lower it if it is more "
            "than this machine has"
        ) from None
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    except duckdb.Error as error:
        raise InputError(f"the table cannot be read: {_without_cells(str(error))}") from None


# DuckDB quotes the line that it stumbles over. Lines of the table must not get into logs: only where, and why.
_CSV_REASONS = {
    r"Expected Number of Columns: (\d+) Found: (\d+)": r"it has \2 columns instead of \1",
    r"Invalid unicode": "it is no valid UTF-8",
    r"quote": "a quote is not closed, or something follows it",
    r"Maximum line size of (\d+) bytes": r"it is longer than \1 bytes",
}


def _without_cells(text: str) -> str:
    """What a database complains about, without what it read."""
    if line := re.search(r"CSV Error on Line: (\d+)", text):
        explained = re.sub(r"Original Line:.*?\n", "", text[line.end() :]).partition("Possible ")[0]
        for sign, words in _CSV_REASONS.items():
            if found := re.search(sign, explained):
                return f"line {line[1]}: {found.expand(words)}"
        return f"line {line[1]} is malformed"
    if sniffed := re.search(r'Error when sniffing file "(.*?)"', text):
        return f"{sniffed[1]} has rows of different numbers of columns, or a quote that is not closed"
    first = re.sub(r"^(\w+ )+Error: ", "", text.strip().split("\n")[0])
    if re.search("could not convert|failed to cast|out of range|conversion|casting", first, re.IGNORECASE):
        return "a value cannot be converted to the type of its column"
    return first


def _open(connection: Any, source: Any, columns: list[str]) -> Table:
    if _is_path(source):
        pattern = os.fsdecode(source)
        return _of_files(connection, _matching(pattern), columns, pattern)
    if isinstance(source, (list, tuple)) and all(map(_is_path, source)):
        return _of_files(connection, _listed([os.fsdecode(path) for path in source]), columns, None)
    if is_lazy_frame(source):
        return _of_lazy_frame(connection, source, columns)
    if is_dataset(source):
        connection.register("events", source)
        return _checked(connection, "events", columns)
    return _of_arrow(connection, source, columns)


def _is_path(source: object) -> bool:
    return isinstance(source, (str, os.PathLike))


def _matching(pattern: str) -> list[str]:
    """The file of that name, or else the files that match."""
    if os.path.isdir(pattern):
        raise InputError(f"{pattern} is a directory; pass its files, such as {os.path.join(pattern, '*.parquet')}")
    if scheme := re.match(r"(?!file:)([a-zA-Z][a-zA-Z0-9+.-]+)://", pattern):
        raise InputError(
            f"files are read from this machine only, and {pattern} is on {scheme[1]}; download it first, mount it, or "
            "in Python pass a DuckDB relation that reads it to sparsedp.count"
        )
    files = [pattern] if os.path.exists(pattern) else sorted(glob.glob(pattern, recursive=True))
    if not files:
        raise InputError(f"there is no file {pattern}")
    return files


def _listed(files: list[str]) -> list[str]:
    """The files of exactly these names."""
    if not files:
        raise InputError("source must have at least one file, got an empty list of paths")
    for file in files:
        if os.path.isdir(file):
            raise InputError(f"{file} is a directory; list its files")
        if not os.path.exists(file):
            hint = "; a pattern stands alone, not in a list" if glob.has_magic(file) else ""
            raise InputError(f"there is no file {file}{hint}")
    same = {os.path.realpath(file) for file in files}
    if len(same) < len(files):
        raise InputError("a file is listed twice, and its events would count twice; list every file once")
    return files


def _of_files(connection: Any, files: list[str], columns: list[str], pattern: str | None) -> Table:
    readers = {_reader_of(file) for file in files}
    if len(readers) > 1:
        kinds = ", ".join(sorted(readers))
        raise InputError(f"files must be of one kind, got several kinds ({kinds}), such as {files[0]}; pass one kind")
    (reader,) = readers
    empty = [file for file in files if os.path.getsize(file) == 0]
    if empty:
        raise InputError(f"{empty[0]} is empty: it has no columns")
    names = "[" + ", ".join(literal(_as_pattern(file)) for file in files) + "]"
    if reader == "parquet":
        return _checked(connection, f"read_parquet({names})", columns, pattern)
    if reader == "csv":
        # Everything is stated: a guess by the database depends on the rows, and takes one of them for the header.
        dialect = f"delim = {literal(_delimiter(files[0], columns))}, quote = '\"', escape = '\"', skip = 0"
        options = f"header = true, all_varchar = true, {dialect}"
        return _checked(connection, f"read_csv({names}, {options})", columns, pattern, "the first line of the file")
    _checked(connection, f"read_json({names}, records = true)", columns, pattern)
    as_text = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in columns)
    return _checked(connection, f"read_json({names}, records = true, columns = {{{as_text}}})", columns, pattern)


def _delimiter(file: str, columns: list[str]) -> str:
    """What separates the names in the first line, so that the given ones are among them, or else there are most."""
    import pyarrow

    try:
        with pyarrow.input_stream(file) as stream:  # unpacked by the end of its name
            line = stream.read(_LONGEST_HEADER).partition(b"\n")[0].decode("utf-8-sig", errors="replace").rstrip("\r")
    except OSError as error:
        raise InputError(f"{file} cannot be read: {reason_of(error)}") from None
    names = {}
    for delimiter in ",\t;|":
        with suppress(csv.Error):
            names[delimiter] = [name.strip() for name in next(csv.reader([line], delimiter=delimiter), [])]
    for delimiter, found in names.items():
        if columns and {column.strip() for column in columns} <= set(found):
            return delimiter
    return max(names, key=lambda delimiter: len(names[delimiter]), default=",")


def _as_pattern(file: str) -> str:
    """What DuckDB takes for exactly this file: it would look for t1.csv when told t[1].csv."""
    # A first folder that is called ~ or s3: is not the home folder nor a bucket.
    return glob.escape(os.path.abspath(file) if file.startswith("~") or ":" in file else file)


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


@dataclass(frozen=True)
class _StreamedTable(Table):
    """A table that is streamed anew into each query, since a stream can be read once."""

    batches: Callable[[], Any] = field(kw_only=True)

    def query(self, sql: str) -> Any:
        self.connection.register(self.sql, self.batches())
        return super().query(sql)


def _of_lazy_frame(connection: Any, frame: Any, columns: list[str]) -> Table:
    """The columns of a query of polars, batch by batch where polars can: it may be larger than memory."""
    import pyarrow

    polars = sys.modules["polars"]
    check_columns(dict.fromkeys(column_names(frame), ""), columns)
    # Categories differ from batch to batch, and a stream has one type.
    words = polars.col(polars.Categorical, polars.Enum).cast(polars.String)
    frame = frame.select(polars.selectors.by_name(*columns)).with_columns(words)
    with errors_of_polars():
        empty = polars.DataFrame(schema=frame.collect_schema()).to_arrow()
    if not has(frame, "collect_batches"):  # polars before 1.34
        connection.register("events", read(frame).to_arrow())
        return _checked(connection, "events", columns)

    def batches() -> Any:
        pieces = (batch for piece in frame.collect_batches() for batch in piece.to_arrow().to_batches())
        return pyarrow.RecordBatchReader.from_batches(empty.schema, pieces)

    connection.register("events", empty)
    described = _checked(connection, "events", columns)
    return _StreamedTable(connection, "events", described.types, batches=batches)


def _of_arrow(connection: Any, source: Any, columns: list[str]) -> Table:
    if not (has(source, "__arrow_c_stream__") or has(source, "__dataframe__") or is_scanner(source)):
        kinds = "a path, a list of paths, a DuckDB relation, a LazyFrame or Dataset, or a table that speaks Arrow"
        raise InputError(f"source must be {kinds} (pandas, polars, pyarrow), got {type(source).__name__}")
    import pyarrow

    try:
        if is_scanner(source):  # some can be read once, and a refusal reads again
            source = read(source)
        table = source if isinstance(source, pyarrow.Table) else pyarrow.table(source)
    except (ValueError, TypeError, NotImplementedError) as error:
        raise InputError(f"the table cannot be read as Arrow: {error}") from None
    connection.register("events", table)
    return _checked(connection, "events", columns)


def _checked(
    connection: Any, sql: str, columns: list[str], path: str | None = None, names_in: str | None = None
) -> Table:
    described = connection.sql(f"DESCRIBE FROM {sql}").fetchall()
    types = {row[0]: row[1] for row in described}
    check_columns(types, columns, names_in)
    return Table(connection, sql, types, path)


def check_columns(types: dict[str, str], columns: list[str], names_in: str | None = None) -> None:
    """`InputError` with the nearest names unless the table has the columns.

    `names_in` is where names were taken from that may be none: of a file without a header they are data, not shown.
    """
    for column in columns:
        if column not in types:
            near = difflib.get_close_matches(column, types, n=3, cutoff=0.5)
            hint = f"it has {', '.join(map(repr, types))}"
            if names_in is not None:
                hint = f"its columns are named by {names_in}; is there such a line?"
            if near:
                hint = f"did you mean {' or '.join(map(repr, near))}?"
            raise InputError(f"there is no column {column!r} in the table; {hint}")
