"""Functions of DuckDB's SQL against lookups of the same keys."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

import sparsedp
from sparsedp.reach.duckdb import register

from .lookups import MANY
from .measuring import Row, side_by_side, threads

MOST = 1.4  # of a function that does nothing and of a lookup, one after the other


def sql_rows() -> Iterator[Row]:
    """10⁷ keys of a table of DuckDB, and a function that does nothing: DuckDB's own share. Everything
    is in one thread, so processor time is what it takes, whatever else the machine does.
    """
    con: Any = duckdb.connect()
    con.execute("SET threads = 1")
    con.execute(
        "CREATE TABLE asked AS SELECT i AS number, 'https://example.org/page/' || (i * 7919 % 10000019) AS url "
        f"FROM range({MANY}) t(i)"
    )
    for column, name, kind in (("url", "text", "VARCHAR"), ("number", "integers", "HUGEINT")):
        keys = _column(con, column)
        release = sparsedp.release((keys, np.full(MANY, 3)), epsilon=1.0, nonzero=MANY)
        register(con, release)
        con.create_function("nothing", _nothing, [kind], "DOUBLE", type="arrow", null_handling="special")
        look = partial(release.lookup, keys)
        look()
        with threads(1):
            ours, lookup = side_by_side(partial(_asked, con, "visits", column), look, 3, time.process_time)
            nothing, again = side_by_side(partial(_asked, con, "nothing", column), look, 3, time.process_time)
            lookup = min(lookup, again)
        asked, against = f"DuckDB: 10⁷ keys ({name}) in SQL", "lookup of an Arrow column"
        yield Row(asked, "doing nothing, then lookup", ours, nothing + lookup, most=MOST)
        yield Row(asked, against, ours, lookup)
        yield Row(f"DuckDB: the same ({name}), doing nothing", against, nothing, lookup)
        con.remove_function("nothing")
    con.close()


ROWS = 2048  # of a call, at most
NOTHING = pa.table({"answer": np.zeros(ROWS)})


def _nothing(column: Any) -> Any:
    """A table that is there already: DuckDB would make one of anything else."""
    return NOTHING if len(column) == ROWS else NOTHING.slice(0, len(column))


def _column(con: Any, name: str) -> Any:
    return con.sql(f"SELECT {name} FROM asked").to_arrow_table().column(0)


def _asked(con: Any, function: str, name: str) -> Any:
    return con.execute(f"SELECT sum({function}({name})) FROM asked").fetchall()
