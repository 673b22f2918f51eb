"""Tables that DuckDB can scan, with the declared types of their columns, never inferred from rows."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from ..errors import InputError


@dataclass(frozen=True)
class Scan:
    """A table that DuckDB can scan: SQL that names it, the types of its columns, and the connection
    that knows it.
    """

    connection: Any
    sql: str
    types: dict[str, str]
    path: str | None = None  # or glob, as given
    pandas: bool = False

    # Whether equal text means equal bytes: not on a connection of the caller, whose columns may
    # have collations.
    binary_text = True

    def query(self, sql: str) -> Any:
        """A relation of SQL over this table, which it calls `source`."""
        return self.connection.sql(f"WITH source AS (FROM {self.sql}) {sql}")

    def has(self, column: str) -> str:
        """The type of a column in words, without the values of an ENUM, which are data."""
        return f"column {column!r} has {re.sub(r'ENUM[(].*[)]', 'ENUM', self.types[column], flags=re.DOTALL)} values"

    def cast(self, column: str, kind: str) -> str:
        """A hint on how to give a column another type, with a line that can be run."""
        if self.pandas:
            return f"cast it, for example with frame[{column!r}].astype({_PANDAS[kind]!r})"
        cast = f"SELECT * REPLACE (CAST({quoted(column)} AS {kind}) AS {quoted(column)}) FROM"
        if self.path is None:
            return f'cast it, for example with duckdb.sql("""{cast} …""")'
        copy = f"COPY ({cast} {literal(self.path)}) TO 'cast.parquet'"
        return f'cast it, for example with duckdb.sql("""{copy}""")'


_PANDAS = {"BIGINT": "Int64", "VARCHAR": "string"}


@dataclass(frozen=True)
class StreamedScan(Scan):
    """A table that is streamed again for each query, since a stream can be read only once."""

    batches: Callable[[], Any] = field(kw_only=True)

    def query(self, sql: str) -> Any:
        self.connection.register(self.sql, self.batches())
        return super().query(sql)


class RelationScan(Scan):
    """A relation on the caller's own connection."""

    binary_text = False

    def query(self, sql: str) -> Any:
        return self.connection.query("source", sql)


def quoted(name: str) -> str:
    """An SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """An SQL string."""
    return "'" + text.replace("'", "''") + "'"


def described(connection: Any, sql: str) -> dict[str, str]:
    """The columns of a table and their types."""
    return {row[0]: row[1] for row in connection.sql(f"DESCRIBE FROM {sql}").fetchall()}


def checked(connection: Any, sql: str, columns: list[str], path: str | None = None, pandas: bool = False) -> Scan:
    """The table that the SQL names, if it has the columns."""
    types = described(connection, sql)
    check_columns(types, columns)
    return Scan(connection, sql, types, path, pandas)


def check_columns(names: Iterable[str], columns: list[str]) -> None:
    """`InputError`, with the nearest names, unless the columns are among the names."""
    names = list(names)
    for column in columns:
        if column not in names:
            hint = nearest(names, column) or f"it has {', '.join(map(repr, names)) or 'no columns'}"
            raise InputError(f"there is no column {column!r} in the table; {hint}")
        if twin := case_twin(column, names):
            raise InputError(
                f"the table has the columns {column!r} and {twin!r}, which databases cannot tell apart; rename one"
            )


def check_places(names: Iterable[str], types: Iterable[str], columns: list[str]) -> None:
    """`InputError` if the database has one of the columns at another place than the table itself: of
    columns whose names it cannot tell apart it renames all but one, perhaps to the name of another.
    """
    names, found = list(names), list(types)
    for column in columns:
        if column in found and column in names and names.index(column) != found.index(column):
            raise InputError(
                f"the table has columns that databases cannot tell apart, and would take one of them for {column!r}; "
                "rename columns whose names are the same, or differ only in case"
            )


def case_twin(column: str, names: Iterable[str]) -> str | None:
    """Another name that differs only in case: a database would take one for the other."""
    return next((name for name in names if name != column and name.casefold() == column.casefold()), None)


def nearest(names: Iterable[str], column: str) -> str:
    """The question whether a similar name was meant, if there is one."""
    near = difflib.get_close_matches(column, names, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(map(repr, near))}?" if near else ""
