"""The privacy budget of a data set, spent once: an SQLite file with a total for each data set and every debit.

A debit is one transaction that reads what has been spent, checks that the sum stays within the total, and writes the
entry; SQLite lets one process do that at a time, and with `synchronous = FULL` a commit is on disk before it returns.
So a release that was debited stays debited, whatever happens to the process, and two processes cannot both spend what
is left. Amounts add up (basic composition) as exact fractions of the decimals that were written: ten times 0.1 is 1.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from .errors import BudgetError, LedgerError, ParameterError
from .privacy import check_delta, check_epsilon

DEFAULT_DATASET = "default"
APPLICATION_ID = 0x53444C31  # "SDL1"
VERSION = 1
BUSY_SECONDS = 30.0
_LONGEST_NAME = 200

# The counts and sums in `datasets` repeat what the entries say, so that a file that lost entries is noticed.
_SCHEMA = """
CREATE TABLE datasets (
    name TEXT PRIMARY KEY, epsilon TEXT NOT NULL, delta TEXT NOT NULL, created TEXT NOT NULL,
    debits INTEGER NOT NULL, spent_epsilon TEXT NOT NULL, spent_delta TEXT NOT NULL
);
CREATE TABLE entries (
    id INTEGER PRIMARY KEY AUTOINCREMENT, dataset TEXT NOT NULL REFERENCES datasets (name),
    epsilon TEXT NOT NULL, delta TEXT NOT NULL, mechanism TEXT NOT NULL, note TEXT NOT NULL, time TEXT NOT NULL,
    released TEXT
);
"""


class Receipt(NamedTuple):
    """A debit that was made."""

    id: int
    dataset: str


@dataclass(frozen=True)
class Balance:
    """A data set's total, and what of it is spent."""

    dataset: str
    epsilon: Fraction
    delta: Fraction
    spent_epsilon: Fraction
    spent_delta: Fraction
    created: str

    @property
    def left_epsilon(self) -> Fraction:
        """The ε that may still be spent."""
        return self.epsilon - self.spent_epsilon

    @property
    def left_delta(self) -> Fraction:
        """The δ that may still be spent."""
        return self.delta - self.spent_delta


@dataclass(frozen=True)
class Entry:
    """One debit; `released` is None until the release was built."""

    id: int
    dataset: str
    epsilon: Fraction
    delta: Fraction
    mechanism: str
    note: str
    time: str
    released: str | None


@dataclass(frozen=True)
class Ledger:
    """A ledger file. Each operation opens it anew, so a `Ledger` may be shared between threads and forked processes."""

    path: Path

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        epsilon: float,
        delta: float = 0.0,
        dataset: str = DEFAULT_DATASET,
    ) -> Ledger:
        """A new data set with its total, in a new file or in one that is a ledger; a total is never changed."""
        total = _exact(check_epsilon(epsilon)), _exact(check_delta(delta))
        name = _check_name(dataset)
        ledger = cls(Path(path))
        if not ledger.path.exists():
            # The owner's alone: it tells what was asked of the data, and when.
            os.close(os.open(ledger.path, os.O_CREAT | os.O_RDWR, 0o600))
        with ledger._transaction(may_be_new=True) as connection:
            if connection.execute("SELECT 1 FROM datasets WHERE name = ?", (name,)).fetchone():
                raise LedgerError(f"{ledger.path} has a data set {name!r} already, and totals are never changed")
            row = (name, *map(str, total), _now())
            connection.execute("INSERT INTO datasets VALUES (?, ?, ?, ?, 0, '0', '0')", row)
        return ledger

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Ledger:
        """A ledger that exists."""
        ledger = cls(Path(path))
        if not ledger.path.exists():
            raise FileNotFoundError(
                f"there is no ledger {path}; make one with Ledger.create or `sparsedp ledger create`"
            )
        ledger.datasets()
        return ledger

    def spend(
        self,
        *,
        epsilon: float,
        delta: float = 0.0,
        dataset: str = DEFAULT_DATASET,
        mechanism: str = "",
        note: str = "",
    ) -> Receipt:
        """Debit a data set, or `BudgetError` if its total does not allow it."""
        amount = _exact(check_epsilon(epsilon)), _exact(check_delta(delta))
        name = _check_name(dataset)
        with self._transaction() as connection:
            balance = _balance(connection, self.path, name)
            if amount[0] > balance.left_epsilon or amount[1] > balance.left_delta:
                raise BudgetError(
                    f"data set {name!r} of {self.path} has ε = {float(balance.left_epsilon):g}, "
                    f"δ = {float(balance.left_delta):g} left, and the release asks for ε = {epsilon:g}, δ = {delta:g}; "
                    "ask for less. Nothing was spent"
                )
            cursor = connection.execute(
                "INSERT INTO entries (dataset, epsilon, delta, mechanism, note, time) VALUES (?, ?, ?, ?, ?, ?)",
                (name, *map(str, amount), mechanism, note, _now()),
            )
            spent = balance.spent_epsilon + amount[0], balance.spent_delta + amount[1]
            connection.execute(
                "UPDATE datasets SET debits = debits + 1, spent_epsilon = ?, spent_delta = ? WHERE name = ?",
                (*map(str, spent), name),
            )
            assert cursor.lastrowid is not None
            return Receipt(cursor.lastrowid, name)

    def finish(self, receipt: Receipt, released: str) -> None:
        """Write what became of a debit."""
        with self._transaction() as connection:
            connection.execute("UPDATE entries SET released = ? WHERE id = ?", (released, receipt.id))

    def datasets(self) -> list[Balance]:
        """The balances of all data sets, in the order of their names."""
        with self._transaction() as connection:
            names = [row[0] for row in connection.execute("SELECT name FROM datasets ORDER BY name")]
            return [_balance(connection, self.path, name) for name in names]

    def entries(self, dataset: str | None = None) -> list[Entry]:
        """All debits, or those of one data set, in their order."""
        columns = "id, dataset, epsilon, delta, mechanism, note, time, released"
        with self._transaction() as connection:
            rows = connection.execute(
                f"SELECT {columns} FROM entries WHERE ? IS NULL OR dataset = ? ORDER BY id", (dataset, dataset)
            ).fetchall()
        return [Entry(row[0], row[1], _fraction(row[2]), _fraction(row[3]), *row[4:]) for row in rows]

    @contextmanager
    def _transaction(self, may_be_new: bool = False) -> Iterator[sqlite3.Connection]:
        """One transaction that no other process can come between; what SQLite complains about is said with the path."""
        try:
            # Not created here: a file that vanished must not come back with a fresh budget.
            uri = f"{self.path.absolute().as_uri()}?mode=rw"
            connection = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
        except sqlite3.Error as error:
            raise LedgerError(f"{self.path} cannot be opened: {error}") from None
        try:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("BEGIN IMMEDIATE")
            self._check_kind(connection, may_be_new)
            yield connection
            connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            hint = "; another process holds it, try again" if "locked" in str(error) else ""
            raise LedgerError(f"{self.path} cannot be used: {error}{hint}") from None
        except (sqlite3.Error, ValueError, UnicodeDecodeError) as error:
            raise LedgerError(f"{self.path} is damaged, or no ledger: {error}") from None
        finally:
            connection.close()  # which rolls back what was not committed

    def _check_kind(self, connection: sqlite3.Connection, may_be_new: bool) -> None:
        (kind,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if may_be_new and (kind, version, tables) == (0, 0, 0):
            for statement in _SCHEMA.split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
        elif kind != APPLICATION_ID:
            raise LedgerError(f"{self.path} is no ledger")
        elif version != VERSION:
            raise LedgerError(f"{self.path} has version {version}, this one reads {VERSION}; upgrade sparsedp")


def _balance(connection: sqlite3.Connection, path: Path, name: str) -> Balance:
    """What is left of a data set, or `LedgerError` if there is none or its entries are not those that were made."""
    row = connection.execute("SELECT * FROM datasets WHERE name = ?", (name,)).fetchone()
    if row is None:
        known = ", ".join(repr(other[0]) for other in connection.execute("SELECT name FROM datasets ORDER BY name"))
        raise LedgerError(f"{path} has no data set {name!r}; it has {known or 'none'}")
    _, epsilon, delta, created, debits, spent_epsilon, spent_delta = row
    entries = connection.execute("SELECT epsilon, delta FROM entries WHERE dataset = ?", (name,)).fetchall()
    spent = sum((_fraction(e) for e, _ in entries), Fraction(0)), sum((_fraction(d) for _, d in entries), Fraction(0))
    if (len(entries), *spent) != (debits, _fraction(spent_epsilon), _fraction(spent_delta)):
        raise LedgerError(f"{path} is damaged: the entries of {name!r} are not those that were debited")
    return Balance(name, _fraction(epsilon), _fraction(delta), *spent, created)


def _exact(value: float) -> Fraction:
    """The decimal that was written."""
    return Fraction(repr(value))


def _fraction(text: str) -> Fraction:
    value = Fraction(text)
    if value < 0:
        raise ValueError(f"negative amount {text}")
    return value


def _check_name(name: object) -> str:
    if not isinstance(name, str) or not 1 <= len(name) <= _LONGEST_NAME or not name.isprintable():
        raise ParameterError(f"dataset must be a name of 1..{_LONGEST_NAME} printable letters, got {name!r:.80}")
    return name


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
