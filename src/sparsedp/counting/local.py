"""`count()`: from a table of events to counts in which no user has more than a bounded share.

DuckDB does the grouping, out of core if necessary. Adding or removing a user changes the counts by
that user's own bounded pairs and by nothing else (docs/privacy.md, "Bounded contributions").
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np

from .._util.progress import waiting
from ..keys.arrow import as_chunked_array
from ..keys.kinds import KeyColumn, is_instant, is_simple, unit_of
from ..privacy.contributions import BoundedCounts
from .declared import check_types
from .key_columns import KeySource
from .request import Counting
from .scans import Scan
from .sql import Query
from .tables import open_table


def count(
    source: object,
    *,
    key: str | Sequence[str],
    user: str | None = None,
    value: str | None = None,
    max_keys_per_user: int | None = None,
    max_per_key: float = 1,
    step: float | None = None,
    signed: bool = False,
    key_type: str | Sequence[str] = "as stored",
    nulls: str = "refuse",
    domain: int | None = None,
    memory_limit: str | None = None,
    delimiter: str | None = None,
    quote: str | None = None,
    encoding: str | None = None,
    hive: bool = False,
) -> BoundedCounts:
    """Count events by key, bounding the contribution of each user.

    In JSON lines, a string is its text; a number, truth value, object or array is the JSON text of
    its value (1.50 is "1.5"); a missing field is null.

    Parameters
    ----------
    source
        A path or glob of Parquet, CSV or JSON-lines files (text formats also .gz and .zst), a list
        of paths, each taken literally, a DuckDB relation, a polars LazyFrame, a pyarrow Dataset, or
        a table that supports Arrow: pandas, polars, pyarrow. LazyFrames and Datasets are streamed;
        a Scanner or RecordBatchReader is read into memory, once.
    key
        The column of keys: text, bytes, integers, dates or timestamps. Or a list of columns, which
        together are the key, such as `["day", "page"]`; these may also be truth values.
    user
        The column that tells users apart. Without it, every row is a separate user: this is right
        only if nobody has more than one row.
    value
        A numeric column to sum; without it, rows are counted.
    max_keys_per_user
        A user contributes to at most this many different keys.
    max_per_key
        A user contributes at most this much to each key. With 1, users are counted.
    step
        The grid on which sums of real values will be released.
    signed
        Values may be negative.
    key_type
        "integer" reads keys of text files as integers in decimal digits, "date" as 2024-01-31,
        "timestamp[s]" as 2024-01-31T12:00:00 (units are s, ms, us and ns; "timestamp[s, UTC]" reads
        text that ends in Z), "boolean" as true or false. "date" and coarser units also cut
        timestamps, by UTC if they have a time zone. "text" uses the text of values that cannot be
        keys themselves. With "as stored", keys of text files are text. Or a list, with one of these
        for each column of the key.
    nulls
        "refuse" rows in which the key, any of its columns, user or value is null, or "drop" them.
    domain
        Refuse keys that are not integers in [0, domain); `release` is to be given the same domain.
    memory_limit
        The memory that counting may use, such as "4GB"; anything beyond it goes to a temporary
        folder on disk.
    delimiter
        What separates the columns of CSV files: by default commas (.csv) or tabs (.tsv). Nothing is
        guessed from rows, and the first line names the columns. An empty field is null.
    quote
        Fields of CSV files may be in these quotes, by default `"`; with `quote=""`, quotes have no
        meaning.
    encoding
        That of CSV files: "utf-8" (the default), "utf-16" or "latin-1".
    hive
        Read folder names such as `day=2024-01-02` as columns of text.

    """
    return count_table(source, Counting.of(locals()))


def count_table(source: object, counting: Counting) -> BoundedCounts:
    """The result of `count`, for parameters that have been checked."""
    with opened(source, counting) as query:
        counted = run(query.table, query.sql())
        if counted.filter(counted.column("bad")).num_rows:
            query.refuse()
        keys = counted_keys(counted, query.keys)
    units = np.ascontiguousarray(counted.column("n").to_numpy(), np.int64)
    return BoundedCounts(keys, units, counting.unit, counting.grid, counting.contribution, counting.signed)


def counted_keys(counted: Any, sources: Sequence[KeySource]) -> Any:
    """The keys of a query: a column if they are simple, otherwise a table."""
    import pyarrow as pa

    columns = []
    for at, source in enumerate(sources):
        column, unit = as_chunked_array(counted.column(at)), unit_of(source.kind)
        columns.append(
            column if unit is None else column.cast(pa.timestamp(unit, "UTC" if is_instant(source.kind) else None))
        )
    if len(sources) == 1 and is_simple(sources[0].kind):
        return columns[0]
    return pa.Table.from_arrays(columns, [source.name for source in sources])


def check_table(source: object, counting: Counting) -> tuple[KeyColumn, ...]:
    """Check the columns as `count_table` does, without counting a row; returns those of the key."""
    with opened(source, counting) as query:
        return tuple(KeyColumn(key.name, key.kind) for key in query.keys)


@contextmanager
def opened(source: object, counting: Counting) -> Iterator[Query]:
    """The query over an open table whose columns have been checked."""
    with open_table(source, counting.columns, counting.memory_limit, counting.reading, counting.value) as table:
        check_types(table, counting)
        yield Query(table, counting)


def run(table: Scan, sql: str) -> Any:
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
