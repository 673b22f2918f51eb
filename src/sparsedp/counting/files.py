"""Files, by the extension of their names, read as stated: no dialect, type or folder is guessed
from rows.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from ..errors import InputError, ParameterError
from .arrow_types import check_parquet
from .json_files import begins_with_bracket, check_records, packing_of
from .scans import (
    Scan,
    StreamedScan,
    case_twin,
    check_columns,
    check_places,
    checked,
    described,
    literal,
    nearest,
    quoted,
)
from .separated import Dialect, batches_of, header_of

# How files are read, by their extension. Text formats have no types, so their keys and users are
# text.
_PACKED = ("", ".gz", ".zst")
_READERS = {
    **{f".{kind}{packed}": "csv" for kind in ("csv", "tsv", "txt") for packed in _PACKED},
    **{f".{kind}{packed}": "json" for kind in ("json", "jsonl", "ndjson") for packed in _PACKED},
    ".parquet": "parquet",
}
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class Reading:
    """What a caller states about files: public, and the same for all rows. None means the default
    of the format.
    """

    delimiter: str | None = None
    quote: str | None = None
    encoding: str | None = None
    hive: bool = False

    def __post_init__(self) -> None:
        for name in ("delimiter", "quote", "encoding"):
            if not isinstance(getattr(self, name), (str, type(None))):
                raise ParameterError(f"{name} must be text, got {getattr(self, name)!r}")
        self.dialect(",")

    @property
    def stated(self) -> list[str]:
        """The options that were given."""
        options = {"delimiter": self.delimiter, "quote": self.quote, "encoding": self.encoding}
        return [*(name for name, given in options.items() if given is not None), *(["hive"] if self.hive else [])]

    def dialect(self, usual: str) -> Dialect:
        """The dialect of separated values, by default with this separator."""
        told = "\t" if self.delimiter == "\\t" else self.delimiter  # as typed in a shell
        quote = '"' if self.quote is None else self.quote
        delimiter = usual if told is None else told
        if told is None and delimiter == quote:
            delimiter = "\t"  # never used for reading: only lets the other options be checked
        return Dialect(delimiter, quote, (self.encoding or "utf-8").lower())


def matching(pattern: str) -> list[str]:
    """The file of that name, or otherwise the files that match."""
    if os.path.isdir(pattern):
        raise InputError(f"{pattern} is a directory; pass its files, such as {os.path.join(pattern, '*.parquet')}")
    _refuse_remote(pattern)
    files = [pattern] if os.path.exists(pattern) else sorted(glob.glob(pattern, recursive=True))
    if not files:
        _refuse_hidden_folder(pattern)
        raise InputError(f"there is no file {pattern}")
    return files


def _refuse_remote(path: str) -> None:
    if scheme := re.match(r"(?!file:)([a-zA-Z][a-zA-Z0-9+.-]+)://", path):
        raise InputError(
            f"files are read from this machine only, and {path} is on {scheme[1]}; download it first, mount it, or "
            "in Python pass a DuckDB relation that reads it to sparsedp.count"
        )


def _refuse_hidden_folder(path: str) -> None:
    """`InputError` for what cannot be seen, as its folder may not be entered."""
    try:
        os.stat(path)
    except PermissionError as error:
        raise InputError(f"{path} cannot be seen: {error.strerror}; ask for the right to enter its folder") from None
    except OSError:
        return


def listed(files: list[str]) -> list[str]:
    """The files of exactly these names."""
    if not files:
        raise InputError("source must have at least one file, got an empty list of paths")
    for file in files:
        if os.path.isdir(file):
            raise InputError(f"{file} is a directory; list its files")
        _refuse_remote(file)
        if not os.path.exists(file):
            _refuse_hidden_folder(file)
            hint = "; pass a pattern alone, not in a list" if glob.has_magic(file) else ""
            raise InputError(f"there is no file {file}{hint}")
    same = {os.path.realpath(file) for file in files}
    if len(same) < len(files):
        raise InputError("a file is listed twice, and its events would count twice; list every file once")
    return files


def of_files(
    connection: Any,
    files: list[str],
    columns: list[str],
    pattern: str | None,
    reading: Reading,
    complaints: list[InputError],
) -> Scan:
    """The table in files of one kind; errors raised while they are streamed are appended to
    `complaints`.
    """
    kinds = {_kind_of(file)[0] for file in files}
    if len(kinds) > 1:
        several = ", ".join(sorted(kinds))
        raise InputError(f"files must be of one kind, got several kinds ({several}), such as {files[0]}; pass one kind")
    (kind,) = kinds
    others = [name for name in reading.stated if name != "hive"]
    if kind != "csv" and others:
        raise ParameterError(f"{others[0]} is for CSV files, and {files[0]} is not one; omit it")
    folders = _folders(files, reading.hive)
    for column in columns:
        if twin := case_twin(column, folders[0]):
            raise InputError(f"there is a folder {twin}=…, and {column!r} differs from it only in case; rename one")
    if kind == "csv":
        return _separated(connection, files, columns, reading, folders, complaints)
    hive = "true, hive_types_autocast = false" if reading.hive else "false"
    own = [column for column in columns if column not in folders[0]]
    sql = _parquet(connection, files, own, hive, folders) if kind == "parquet" else _json(files, columns, own, hive)
    return checked(connection, sql, columns, pattern)


def _kind_of(file: str) -> tuple[str, str]:
    """How a file is read, and its extension."""
    name = Path(file).name.lower()
    for ending, reader in sorted(_READERS.items(), key=lambda item: -len(item[0])):
        if name.endswith(ending):
            return reader, re.sub(r"\.(gz|zst)$", "", ending)
    endings = ".parquet, .csv, .tsv, .txt, .json, .jsonl or .ndjson (text formats also with .gz or .zst)"
    raise InputError(f"the name of {file} must end in {endings}")


def _folders(files: list[str], hive: bool) -> list[dict[str, str | None]]:
    """The columns that folders such as key=value give each file, with `hive`."""
    if not hive:
        return [{} for _ in files]
    each: list[dict[str, str | None]] = []
    for file in files:
        pairs = (part.partition("=") for part in Path(file).parts[:-1] if "=" in part)
        try:
            each.append({_named(name): None if value == _NO_VALUE else _named(value) for name, _, value in pairs})
        except ValueError:
            raise InputError(
                f"with hive=True the names of folders must be one name=value, in UTF-8 with percent signs, and {file} "
                "is in another one; rename its folder"
            ) from None
        if each[-1].keys() != each[0].keys():
            raise InputError(f"with hive=True all files must be in folders of the same names, and {file} is not")
    return each


def _named(text: str) -> str:
    """A part of the name of a folder; `ValueError` for what readers take in different ways."""
    if "=" in text or text == r"\N":
        raise ValueError
    return unquote(text, errors="strict")


def _refuse_hidden(names: list[str], folders: list[dict[str, str | None]], file: str) -> None:
    for name in folders[0]:
        if name in names or case_twin(name, names):
            raise InputError(f"{file} has a column {name!r} and is in a folder {name}=…; rename one, or omit hive=")


def _as_pattern(file: str) -> str:
    """A pattern that matches exactly this file: given t[1].csv, DuckDB would look for t1.csv."""
    # A first folder that is called ~ or s3: is neither the home folder nor a bucket.
    return glob.escape(os.path.abspath(file) if file.startswith("~") or ":" in file else file)


def _names(files: list[str]) -> str:
    return "[" + ", ".join(literal(_as_pattern(file)) for file in files) + "]"


def _parquet(connection: Any, files: list[str], own: list[str], hive: str, folders: list[dict[str, str | None]]) -> str:
    """Parquet files whose columns must have the same types: the database would cast to those of the
    first file.
    """
    _refuse_empty(files)
    first = _types_of_parquet(connection, files[0], own)
    _refuse_hidden(list(first), folders, files[0])
    check_columns([*first, *folders[0]], own)
    for file in files[1:]:
        types = _types_of_parquet(connection, file, own)
        _refuse_hidden(list(types), folders, file)
        for column in own:
            if types.get(column) != first[column]:
                other = f"has {types[column]} values in" if column in types else "is not in"
                raise InputError(
                    f"files must have the same columns, and column {column!r} has {first[column]} values in {files[0]} "
                    f"and {other} {file}"
                )
    if timed := [column for column in own if first[column].startswith("TIMESTAMP")]:
        check_parquet(files, timed)
    return f"read_parquet({_names(files)}, union_by_name = false, hive_partitioning = {hive})"


def _types_of_parquet(connection: Any, file: str, own: list[str]) -> dict[str, str]:
    """The types of the columns of a file, which has those asked for under their own names."""
    types = described(connection, f"read_parquet({_names([file])}, hive_partitioning = false)")
    # All nodes of the tree of columns, each before its children; the first one is the root.
    nodes = connection.sql(f"SELECT name, num_children FROM parquet_schema({_names([file])})").fetchall()
    names, within = [], 0
    for name, children in nodes[1:]:
        if within == 0:
            names.append(name)
        within += (children or 0) - (within > 0)
    check_places(names, types, own)
    return types


def _refuse_empty(files: list[str]) -> None:
    for file in files:
        if os.path.getsize(file) == 0:
            raise InputError(f"{file} is empty: it has no columns")


def _json(files: list[str], columns: list[str], own: list[str], hive: str) -> str:
    """JSON, every field as text. There is no header: a field that no record has is null everywhere."""
    fields = ", ".join(f"{literal(column)}: 'VARCHAR'" for column in own or ["k"])
    groups: dict[tuple[str, str], list[str]] = {}
    for file in files:
        check_records(file)
        groups.setdefault((_json_format(file), packing_of(file) or "uncompressed"), []).append(file)
    scans = [
        f"SELECT {', '.join(map(quoted, columns)) or '*'} FROM read_json({_names(group)}, auto_detect = false, "
        f"format = '{layout}', records = true, columns = {{{fields}}}, compression = '{packing}', "
        f"ignore_errors = false, hive_partitioning = {hive})"
        for (layout, packing), group in groups.items()
    ]
    return f"({' UNION ALL '.join(scans)})"


def _json_format(file: str) -> str:
    """Lines, or one array if a .json file begins with a bracket: records are objects, so no record
    begins with one.
    """
    is_array = _kind_of(file)[1] == ".json" and begins_with_bracket(file)
    return "array" if is_array else "newline_delimited"


def _separated(
    connection: Any,
    files: list[str],
    columns: list[str],
    reading: Reading,
    folders: list[dict[str, str | None]],
    complaints: list[InputError],
) -> Scan:
    """Files of separated values, whose first records name the columns."""
    import pyarrow

    dialects = {file: _dialect_of(file, reading) for file in files}
    header = sorted(_header(files[0], dialects[files[0]]))
    for file in files:
        names = _header(file, dialects[file])
        _refuse_hidden(names, folders, file)
        _check_header([*names, *folders[0]], columns, file)
        if sorted(names) != header:
            raise InputError(f"files must have the same columns, and the first lines of {files[0]} and {file} differ")
    columns = list(dict.fromkeys(columns))
    own = [column for column in columns if column not in folders[0]]
    schema = pyarrow.schema([(column, pyarrow.string()) for column in columns])

    def pieces() -> Iterator[Any]:
        try:
            for file, values in zip(files, folders, strict=True):
                # If only the folders of a file matter, any column shows how many records there are.
                for batch in batches_of(file, dialects[file], own or _header(file, dialects[file])[:1]):
                    arrays = [
                        batch.column(column)
                        if column in own
                        else pyarrow.repeat(pyarrow.scalar(values[column], pyarrow.string()), batch.num_rows)
                        for column in columns
                    ]
                    yield pyarrow.RecordBatch.from_arrays(arrays, schema=schema)
        except InputError as error:  # the database would wrap it in a message of its own
            complaints.append(error)
            raise

    def batches() -> Any:
        return pyarrow.RecordBatchReader.from_batches(schema, pieces())

    return StreamedScan(connection, "events", dict.fromkeys(columns, "VARCHAR"), batches=batches)


def _dialect_of(file: str, reading: Reading) -> Dialect:
    usual = _DELIMITERS.get(_kind_of(file)[1])
    if usual is None and reading.delimiter is None:
        raise ParameterError(f"delimiter must be given for {file}: the separator of columns, such as delimiter=','")
    return reading.dialect(usual or ",")


def _header(file: str, dialect: Dialect) -> list[str]:
    names = header_of(file, dialect)
    if len(set(names)) < len(names):
        raise InputError(f"the first line of {file} must name its columns, each once, and a name occurs twice")
    return names


def _check_header(names: list[str], columns: list[str], file: str) -> None:
    """`InputError` unless the columns are there. It shows no names: in a file without a header they
    would be data.
    """
    for column in columns:
        if column not in names:
            # A single name may be several names with another separator.
            near = nearest(names, column) if len(names) > 1 else ""
            hint = near or "is another delimiter= needed, or does the file have no header?"
            raise InputError(f"the first line of {file} has no column {column!r}; {hint}")
