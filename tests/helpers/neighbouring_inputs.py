"""The same table of events as every kind of input: files by our own and by other writers,
relations, frames.

The writers here keep to RFC 4180 (a cell with a delimiter, quote or line break is quoted, quotes
are doubled) and to JSON as it is defined, so that what a cell says is not a matter of taste. How a
line is written depends on its row only.
"""

from __future__ import annotations

import gzip
import inspect
import json
import sys
import urllib.parse
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

import sparsedp
from neighbouring_tables import Events, Row

Maker = Callable[[Events, Path], object]

CSV_DAMAGES = ("short", "long", "after a quote", "open quote", "no UTF-8")
JSON_DAMAGES = (
    *("cut", "an array", "no JSON", "two in one line", "no UTF-8", "half a surrogate"),
    *("a name twice", "no key", "nested", "other case"),
)


@dataclass(frozen=True)
class Kind:
    """A kind of input: what its cells are, and how to make it from a table."""

    make: Maker
    cells: str = "text"
    as_text: bool = False  # values too
    several: bool = False  # files
    faithful: bool = True  # whether a cell determines its key
    header: bool = False  # in the first line
    placed: bool = True  # whether rows have a position that a message can name
    damages: tuple[str, ...] = ()
    tables: int = 1  # of a small run
    options: Mapping[str, Any] = field(default_factory=dict)  # of `count`
    key_type: str | None = None  # in place of the one that the table comes with
    several_columns: bool = False  # of the key: the note is the second one
    themes: tuple[str, ...] = ()  # of users and keys


# Text files.


def _quoted(cell: Any, delimiter: str, always: bool) -> str:
    if cell is None:
        return ""
    text = str(cell)
    if always or text == "" or any(sign in text for sign in (delimiter, '"', "\r", "\n")):
        return '"' + text.replace('"', '""') + '"'
    return text


def _record(row: Row, columns: tuple[str, ...], delimiter: str, end: str) -> bytes:
    always = zlib.crc32(str(row).encode()) % 3 == 0 and row.damage is None
    cells = [_quoted(cell, delimiter, always) for cell in row.cells(columns)]
    if row.damage == "short":
        cells.pop()
    elif row.damage == "long":
        cells.append("more")
    elif row.damage == "after a quote":
        cells[0] = f'"{cells[0]}"b'
    elif row.damage == "open quote":
        cells[-1] = f'"{cells[-1]}'
    line = (delimiter.join(cells) + end).encode()
    return line.replace(cells[0].encode(), b"\xff\xfe", 1) if row.damage == "no UTF-8" else line


def _packed(path: Path, content: bytes) -> None:
    if path.suffix == ".gz":
        content = gzip.compress(content, 1, mtime=0)
    elif path.suffix == ".zst":
        content = bytes(pa.Codec("zstd").compress(content))
    path.write_bytes(content)


def _csv(path: Path, rows: Iterable[Row], columns: tuple[str, ...], delimiter: str, end: str, mark: bytes) -> None:
    header = delimiter.join(columns) + end
    _packed(path, mark + header.encode() + b"".join(_record(row, columns, delimiter, end) for row in rows))


def _line(row: Row, columns: tuple[str, ...], ascii_only: bool, scalars: bool) -> bytes:
    cells = dict(zip(columns, row.cells(columns), strict=True))
    if cells["key"] is None and zlib.crc32(str(row).encode()) % 2:
        del cells["key"]  # another way to say null
    if row.damage in ("no JSON", "an array"):
        return b"neither\n" if row.damage == "no JSON" else b"[1, 2]\n"
    if row.damage == "no key":
        del cells["key"]
    elif row.damage == "nested":
        cells["key"] = {"a": [1, 2]}
    elif row.damage == "other case":
        cells["KEY"] = cells.pop("key")
    text = json.dumps(cells, ensure_ascii=ascii_only)
    if scalars and isinstance(row.key, str) and row.key in ("1", "1.0", "1e5", "-0.0", "true", "false", "0", "7"):
        text = text.replace(f'"key": "{row.key}"', f'"key": {row.key}')
    if row.damage == "a name twice":
        text = f'{{"key": "other", {text[1:]}'
    elif row.damage == "cut":
        text = text[:-3]
    elif row.damage == "two in one line":
        text += text
    elif row.damage == "half a surrogate":
        text = text.replace('"key": "', '"key": "\\ud800')
    line = (text + "\n").encode()
    return line.replace(b'"key": "', b'"key": "\xff') if row.damage == "no UTF-8" else line


def csv_files(
    ending: str = ".csv", delimiter: str = ",", end: str = "\n", mark: bytes = b"", listed: bool = False
) -> Maker:
    """CSV by our own writer."""

    def make(events: Events, folder: Path) -> object:
        return _files(
            events, folder, ending, listed, lambda path, rows: _csv(path, rows, events.columns, delimiter, end, mark)
        )

    return make


def json_files(ending: str = ".jsonl", ascii_only: bool = False, scalars: bool = False, listed: bool = False) -> Maker:
    """JSON lines by our own writer."""

    def make(events: Events, folder: Path) -> object:
        def write(path: Path, rows: list[Row]) -> None:
            _packed(path, b"".join(_line(row, events.columns, ascii_only, scalars) for row in rows))

        return _files(events, folder, ending, listed, write)

    return make


def _files(events: Events, folder: Path, ending: str, listed: bool, write: Callable[[Path, list[Row]], None]) -> object:
    paths = []
    for file, rows in events.by_file():
        paths.append(folder / f"{file}{ending}")
        write(paths[-1], rows)
    if events.files == 1:
        return paths[0]
    return paths if listed else str(folder / f"*{ending}")


def csv_of_pandas(events: Events, folder: Path) -> object:
    """CSV by another writer, for which nulls and empty text are the same."""
    pd.DataFrame({name: events.column(name) for name in events.columns}, dtype=object).to_csv(
        folder / "a.csv", index=False
    )
    return folder / "a.csv"


def csv_of_arrow(events: Events, folder: Path) -> object:
    """CSV by another writer, with all text quoted."""
    table = pa.table({name: pa.array(events.column(name), pa.string()) for name in events.columns})
    pyarrow.csv.write_csv(table, folder / "a.csv")
    return folder / "a.csv"


def json_of_pandas(events: Events, folder: Path) -> object:
    """JSON lines by another writer."""
    frame = pd.DataFrame({name: events.column(name) for name in events.columns}, dtype=object)
    frame.to_json(folder / "a.jsonl", orient="records", lines=True)
    return folder / "a.jsonl"


# Typed tables.


def _type_of(cells: str) -> Any:
    types = {"text": pa.string(), "bytes": pa.binary(), "date": pa.date32(), "boolean": pa.bool_()}
    return types.get(cells, pa.int64())


def arrow_table(events: Events, key: Any = None, rows: list[Row] | None = None) -> Any:
    """The table with a stated type of keys."""
    value = pa.float64() if events.real else pa.int64()
    types = {"user": pa.string(), "note": pa.string(), "value": value, "key": key or _type_of(events.cells)}
    found = events.present if rows is None else rows
    return pa.table({name: pa.array([getattr(row, name) for row in found], types[name]) for name in events.columns})


def arrow(key: Any = None, chunks: bool = False, encoded: bool = False) -> Maker:
    """An Arrow table, in one piece or in many, each with its own dictionary."""

    def make(events: Events, folder: Path) -> object:
        if encoded:
            table = arrow_table(events)
            pieces = [table.slice(at, 3) for at in range(0, len(table), 3)] if chunks else [table]
            at = events.columns.index("key")
            done = [piece.set_column(at, "key", piece.column("key").dictionary_encode()) for piece in pieces or [table]]
            return pa.concat_tables(done)
        table = arrow_table(events, key)
        return pa.concat_tables([table.slice(at, 2) for at in range(0, len(table), 2)] or [table]) if chunks else table

    return make


def parquet(key: Any = None, group: int | str = 1 << 20, listed: bool = False, **options: Any) -> Maker:
    """Parquet with row groups of a size, or one for each run of rows of a user."""

    def write(events: Events, path: Path, rows: list[Row]) -> None:
        table = arrow_table(events, key, rows)
        if group != "user":
            pq.write_table(table, path, row_group_size=group, **options)
            return
        with pq.ParquetWriter(path, table.schema, **options) as writer:
            starts = [at for at in range(len(rows)) if not at or rows[at].user != rows[at - 1].user]
            for begin, end in pairwise([*starts, len(rows)]):
                writer.write_table(table.slice(begin, end - begin))

    def make(events: Events, folder: Path) -> object:
        return _files(events, folder, ".parquet", listed, lambda path, rows: write(events, path, rows))

    return make


def hive(events: Events, folder: Path) -> object:
    """Folders named by the key; keys that are too long for a name are left out."""
    columns = [name for name in events.columns if name != "key"]
    names = {
        key: "__HIVE_DEFAULT_PARTITION__" if key is None else urllib.parse.quote(key, safe="")
        for key in sorted({row.key for row in (events.present if events.dropped else events.rows)} or {"none"}, key=str)
    }
    for key, name in names.items():
        if len(name) < 200:
            (folder / f"key={name}").mkdir()
            table = arrow_table(events, rows=[row for row in events.present if row.key == key])
            # A file has at least one column.
            table = table.select(columns).append_column("other", pa.array([0] * len(table), pa.int8()))
            pq.write_table(table, folder / f"key={name}" / "0.parquet")
    return str(folder / "*" / "*.parquet")


@cache
def _database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def relation(kind: str, view: bool = False) -> Maker:
    """A relation whose keys have a DuckDB type; `ENUM` has all keys of the larger table, so it does
    not reveal data.
    """

    def make(events: Events, folder: Path) -> object:
        connection = _database()
        connection.register("arrived", arrow_table(events))
        wanted = kind
        if kind == "ENUM":
            words = sorted({row.key for row in events.rows if row.key is not None} or {""})
            wanted = "ENUM(" + ", ".join("'" + word.replace("'", "''") + "'" for word in words) + ")"
        typed = f"CAST(key AS {wanted})" if kind == "ENUM" else f"CAST(key AS {kind.partition(' ')[0]})"
        others = ", ".join(name for name in events.columns if name != "key")
        connection.execute("DROP VIEW IF EXISTS seen")
        connection.execute(f"CREATE OR REPLACE TABLE events (key {wanted})")
        for name in events.columns:
            if name != "key":
                numbers = "DOUBLE" if events.real else "BIGINT"
                collated = "VARCHAR COLLATE NOCASE" if "COLLATE" in kind and name == "user" else "VARCHAR"
                connection.execute(f"ALTER TABLE events ADD COLUMN {name} {numbers if name == 'value' else collated}")
        chosen = f"{typed} AS key{', ' + others if others else ''}"
        connection.execute(f"INSERT INTO events BY NAME SELECT {chosen} FROM arrived")
        if view:
            connection.execute("CREATE VIEW seen AS FROM events WHERE true")
        return connection.table("seen" if view else "events")

    return make


def pandas(dtype: Any) -> Maker:
    """A DataFrame whose keys and users have this type."""

    def make(events: Events, folder: Path) -> object:
        columns = {name: pd.Series(events.column(name), dtype=object) for name in events.columns}
        columns["key"] = pd.Series([7 if row.damage else row.key for row in events.present], dtype=object)
        frame = pd.DataFrame(columns)
        # Types are those of the larger table: a column of int64 holds no nulls.
        gaps = {name for name in events.columns if any(getattr(row, name) is None for row in events.rows)}
        frame["key"] = frame["key"].astype("Int64" if dtype == "int64" and "key" in gaps else dtype)
        if "user" in frame and events.cells == "text":
            frame["user"] = frame["user"].astype(dtype)
        if "value" in frame:
            kind = "float64" if events.real else "int64"
            frame["value"] = frame["value"].astype(kind.capitalize() if "value" in gaps else kind)
        return frame

    return make


def polars(kind: Any = None, lazy: bool = False) -> Maker:
    """A DataFrame of polars; an `Enum` has all keys of the larger table."""

    def make(events: Events, folder: Path) -> object:
        types: dict[str, Any] = {"user": pl.String, "note": pl.String, "value": pl.Float64 if events.real else pl.Int64}
        text = {"text": pl.String, "bytes": pl.Binary}
        types["key"] = text.get(events.cells, pl.Int64)
        frame = pl.DataFrame(
            {name: pl.Series(name, events.column(name), types[name], strict=True) for name in events.columns}
        )
        wanted = kind
        if kind is pl.Enum:
            wanted = pl.Enum(sorted({row.key for row in events.rows if row.key is not None}))
        frame = frame if kind is None else frame.with_columns(pl.col("key").cast(wanted))
        return frame.lazy() if lazy else frame

    return make


_CSV: dict[str, Any] = {"as_text": True, "header": True, "damages": CSV_DAMAGES, "tables": 2}
_JSON: dict[str, Any] = {"as_text": True, "damages": JSON_DAMAGES, "tables": 2}
KINDS: dict[str, Kind] = {
    "csv": Kind(csv_files(), **_CSV | {"tables": 6}),
    "csv, CRLF": Kind(csv_files(end="\r\n"), **_CSV),
    "csv, BOM": Kind(csv_files(mark=b"\xef\xbb\xbf"), **_CSV),
    "csv.gz": Kind(csv_files(".csv.gz"), **_CSV),
    "csv.zst": Kind(csv_files(".csv.zst"), **_CSV),
    "tsv": Kind(csv_files(".tsv", "\t"), **_CSV),
    "tsv.gz": Kind(csv_files(".tsv.gz", "\t"), **_CSV),
    "tsv.zst": Kind(csv_files(".tsv.zst", "\t"), **_CSV),
    # Before 3.11, Python's own CSV writer cannot write NUL.
    **({"csv of pandas": Kind(csv_of_pandas, header=True, as_text=True)} if sys.version_info >= (3, 11) else {}),
    "csv of Arrow": Kind(csv_of_arrow, header=True, as_text=True),
    "glob of csv": Kind(csv_files(), several=True, **_CSV),
    "list of csv": Kind(csv_files(listed=True), several=True, **_CSV),
    "list of tsv.gz": Kind(csv_files(".tsv.gz", "\t", listed=True), several=True, **_CSV),
    "jsonl": Kind(json_files(), **_JSON | {"tables": 6}),
    "jsonl.gz": Kind(json_files(".jsonl.gz"), **_JSON),
    "jsonl, ASCII": Kind(json_files(ascii_only=True), **_JSON),
    "jsonl, scalars": Kind(json_files(scalars=True), as_text=True, faithful=False),
    "jsonl of pandas": Kind(json_of_pandas, as_text=True),
    "glob of jsonl": Kind(json_files(), several=True, **_JSON),
    "list of jsonl": Kind(json_files(listed=True), several=True, **_JSON),
    "parquet": Kind(parquet()),
    "parquet, groups of 1": Kind(parquet(group=1, use_dictionary=False)),
    "parquet, group per user": Kind(parquet(group="user")),
    "parquet, large_string": Kind(parquet(pa.large_string(), group=3)),
    "parquet, plain": Kind(parquet(use_dictionary=False)),
    "parquet, dictionary": Kind(parquet(pa.dictionary(pa.int32(), pa.string()))),
    "parquet, binary": Kind(parquet(group=2), "bytes"),
    **{f"parquet, {kind}": Kind(parquet(kind, group=4), "integer") for kind in (pa.int8(), pa.uint16(), pa.int32())},
    "parquet, int64": Kind(parquet(), "wide"),
    "parquet, uint64": Kind(parquet(pa.uint64()), "integer"),
    "parquet, date": Kind(parquet(group=2), "date"),
    "parquet, boolean": Kind(parquet(), "boolean"),
    "glob of parquet": Kind(parquet(), several=True),
    "list of parquet": Kind(parquet(listed=True), several=True),
    "relation, VARCHAR": Kind(relation("VARCHAR")),
    "relation, view": Kind(relation("VARCHAR", view=True)),
    "relation, ENUM": Kind(relation("ENUM")),
    "relation, NOCASE": Kind(relation("VARCHAR COLLATE NOCASE"), tables=3),
    "relation, BLOB": Kind(relation("BLOB"), "bytes"),
    "relation, BIGINT": Kind(relation("BIGINT"), "wide"),
    "relation, UTINYINT": Kind(relation("UTINYINT"), "integer"),
    "relation, DATE": Kind(relation("DATE"), "date"),
    "pandas, object": Kind(pandas(object), damages=("an integer",)),
    "pandas, string[python]": Kind(pandas(pd.StringDtype("python"))),
    "pandas, string[pyarrow]": Kind(pandas(pd.StringDtype("pyarrow"))),
    "pandas, category": Kind(pandas("category")),
    "pandas, Arrow string": Kind(pandas(pd.ArrowDtype(pa.string()))),
    "pandas, Arrow large_string": Kind(pandas(pd.ArrowDtype(pa.large_string()))),
    "pandas, Arrow dictionary": Kind(pandas(pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string())))),
    "pandas, bytes": Kind(pandas(object), "bytes"),
    "pandas, int64": Kind(pandas("int64"), "wide"),
    "pandas, Int64": Kind(pandas("Int64"), "integer"),
    "polars, String": Kind(polars()),
    "polars, Categorical": Kind(polars(pl.Categorical)),
    "polars, Enum": Kind(polars(pl.Enum)),
    "polars, Binary": Kind(polars(), "bytes"),
    "polars, Int64": Kind(polars(), "wide"),
    "polars, UInt8": Kind(polars(pl.UInt8), "integer"),
    "LazyFrame, String": Kind(polars(lazy=True)),
    "LazyFrame, Categorical": Kind(polars(pl.Categorical, lazy=True)),
    "LazyFrame, Enum": Kind(polars(pl.Enum, lazy=True)),
    "Arrow, string": Kind(arrow()),
    "Arrow, large_string": Kind(arrow(pa.large_string())),
    "Arrow, string_view": Kind(arrow(pa.string_view())),
    "Arrow, dictionary": Kind(arrow(encoded=True)),
    "Arrow, dictionaries": Kind(arrow(encoded=True, chunks=True)),
    "Arrow, chunks": Kind(arrow(chunks=True)),
    "Arrow, binary": Kind(arrow(), "bytes"),
    "Arrow, date": Kind(arrow(), "date"),
    "Arrow, boolean": Kind(arrow(), "boolean"),
    "Arrow, int64": Kind(arrow(), "wide"),
}
# Keys of several columns, and single ones of dates and timestamps.
_DAYS = ("calendar", "calendar", "calendar", "days")
KINDS |= {
    "csv, two columns": Kind(csv_files(), several_columns=True, **_CSV | {"tables": 4}),
    "csv, days and notes": Kind(csv_files(), several_columns=True, key_type="date", themes=_DAYS, **_CSV),
    "csv, days": Kind(csv_files(), key_type="date", themes=_DAYS, **_CSV),
    "csv, times": Kind(csv_files(), key_type="timestamp[us]", themes=(*("moments",) * 3, "times"), **_CSV),
    "list of csv, two columns": Kind(csv_files(listed=True), several=True, several_columns=True, **_CSV),
    "jsonl, two columns": Kind(json_files(), several_columns=True, **_JSON),
    "jsonl, times and notes": Kind(
        json_files(), several_columns=True, key_type="timestamp[ms, UTC]", themes=(*("instants",) * 3, "times"), **_JSON
    ),
    "parquet, two columns": Kind(parquet(), several_columns=True),
    "parquet, days": Kind(parquet(), "date", key_type="as stored"),
    "parquet, days and notes": Kind(parquet(), "date", key_type="as stored", several_columns=True),
    "relation, ENUM and notes": Kind(relation("ENUM"), several_columns=True),
    "relation, collated and notes": Kind(relation("VARCHAR COLLATE NOCASE"), several_columns=True),
    "pandas, category and notes": Kind(pandas("category"), several_columns=True),
    "polars, Categorical and notes": Kind(polars(pl.Categorical), several_columns=True),
    "LazyFrame, two columns": Kind(polars(lazy=True), several_columns=True),
    "Arrow, two columns": Kind(arrow(), several_columns=True, tables=3),
    "Arrow, bytes and notes": Kind(arrow(), "bytes", several_columns=True),
    "Arrow, truth values and notes": Kind(arrow(), "boolean", key_type="as stored", several_columns=True),
    "Arrow, integers and notes": Kind(arrow(), "wide", several_columns=True),
}
if "hive" in inspect.signature(sparsedp.count).parameters:
    KINDS["hive"] = Kind(hive, placed=False, tables=3, options={"hive": True})
