"""The file of a ledger: SQLite, private, durable, and refused if a byte of what was recorded is not as it was written.

- Durable: a transaction is on the disk when it ends. Removing the rollback journal is what commits it, and of SQLite's
  modes only "extra" syncs the removal too: after "full", a power cut can bring the journal back, which would undo a
  debit whose release is out. A write-ahead log would do as well, but keeps the latest debits in a second file, easily
  lost when the first is moved or copied.
- Undamaged: the seal is the SHA-256 of all rows and is compared at each use, so a truncated or damaged file is refused
  instead of granting a budget twice. It is no signature, and an older copy put in the file's place passes.
- Local: locks keep processes apart, and network file systems often only pretend to lock.

Only SQLite may open the file: whoever else opens and closes it drops all locks that this process has on it.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from .errors import LedgerError

APPLICATION = 0x73644C31
VERSION = 1
SCHEMA = [  # by name
    "CREATE TABLE budgets (dataset TEXT PRIMARY KEY, epsilon TEXT, delta TEXT, created TEXT) WITHOUT ROWID",
    "CREATE TABLE entries (id INTEGER PRIMARY KEY, dataset TEXT, epsilon TEXT, delta TEXT, mechanism TEXT, note TEXT, "
    "time TEXT, released TEXT)",
    "CREATE TABLE seal (sha256 TEXT)",
]

# SQLite has locks of its own. A child would wait for them forever if another thread had them at the moment of the fork,
# so one thread at a time uses SQLite, and a fork waits for it.
_in_use = threading.RLock()
os.register_at_fork(before=_in_use.acquire, after_in_parent=_in_use.release, after_in_child=_in_use.release)


def make(path: Path, timeout: float, budget: tuple[str, str, str, str]) -> bool:
    """Make a file with its first data set, whole or not at all; False if there is a file of that name by now."""
    temporary = path.with_name(f".ledger.{secrets.token_hex(8)}.tmp")
    try:
        os.close(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        with _connection(temporary, timeout) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
            for table in SCHEMA:
                connection.execute(table)
            connection.execute("INSERT INTO budgets VALUES (?, ?, ?, ?)", budget)
            connection.execute("INSERT INTO seal VALUES (?)", (_seal(connection),))
            connection.execute("COMMIT")
        # A link never replaces a file. Its name is on the disk after the first debit, which syncs the directory.
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError as error:
        raise LedgerError(
            f"{path} cannot be made; use a writable directory on a local disk ({error.strerror})"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)
    return True


@contextmanager
def transaction(path: Path, timeout: float, *, write: bool) -> Iterator[sqlite3.Connection]:
    """The checked file, which nobody else changes meanwhile; committed if the block ends without an exception."""
    if not path.exists():
        raise FileNotFoundError(
            f"path must be a ledger, got {path}, which does not exist; create it with Ledger.create"
        )
    with _connection(path, timeout) as connection:
        connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
        _check(connection, path)
        yield connection
        if write:
            connection.execute("UPDATE seal SET sha256 = ?", (_seal(connection),))
        connection.execute("COMMIT")


def _check(connection: sqlite3.Connection, path: Path) -> None:
    ((application,),) = connection.execute("PRAGMA application_id")
    ((version,),) = connection.execute("PRAGMA user_version")
    if application != APPLICATION:
        raise LedgerError(f"path must be a ledger, got {path}, which is empty or something else")
    if version != VERSION:
        raise LedgerError(f"{path} must be of version {VERSION}, got {version}; use a newer sparsedp")
    if connection.execute("SELECT sql FROM sqlite_master ORDER BY name").fetchall() != [(table,) for table in SCHEMA]:
        raise sqlite3.DatabaseError("its tables are not those of a ledger")
    if connection.execute("SELECT sha256 FROM seal").fetchall() != [(_seal(connection),)]:
        raise sqlite3.DatabaseError("its totals and debits are not those that were written")


def _seal(connection: sqlite3.Connection) -> str:
    digest = hashlib.sha256()
    for rows in ("budgets ORDER BY dataset", "entries ORDER BY id"):
        for row in connection.execute(f"SELECT * FROM {rows}"):
            digest.update(json.dumps(row, default=repr).encode())  # damage can turn text into bytes
    return digest.hexdigest()


@contextmanager
def _connection(path: Path, timeout: float) -> Iterator[sqlite3.Connection]:
    """A connection of this thread and process to an existing file; what SQLite has to say comes as `LedgerError`."""
    if not _in_use.acquire(timeout=timeout):
        raise LedgerError(f"{path} was waited for {timeout:g} s; try again when other threads are done with ledgers")
    try:
        address = f"{path.as_uri()}?mode=rw"
        with closing(sqlite3.connect(address, timeout=timeout, isolation_level=None, uri=True)) as connection:
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("PRAGMA fullfsync = ON")  # on macOS, where a plain sync stops at the drive's cache
            yield connection
    except (sqlite3.Error, UnicodeDecodeError) as error:  # SQLite quotes damaged names in its messages
        fixes = {
            "locked": f"stayed locked for {timeout:g} s; try again when other processes are done with it",
            "readonly": "cannot be written; make the file and its directory writable",
            "unable to open": "cannot be opened, or has no journal; make the file and its directory writable",
            "is full": "cannot grow; make room on its disk",
            "I/O": "cannot be read or written; check its disk",
            "": "is no ledger or damaged; restore it, and count every release since as spent",
        }
        fix = next(fix for sign, fix in fixes.items() if sign in str(error))
        raise LedgerError(f"{path} {fix} ({error})") from error
    finally:
        _in_use.release()
