"""A small ledger, and everything in it."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sqlite3
from contextlib import closing
from io import FileIO
from pathlib import Path
from typing import Any

from sparsedp.budget import journal
from sparsedp.budget.balance import Balance
from sparsedp.budget.ledger import Entry, Ledger
from sparsedp.errors import LedgerError

# What a release with Gaussian noise states.
EVENT = (
    "gaussian: 20 draws by 1 of 40 bits, variance 405189/1024, to 114; 1 draws by 20 of 64 bits, "
    "variance 6077835/64, to 131072; loss 1.734723475976807e-17; delta 1.8209704910524947e-07"
)


def composing(path: Path, epsilon: float = 6.5, delta: float = 1e-6, **options: Any) -> Ledger:
    """An empty ledger with privacy loss distributions."""
    return Ledger.create(path, epsilon=epsilon, delta=delta, accounting="pld", **options)


def small(path: Path) -> Ledger:
    """Two data sets, three debits."""
    ledger = Ledger.create(path, epsilon=1.0, delta=1e-6)
    Ledger.create(path, epsilon=2.0, dataset="other")
    ledger.finish(ledger.spend(epsilon=0.5, delta=1e-7, mechanism="laplace", note="first"), "a.sparsedp sha256:00")
    ledger.spend(epsilon=0.25, dataset="other")
    ledger.spend(epsilon=0.25)
    return ledger


def checked(path: Path, since: int | None = 1) -> journal.Checked:
    """What a new process finds in a file."""
    with FileIO(path) as file:
        return journal.check(file, path, since=since)[0]


def state(path: Path) -> tuple[list[Balance], list[Entry]]:
    ledger = Ledger.open(path)
    return ledger.datasets(), ledger.entries()


def version_2(path: Path) -> Ledger:
    """A small ledger as it was made before there were events."""
    small(path)
    content = path.read_bytes()
    changes = [json.loads(line[journal.DIGEST :]) for line in content[journal.FIRST :].splitlines()]
    mark, lines = journal.STARTS[2], b""
    marks: list[journal.Mark] = []
    for change in changes:
        line, mark = journal.line_of(mark, change)
        lines, marks = lines + line, [*marks, mark]
    blocks = {last.place(): last.written() for last in marks[-2:]}
    path.write_bytes(journal.HEADS[2] + b"".join(blocks[at] for at in sorted(blocks)) + lines)
    return Ledger.open(path)


def seal(connection: sqlite3.Connection) -> str:
    digest = hashlib.sha256()
    for rows in ("budgets ORDER BY dataset", "entries ORDER BY id"):
        for row in connection.execute(f"SELECT * FROM {rows}"):
            digest.update(json.dumps(row).encode())
    return digest.hexdigest()


DEBIT = "INSERT INTO entries VALUES (NULL, 'default', '0.25', '0.0', 'laplace', ?, '2026-01-01T00:00:00+00:00', ?)"


def version_1(path: Path, debits: int = 3) -> None:
    """A ledger as it was made: two totals, and debits of which the first is finished."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in (
            "BEGIN IMMEDIATE",
            f"PRAGMA application_id = {0x73644C31}",
            "PRAGMA user_version = 1",
            "CREATE TABLE budgets (dataset TEXT PRIMARY KEY, epsilon TEXT, delta TEXT, created TEXT) WITHOUT ROWID",
            "CREATE TABLE entries (id INTEGER PRIMARY KEY, dataset TEXT, epsilon TEXT, delta TEXT, mechanism TEXT, "
            "note TEXT, time TEXT, released TEXT)",
            "CREATE TABLE seal (sha256 TEXT)",
            "INSERT INTO budgets VALUES ('default', '1.0', '1e-06', '2026-01-01T00:00:00+00:00')",
            "INSERT INTO budgets VALUES ('other', '2.0', '0.0', '2026-01-01T00:00:00+00:00')",
        ):
            connection.execute(statement)
        for number in range(debits):
            connection.execute(DEBIT, ("nöte", None if number else "a.sparsedp"))
        connection.execute("INSERT INTO seal VALUES (?)", (seal(connection),))
        connection.execute("COMMIT")
    path.chmod(0o640)


def spend_in_version_1(path: Path, die: bool = False) -> None:
    """A debit as it was made, or one that is killed when its pages are written, before the journal
    is gone.
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("BEGIN IMMEDIATE")
        if connection.execute("PRAGMA user_version").fetchone() != (1,):
            raise LedgerError("must be of version 1")
        for _ in range(100 if die else 1):
            connection.execute(DEBIT, ("note " * 50, None))
        connection.execute("UPDATE seal SET sha256 = ?", (seal(connection),))
        if die:
            os.kill(os.getpid(), signal.SIGKILL)
        connection.execute("COMMIT")
