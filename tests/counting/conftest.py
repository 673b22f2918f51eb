"""One database for the many small counts of a module."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from sparsedp.counting import tables


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    """A database of a module."""
    with duckdb.connect() as made:
        made.execute("SET enable_external_file_cache = false")  # tests rewrite a file quicker than its time changes
        yield made


@pytest.fixture
def one_database(database: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every count has a connection of its own, as always, but all are to the same database: making one
    takes three quarters of the time of a small count. Settings of a database (memory, threads) stay,
    so tests of these do not use it.
    """
    monkeypatch.setattr(tables, "new_database", database.cursor)
