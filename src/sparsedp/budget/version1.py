"""Ledgers of version 1, which are SQLite files: SQLite reads them unchanged until the first change
converts them.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path

from .book import OLDEST, VERSION, Book, DamageError, check_version

SQLITE = b"SQLite format 3\0"
SQLITE_APPLICATION = 0x73644C31
SQLITE_SCHEMA = [  # by name
    "CREATE TABLE budgets (dataset TEXT PRIMARY KEY, epsilon TEXT, delta TEXT, created TEXT) WITHOUT ROWID",
    "CREATE TABLE entries (id INTEGER PRIMARY KEY, dataset TEXT, epsilon TEXT, delta TEXT, mechanism TEXT, note TEXT, "
    "time TEXT, released TEXT)",
    "CREATE TABLE seal (sha256 TEXT)",
]


def of_sqlite(path: Path, timeout: float, close: bool = False) -> Book:
    """The contents of a file of version 1.

    The file may be open, but must not be closed meanwhile: that drops all locks of this process on
    the file.
    """
    address = f"{path.resolve().as_uri()}?mode=rw"
    with closing(sqlite3.connect(address, timeout=timeout, isolation_level=None, uri=True)) as connection:
        connection.execute("PRAGMA synchronous = EXTRA")  # also syncs the removal of the journal
        connection.execute("BEGIN EXCLUSIVE" if close else "BEGIN")
        book = _check(connection, path)
        if close:  # programs that know only version 1 may be waiting for SQLite's lock: they are refused
            connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    return book


def _check(connection: sqlite3.Connection, path: Path) -> Book:
    ((application,),) = connection.execute("PRAGMA application_id")
    ((version,),) = connection.execute("PRAGMA user_version")
    check_version(path, application == SQLITE_APPLICATION, version)
    tables = connection.execute("SELECT sql FROM sqlite_master ORDER BY name").fetchall()
    if tables != [(table,) for table in SQLITE_SCHEMA]:
        raise DamageError("its tables are not those of a ledger")
    budgets = connection.execute("SELECT * FROM budgets ORDER BY dataset").fetchall()
    entries = connection.execute("SELECT * FROM entries ORDER BY id").fetchall()
    digest = hashlib.sha256()
    for row in (*budgets, *entries):
        digest.update(json.dumps(row, default=repr).encode())  # damage can turn text into bytes
    if connection.execute("SELECT sha256 FROM seal").fetchall() != [(digest.hexdigest(),)]:
        raise DamageError("its totals and debits are not those that were written, or it lost its journal")
    book = Book(OLDEST)
    try:
        for budget in budgets:
            book.apply(["budget", *budget])
        for *debit, released in entries:
            book.apply(["debit", *debit])
            if released is not None:
                book.apply(["released", debit[0], released])
    except (ValueError, TypeError) as error:
        raise DamageError(str(error)) from error
    return book
