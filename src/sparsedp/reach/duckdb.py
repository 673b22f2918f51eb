"""A release as functions of DuckDB's SQL: `visits(key)`, `visits_low(key)` and `visits_high(key)`.

They are typed by the file: a key of several columns has as many arguments, and DuckDB refuses types
that it cannot convert without loss, with the signature that would do. A null gives null.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _native
from ..errors import InputError, ParameterError
from ..keys.arrow import nulls_of, rows_of
from ..keys.kinds import ColumnKind, is_instant, unit_of
from ..releasing.published import Release
from .answering import ENDS, Question, check_name, check_own, questions

# Times in seconds and milliseconds are asked for as DuckDB's usual timestamps; the release converts
# them, and refuses what is not a whole number of its unit.
_TYPES: dict[str, str] = {
    "text": "VARCHAR",
    "bytes": "BLOB",
    "integer": "HUGEINT",
    "boolean": "BOOLEAN",
    "date": "DATE",
}


def register(
    con: Any, release: Release | str | os.PathLike[str], name: str = "visits", *, confidence: float = 0.95
) -> None:
    """Give a connection of DuckDB three functions: `name(key)`, the estimate, and `name_low(key)` and
    `name_high(key)`, the interval of this confidence.

    They have one argument for each column of the key, of its type; null if any of them is null.
    Every connection to the same database has them, in all threads. Functions of these names that
    were made from Python on this connection are replaced, unless they belong to a release that was
    registered by another name: "visits_low" is refused beside "visits".

    Parameters
    ----------
    con
        A connection, or the module `duckdb` for its default connection.
    release
        The release, or its path.
    name
        Of the functions: letters, digits and underscores.
    confidence
        Of the intervals.

    """
    asked = questions(release, confidence)
    _check_name(con, name)
    check_own(name, partial(_exists, con))
    names = [name + end for end in ENDS]
    for own in names:
        _remove(con, own)
    _refuse_taken(con, names)
    types = _types(asked[0].release)
    for own, question in zip(names, asked, strict=True):
        con.create_function(own, _function(question), types, "DOUBLE", type="arrow", null_handling="special")


def unregister(con: Any, name: str = "visits") -> None:
    """Remove the functions that `register` made on this connection, and let go of the release."""
    _check_name(con, name)
    known = all(_exists(con, name + end) for end in ENDS)  # or else it may be one function of another release
    removed = [_remove(con, name + end) for end in ENDS] if known else [False]
    if not all(removed):
        raise ParameterError(f"no functions {name!r} were registered on this connection; name the ones that were")


def _check_name(con: Any, name: str) -> None:
    check_name(name)
    # A cursor: a connection may have a result that has not been fetched yet.
    words = con.cursor().execute("SELECT keyword_category FROM duckdb_keywords() WHERE keyword_name = lower(?)", [name])
    if {"reserved", "column_name"} & {category for (category,) in words.fetchall()}:
        raise ParameterError(f"name must not be a word of SQL, got {name!r}; try '{name}_of'")


def _exists(con: Any, name: str) -> bool:
    known = "SELECT count(*) FROM duckdb_functions() WHERE lower(function_name) = lower(?)"
    (found,) = con.cursor().execute(known, [name]).fetchone()
    return bool(found)


def _refuse_taken(con: Any, names: list[str]) -> None:
    """`ParameterError` if DuckDB, or someone else, has functions of these names."""
    known = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE list_contains(?, lower(function_name))"
    for (taken,) in con.cursor().execute(known, [[name.lower() for name in names]]).fetchall():
        raise ParameterError(
            f"the database already has a function {taken!r}, which was not made on this connection; pass another name="
        )


def _remove(con: Any, name: str) -> bool:
    """Remove a function that was made from Python on this connection, if there is one."""
    import duckdb

    try:
        con.remove_function(name)
    except duckdb.InvalidInputException:
        return False
    return True


def _types(release: Release) -> list[str] | None:
    """The types of the arguments; None for any, if the file does not state the kind of its keys."""
    kinds = [column.kind for column in release.key_columns]
    known = [_type(kind) for kind in kinds if kind is not None]
    return known if len(known) == len(kinds) else None


def _type(kind: ColumnKind) -> str:
    if unit_of(kind) is None:
        return _TYPES[kind]
    if is_instant(kind):
        return "TIMESTAMPTZ"
    return "TIMESTAMP_NS" if unit_of(kind) == "ns" else "TIMESTAMP"


def _function(question: Question) -> Callable[..., Any]:
    """The question as a function of as many columns as the key has.

    It refers to the release and to nothing of the caller: through a caller's variables it would
    refer to the connection that owns it, and neither would ever be freed.
    """
    import pyarrow as pa

    quick = cache(partial(_quick, question))  # made when it is first asked

    def answer(*columns: Any) -> Any:
        found = quick()(columns[0])
        if found is None:
            found = pa.Table.from_arrays([_answered(question, columns)], ["answer"])
        return found  # a table: of an array DuckDB would make one, and take longer

    # DuckDB takes the number of arguments from here.
    kind = inspect.Parameter.POSITIONAL_ONLY
    columns = [inspect.Parameter(f"key{at}", kind) for at in range(1, len(question.release.key_columns) + 1)]
    answer.__signature__ = inspect.Signature(columns)  # type: ignore[attr-defined]
    return answer


def _quick(question: Question) -> Callable[[Any], Any]:
    """A function from a column to a table of the answers, if there is nothing to it: hashed keys of
    one column, without nulls, in one chunk of the usual layout. Otherwise it gives None.

    DuckDB hands over 2048 rows at a time. For so few, what the general way does besides hashing and
    reading takes longer than these.
    """
    import pyarrow as pa

    space, kernel = question.release.key_space, question.kernel()
    if space.columns or space.seed is None or space.kind is None or kernel is None:
        return lambda column: None
    schema = pa.schema([("answer", pa.float64())])
    import_batch = pa.RecordBatch._import_from_c  # as DuckDB makes its own: a capsule takes longer
    return _native.ColumnFunction(kernel, *space.seed, space.kind, schema, import_batch, pa.Table.from_batches)


def _answered(question: Question, columns: Sequence[Any]) -> Any:
    """The answers for columns as DuckDB gives them, of all sorts."""
    import pyarrow as pa

    narrow = []
    for column in columns:
        words = _words(column)
        if words is None:
            narrow.append(column)
            continue
        low, high = words[0::2], words[1::2]
        if (high == low >> 63).all():
            own = low
        elif not high.any():
            own = low.view(np.uint64)
        else:  # no type of 64 bits holds both ends, and other rows must not decide what is refused
            if ((high != 0) & (high != low >> 63)).any():
                raise InputError("an integer key must be in [-2^63, 2^64); use text for larger integers")
            parts = [high < 0, high >= 0]
            halves = [_answered(question, [rows_of(one, part) for one in columns]) for part in parts]
            return pa.concat_arrays(halves).take(np.argsort(np.concatenate([np.flatnonzero(part) for part in parts])))
        narrow.append(pa.chunked_array([pa.array(own, mask=nulls_of(column))]))
    return question.of_batch(narrow)


def _words(column: Any) -> npt.NDArray[np.int64] | None:
    """The low and high words of a column of HUGEINT in turn, 0 where it is null; None for any other
    column.

    Every integer type of DuckDB becomes this one without loss. It arrives as decimals, or, if the
    connection says so (`arrow_lossless_conversion`), as opaque bytes.
    """
    import pyarrow as pa

    opaque = isinstance(column.type, pa.BaseExtensionType) and column.type.storage_type == pa.binary(16)
    if column.type != _decimals() and not opaque:
        return None
    words, nulls = np.concatenate([np.zeros(0, np.int64), *map(_words_of_chunk, column.chunks)]), nulls_of(column)
    if nulls is not None:
        words[np.repeat(nulls, 2)] = 0
    return words


def _words_of_chunk(chunk: Any) -> npt.NDArray[np.int64]:
    return np.frombuffer(chunk.buffers()[1] or b"", np.int64)[2 * chunk.offset : 2 * (chunk.offset + len(chunk))]


def _decimals() -> Any:
    import pyarrow as pa

    return pa.decimal128(38, 0)
