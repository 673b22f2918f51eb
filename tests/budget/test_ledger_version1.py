"""Ledgers of version 1, which are SQLite files: whatever was reported as debited stays debited."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import stat
import subprocess
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from faults import at_call, ending_of_child, in_child, stop
from ledgers import small, spend_in_version_1, state, version_1, version_2
from sparsedp.budget.book import VERSION
from sparsedp.budget.ledger import Ledger
from sparsedp.errors import BudgetError, LedgerError


def is_version_1(path: Path) -> bool:
    return path.read_bytes().startswith(b"SQLite format 3\0")


def spend_until(moment: int, path: Path) -> int:
    return at_call(moment, stop(signal.SIGKILL), partial(Ledger(path, 1.0).spend, epsilon=0.25))


def test_a_ledger_of_version_1_is_read_as_it_is(path: Path) -> None:
    version_1(path)
    before = path.read_bytes()
    ledger = Ledger.open(path)
    assert [(b.dataset, b.left_epsilon, b.left_delta) for b in ledger.datasets()] == [
        ("default", 0.25, 1e-6),
        ("other", 2.0, 0.0),
    ]
    assert [(e.id, e.note, e.released) for e in ledger.entries()] == [
        (1, "nöte", "a.sparsedp"),
        (2, "nöte", None),
        (3, "nöte", None),
    ]
    assert path.read_bytes() == before


def test_a_ledger_of_version_1_is_renewed_by_the_first_change(path: Path) -> None:
    version_1(path)
    before = state(path)
    with pytest.raises(BudgetError):
        Ledger.open(path).spend(epsilon=0.5)
    assert not is_version_1(path)
    assert state(path) == before
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    ledger = Ledger.open(path)
    ledger.finish(ledger.entries()[1], "b.sparsedp")
    assert ledger.spend(epsilon=0.25).id == 4
    with pytest.raises(BudgetError):
        ledger.spend(epsilon=0.01)
    with pytest.raises(sqlite3.DatabaseError):  # as a program that knows only version 1 would open it
        spend_in_version_1(path)
    assert os.listdir(path.parent) == ["ledger.db"]


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM entries WHERE id = 3",
        "DELETE FROM entries",
        "DELETE FROM budgets WHERE dataset = 'other'",
        "DELETE FROM seal",
        "UPDATE budgets SET epsilon = '9.0'",
        "UPDATE entries SET epsilon = '0.2' WHERE id = 1",
        "UPDATE entries SET dataset = 'other'",
        "INSERT INTO seal SELECT * FROM seal",
        "DROP TABLE entries",
        "DROP TABLE seal",
        "CREATE TABLE other (x)",
        "CREATE TRIGGER undo AFTER INSERT ON entries BEGIN DELETE FROM entries; END",
        "ALTER TABLE entries ADD COLUMN x",
        "PRAGMA user_version = 5",
    ],
)
def test_rows_and_tables_of_version_1_are_as_they_were_written(path: Path, statement: str) -> None:
    """Catches a seal that leaves out a table, a column or the number of rows."""
    version_1(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()
    before = path.read_bytes()
    for use in (Ledger.open, lambda path: Ledger(path, 1.0).spend(epsilon=0.01)):
        with pytest.raises(
            LedgerError, match=r"is not a ledger, or is damaged; restore it|must have version 4 or older"
        ):
            use(path)
    assert path.read_bytes() == before


def test_a_renewal_that_is_killed_at_any_call_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    """Catches a conversion in place, and a file that is replaced before the new one is whole."""
    version_1(tmp_path / "old")
    before = state(tmp_path / "old")
    shutil.copy(tmp_path / "old", tmp_path / "counted")
    endings = set()
    for moment in range(1, in_child(partial(spend_until, 0, tmp_path / "counted")) + 1):
        path = tmp_path / str(moment)
        shutil.copy(tmp_path / "old", path)
        assert ending_of_child(partial(spend_until, moment, path)) == -signal.SIGKILL
        entries = Ledger.open(path).entries()
        assert len(entries) in (3, 4)
        endings.add((is_version_1(path), len(entries)))
        if len(entries) == 3:
            assert state(path) == before
            Ledger.open(path).spend(epsilon=0.25)
        assert len(Ledger.open(path).entries()) == 4
    assert endings == {(True, 3), (False, 3), (False, 4)}


def upgrade_until(moment: int, path: Path) -> int:
    return at_call(moment, stop(signal.SIGKILL), Ledger(path, 1.0).upgrade)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_upgrade_that_is_killed_at_any_call_keeps_every_debit(tmp_path: Path, version: int) -> None:
    """Catches a file that is replaced before the new one is whole, and an accounting that is on
    without being recorded.
    """
    old = tmp_path / "old"
    version_1(old) if version == 1 else version_2(old) if version == 2 else small(old)
    entries = Ledger.open(old).entries()
    shutil.copy(old, tmp_path / "counted")
    endings = set()
    for moment in range(1, in_child(partial(upgrade_until, 0, tmp_path / "counted")) + 1):
        path = tmp_path / str(moment)
        shutil.copy(old, path)
        assert ending_of_child(partial(upgrade_until, moment, path)) == -signal.SIGKILL
        ledger = Ledger.open(path)
        assert ledger.entries() == entries
        endings.add(ledger.datasets()[0].accounting)
        if ledger.datasets()[0].accounting == "basic":
            ledger.upgrade()
        assert Ledger.open(path).spend(epsilon=0.125).id == 4
    assert endings == {"basic", "pld"}


def test_a_journal_of_version_1_under_the_old_name_takes_no_debit_back(path: Path) -> None:
    """A crash in version 1, then a rename. Catches debits in a file that SQLite may roll back under
    its old name.
    """
    version_1(path, debits=1)
    whole = path.read_bytes()
    assert ending_of_child(partial(spend_in_version_1, path, die=True)) == -signal.SIGKILL
    renamed = path.with_name("renamed.db")
    path.rename(renamed)
    for use in (Ledger.open, lambda path: Ledger(path, 1.0).spend(epsilon=0.25)):  # half written, and it shows
        with pytest.raises(LedgerError, match=r"it lost its journal|is not a ledger, or is damaged"):
            use(renamed)
    renamed.write_bytes(whole)  # nothing of it had reached the file
    assert Ledger.open(renamed).spend(epsilon=0.25).id == 2
    renamed.rename(path)
    assert path.with_name("ledger.db-journal").exists()
    assert len(Ledger.open(path).entries()) == 2
    assert Ledger.open(path).spend(epsilon=0.25).id == 3


def test_who_knows_version_1_only_does_not_spend_beside_the_renewed_file(path: Path) -> None:
    """It has the old file open when that is replaced. Catches a debit in a file without a name."""
    version_1(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as waiting:
        waiting.execute("SELECT * FROM budgets").fetchall()
        in_child(lambda: Ledger.open(path).spend(epsilon=0.25).id)
        assert waiting.execute("PRAGMA user_version").fetchone() == (VERSION,)
    assert len(Ledger.open(path).entries()) == 4


def test_a_ledger_of_version_1_that_cannot_be_replaced_is_read_and_not_spent(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere" / "mounted.db"
    other.parent.mkdir()
    other.touch()
    version_1(path)
    if os.geteuid() != 0 or subprocess.run(["mount", "--bind", path, other], capture_output=True).returncode:
        pytest.skip("only root can mount")
    try:
        assert len(Ledger.open(other).entries()) == 3
        with pytest.raises(LedgerError, match=r"cannot be replaced.*mount its directory, not the file alone"):
            Ledger.open(other).spend(epsilon=0.25)
        assert os.listdir(other.parent) == ["mounted.db"]
    finally:
        subprocess.run(["umount", "-l", other], check=True)
    assert Ledger.open(path).spend(epsilon=0.25).id == 4
