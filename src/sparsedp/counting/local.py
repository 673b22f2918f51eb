"""`count()`: a table of events to counts in which no user has more than a bounded share.

DuckDB groups, out of core if need be. Each user's rows become at most `max_keys_per_user` pairs (key, contribution).
Which keys stay is decided by a hash of the bytes of user and key. What a user's rows become depends on these rows and
on public settings only, so adding or removing a user changes the counts by that user's own bounded pairs and by nothing
else (docs/privacy.md, "Bounded contributions": row locality).
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np

from .._util.progress import waiting
from ..errors import InputError, ParameterError
from ..keys.arrow import as_chunked_array
from ..planning.plans import positive_fraction, whole_number
from ..privacy.contributions import BoundedCounts, Contribution
from ..structures.table import LARGEST_COUNT
from .canonical import TEXTS, grouped, order_of
from .declared import KEY_TYPES, check_types, reads_integers
from .files import Reading
from .scans import Table, quoted
from .tables import open_table

# A real contribution is cut to whole multiples of step/2^20, so that sums are exact and distances what they seem.
UNITS_PER_STEP = 1 << 20

# What a database takes for an integer is more than that: 0x10, 1_000, and 1.5, which it rounds.
_INTEGER = "[+-]?[0-9]+"
_WHOLE = r"\s*[+-]?[0-9]+(\.0*)?([eE][+]?[0-9]+)?\s*"


def count(
    source: object,
    *,
    key: str,
    user: str | None = None,
    value: str | None = None,
    max_keys_per_user: int | None = None,
    max_per_key: float = 1,
    step: float | None = None,
    signed: bool = False,
    key_type: str = "as stored",
    nulls: str = "refuse",
    domain: int | None = None,
    memory_limit: str | None = None,
    delimiter: str | None = None,
    quote: str | None = None,
    encoding: str | None = None,
    hive: bool = False,
) -> BoundedCounts:
    """Count events by key, each user's contribution bounded.

    Parameters
    ----------
    source
        A path or glob of Parquet, CSV or JSON-lines files (text formats also .gz and .zst), a list of paths, each taken
        as it is, a DuckDB relation, a polars LazyFrame, a pyarrow Dataset, or a table that speaks Arrow: pandas,
        polars, pyarrow. LazyFrames and Datasets are streamed; a Scanner or RecordBatchReader is read into memory, once.
    key, user
        The columns of keys (text, bytes or integers) and of users. Without `user`, every row is its own user: right
        only if nobody has more than one row.
    value
        A numeric column to sum; without it, rows are counted.
    max_keys_per_user, max_per_key
        A user contributes to at most this many different keys, and at most this much to each.
    step
        The grid on which sums of real values will be released.
    signed
        Values may be negative.
    key_type
        "integer" reads keys of text files as integers in decimal digits, "text" takes dates, truth values and other
        things that are no keys by their text; as stored, keys of text files are text.
    nulls
        "refuse" rows without key, user or value, or "drop" them.
    domain
        Refuse keys that are no integers in [0, domain), which `release` will be given.
    memory_limit
        What counting may use, such as "4GB"; more goes to a temporary folder on disk.
    delimiter, quote, encoding
        How CSV files are written; nothing is guessed from rows. The first line names the columns. Columns are separated
        by commas (.csv), tabs (.tsv) or what is told (.txt); fields may be in quotes, or with `quote=""` are as they
        are; the encoding is "utf-8", "utf-16" or "latin-1". A field without anything is null.
    hive
        Folders such as `day=2024-01-02` are columns of text.

    Of JSON lines, a string is its text, a number, truth value, object or array the JSON text of its value (1.50 is
    "1.5"), and a field that is not there is null.

    """
    reading = Reading(delimiter, quote, encoding, bool(hive))
    bounds = (max_keys_per_user, max_per_key, step, signed)
    with _opened(source, key, user, value, *bounds, key_type, nulls, domain, memory_limit, reading) as query:
        counted = _run(query.table, query.sql())
        if counted.filter(counted.column("bad")).num_rows:
            query.refuse()
    keys = as_chunked_array(counted.column("k"))
    units = np.ascontiguousarray(counted.column("n").to_numpy(), np.int64)
    return BoundedCounts(keys, units, query.unit, query.step, query.contribution, signed)


def check_table(
    source: object,
    *,
    key: str,
    user: str | None = None,
    value: str | None = None,
    max_keys_per_user: int | None = None,
    max_per_key: float = 1,
    step: float | None = None,
    signed: bool = False,
    key_type: str = "as stored",
    nulls: str = "refuse",
    domain: int | None = None,
    delimiter: str | None = None,
    quote: str | None = None,
    encoding: str | None = None,
    hive: bool = False,
) -> None:
    """What `count` would say about parameters and columns, without counting a row."""
    reading = Reading(delimiter, quote, encoding, bool(hive))
    bounds = (max_keys_per_user, max_per_key, step, signed)
    with _opened(source, key, user, value, *bounds, key_type, nulls, domain, None, reading):
        pass


@contextmanager
def _opened(
    source: object,
    key: str,
    user: str | None,
    value: str | None,
    max_keys: int | None,
    max_per_key: float,
    step: float | None,
    signed: bool,
    key_type: str,
    nulls: str,
    domain: int | None,
    memory_limit: str | None,
    reading: Reading,
) -> Iterator[_Query]:
    """The query over an open table; parameters and columns are checked."""
    if nulls not in ("refuse", "drop"):
        raise ParameterError(f"nulls must be 'refuse' or 'drop', got {nulls!r}")
    if key_type not in KEY_TYPES:
        raise ParameterError(f"key_type must be one of {', '.join(map(repr, KEY_TYPES))}, got {key_type!r}")
    contribution = contribution_of(user, value, max_keys, max_per_key, step)
    grid = None if step is None else positive_fraction("step", step)
    names = {"key": key, "user": user, "value": value}
    for role, name in names.items():
        if name is not None and (not isinstance(name, str) or not name):
            raise ParameterError(f"{role} must be the name of a column, got {name!r}")
    columns = [name for name in names.values() if name is not None]
    with open_table(source, columns, memory_limit, reading, value) as table:
        query = _Query(table, key, user, value, contribution, grid, signed, key_type, nulls == "drop", domain)
        check_types(table, key, user, value, key_type, domain, real=grid is not None)
        yield query


def contribution_of(
    user: str | None, value: str | None, max_keys: int | None, max_per_key: float, step: float | None
) -> Contribution:
    """What one user may contribute, or `ParameterError`."""
    per_key = positive_fraction("max_per_key", max_per_key)
    if step is None and per_key.denominator != 1:
        raise ParameterError(f"max_per_key must be a whole number, got {max_per_key}; pass step= for real values")
    if step is not None and value is None:
        raise ParameterError("step is for sums of a value column; pass value=, or omit step=")
    if user is None:
        if max_keys not in (None, 1):
            raise ParameterError(f"max_keys_per_user needs user=: without it every row is its own user, got {max_keys}")
        if value is None and per_key != 1:
            raise ParameterError(f"max_per_key needs user= or value=: a row counts once, got {max_per_key}")
        return Contribution(1, per_key, None)
    if max_keys is None:
        raise ParameterError("max_keys_per_user must be given: how many different keys may one user contribute to?")
    return Contribution(whole_number("max_keys_per_user", max_keys), per_key, user)


@dataclass(frozen=True)
class _Query:
    """The SQL of one count."""

    table: Table
    key: str
    user: str | None
    value: str | None
    contribution: Contribution
    step: Fraction | None
    signed: bool
    key_type: str
    drop: bool
    domain: int | None = None

    @property
    def unit(self) -> Fraction:
        """What one of the summed integers stands for."""
        return Fraction(1) if self.step is None else self.step / UNITS_PER_STEP

    @property
    def reads_integers(self) -> bool:
        """Whether keys are text that is read as integers."""
        return reads_integers(self.table.types[self.key], self.key_type)

    @property
    def _key(self) -> str:
        column, kind = quoted(self.key), self.table.types[self.key]
        text = column if kind == "VARCHAR" else f"CAST({column} AS VARCHAR)"
        if self.reads_integers:
            return f"CASE WHEN regexp_full_match({text}, '{_INTEGER}') THEN TRY_CAST({text} AS {self._key_kind}) END"
        return text if self.key_type == "text" or TEXTS.fullmatch(kind) else column

    @property
    def _key_kind(self) -> str:
        """The type of `_key`."""
        kind = self.table.types[self.key]
        if self.reads_integers:  # no type has both ends, and which one is needed must not be read off the rows
            return "BIGINT" if self.domain is None else "UBIGINT"
        return "VARCHAR" if self.key_type == "text" or TEXTS.fullmatch(kind) else kind

    @property
    def _value(self) -> str | None:
        """The value as a number; NULL if it is none."""
        if self.value is None:
            return None
        return f"TRY_CAST({quoted(self.value)} AS {'BIGINT' if self.step is None else 'DOUBLE'})"

    def faults(self) -> dict[str, str]:
        """What may be wrong with a row, and the SQL that tells."""
        faults = {}
        if not self.drop:
            faults["{key} is null"] = f"{quoted(self.key)} IS NULL"
            if self.user is not None:
                faults["{user} is null"] = f"{quoted(self.user)} IS NULL"
            if self.value is not None:
                faults["{value} is null"] = f"{quoted(self.value)} IS NULL"
        if self.reads_integers:
            least, end = ("-2^63", "2^63") if self.domain is None else ("0", "2^64")
            faults[f"{{key}} is no integer from {least} to below {end} in decimal digits"] = (
                f"{quoted(self.key)} IS NOT NULL AND {self._key} IS NULL"
            )
        if self.domain is not None:
            faults[f"{{key}} is not in [0, {self.domain})"] = f"{self._key} < 0 OR {self._key} >= {self.domain}"
        if self.value is not None:
            number = "number" if self.step is not None else "whole number below 2^63 (pass step= for real ones)"
            wrong = f"{self._value} IS NULL"
            if self.step is None and self.table.types[self.value] == "VARCHAR":  # whose cast would round
                wrong += f" OR TRY_CAST({quoted(self.value)} AS DOUBLE) <> {self._value}"
                wrong += f" OR NOT regexp_full_match({quoted(self.value)}, '{_WHOLE}')"
            faults[f"{{value}} is no {number}"] = f"{quoted(self.value)} IS NOT NULL AND ({wrong})"
            if self.step is not None:
                faults["{value} is not finite"] = f"NOT isfinite({self._value})"
            if not self.signed:
                faults["{value} is negative (pass signed=True to allow it)"] = f"{self._value} < 0"
        return faults

    @property
    def _grouped_key(self) -> tuple[str, str]:
        return grouped(self._key, self._key_kind, self.table.binary_text)

    @property
    def _grouped_user(self) -> tuple[str, str]:
        assert self.user is not None
        return grouped(quoted(self.user), self.table.types[self.user], self.table.binary_text)

    def _rows(self) -> str:
        """The rows that count: k, u, v and whether something is wrong with them."""
        faults = list(self.faults().values())
        bad = " OR ".join(f"coalesce({fault}, false)" for fault in faults) or "false"
        columns = [f"{self._grouped_key[0]} AS k", f"({bad}) AS bad"]
        if self.user is not None:
            columns.append(f"{self._grouped_user[0]} AS u")
        if self._value is not None:
            columns.append(f"{self._value} AS v")
        return f"SELECT {', '.join(columns)} FROM source{self._not_dropped}"

    @property
    def _not_dropped(self) -> str:
        present = [self.key, *(name for name in (self.user, self.value) if name is not None)]
        return " WHERE " + " AND ".join(f"{quoted(name)} IS NOT NULL" for name in present) if self.drop else ""

    def _bounded(self, total: str) -> str:
        """A total cut to what a user may contribute to a key, in units."""
        most = int(self.contribution.per_key / self.unit)
        least = -most if self.signed else 0
        return f"CAST(least(greatest({total}, {least}), {most}) AS BIGINT)"

    @property
    def _units(self) -> str:
        """A value in whole units. Integers have one sum; that of floats depends on the order, and so on other rows."""
        if self.step is None:
            return "v"
        limit = float(LARGEST_COUNT)
        return f"CAST(floor(least(greatest(v * {float(1 / self.unit)!r}, {-limit!r}), {limit!r})) AS HUGEINT)"

    def sql(self) -> str:
        """Keys, their sums in units, and whether a row was bad: one scan of the table."""
        limit = LARGEST_COUNT
        total = f"CAST(least(greatest(sum(c), {-limit}), {limit}) AS BIGINT)"
        if self.user is None:
            own = "1" if self.value is None else self._bounded(self._units)
            kept = f"SELECT k, {own} AS c, bad FROM rows"
        else:
            # Of a row that is only counted, key and user tell whether it is bad; that needs no aggregate.
            bad = "(u IS NULL OR k IS NULL)" if self.value is None and self.domain is None else "bool_or(bad)"
            own = self._bounded("count(*)" if self.value is None else f"sum({self._units})")
            if self.value is None and self.contribution.per_key == 1:
                own = "1"
            # A bad row must not be hidden by the bound on keys, so its pair comes first. The key decides between equal
            # hashes: whatever else the database would go by could depend on other users' rows.
            hashed = order_of("u", self._grouped_user[1], "k", self._grouped_key[1])
            order = f"CASE WHEN bad THEN 0::UHUGEINT ELSE {hashed} END"
            kept = (
                f"SELECT k, c, bad FROM (SELECT u, k, {own} AS c, {bad} AS bad FROM rows GROUP BY u, k) QUALIFY "
                f"row_number() OVER (PARTITION BY u ORDER BY {order}, k) "
                f"<= {self.contribution.keys}"
            )
        keys = "k" if self._grouped_key[1] == self._key_kind else "decode(k) AS k"
        return (
            f"SELECT {keys}, n, bad FROM (WITH rows AS ({self._rows()}), kept AS ({kept}) "
            f"SELECT k, {total} AS n, bool_or(bad) AS bad FROM kept GROUP BY k)"
        )

    def refuse(self) -> NoReturn:
        """Say how many rows are bad and which is the first."""
        faults = {text: f"coalesce({fault}, false)" for text, fault in self.faults().items()}
        counts = ", ".join(f"count(*) FILTER (WHERE {f}), min(line) FILTER (WHERE {f})" for f in faults.values())
        lines = "SELECT *, row_number() OVER () AS line FROM source"
        (row,) = self.table.query(f"SELECT {counts} FROM ({lines}){self._not_dropped}").fetchall()
        roles = {"key": self.key, "user": self.user, "value": self.value}
        names = {role: f"column {name!r}" for role, name in roles.items()}
        found = [
            f"{text.format(**names)} in {number} row{'s' if number > 1 else ''}, first in row {first}"
            for text, number, first in zip(faults, row[::2], row[1::2], strict=True)
            if number
        ]
        fix = "fix them or pass nulls='drop'" if any(" is null" in text for text in found) else "fix the table"
        raise InputError(f"{'; '.join(found)}; {fix}")


def _run(table: Table, sql: str) -> Any:
    """The result as an Arrow table, with progress; an interrupt stops the query."""
    relation = table.query(sql)
    connection = table.connection
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(relation.to_arrow_table)
        try:
            waiting("Counting", future, getattr(connection, "query_progress", None))
            return future.result()
        except BaseException:
            if hasattr(connection, "interrupt"):
                connection.interrupt()
            raise
