"""A table that is open for queries, with its columns checked."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from .._util.progress import waiting
from ..keys.kinds import KeyColumn
from .declared import check_types
from .request import Counting
from .scans import Scan
from .sql import Query
from .tables import open_table


def check_table(source: object, counting: Counting) -> tuple[KeyColumn, ...]:
    """Check the columns as `count` does, without counting a row; returns those of the key."""
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
