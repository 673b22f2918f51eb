"""The file of a ledger: whole or refused, whatever happened to it."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from ledgers import checked, small, state
from sparsedp.budget import journal, store
from sparsedp.budget.ledger import Ledger
from sparsedp.errors import LedgerError, ParameterError


def foreign_database(path: Path, mode: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA journal_mode = {mode}")
        connection.execute("CREATE TABLE budgets (dataset, epsilon, delta)")
        connection.execute("INSERT INTO budgets VALUES ('default', 1, 0)")
        connection.commit()


@pytest.mark.parametrize("kind", ["empty", "text", "random", "delete", "wal"])
def test_other_files_are_refused_and_left_as_they_are(path: Path, kind: str) -> None:
    match kind:
        case "empty":
            path.touch()
        case "text":
            path.write_text("epsilon = 1\n" * 100)
        case "random":
            path.write_bytes(os.urandom(8192))
        case _:
            foreign_database(path, kind)
    before = path.read_bytes()
    for use in (
        Ledger.open,
        lambda path: Ledger.create(path, epsilon=1),
        lambda path: Ledger(path, 1).spend(epsilon=1),
    ):
        with pytest.raises(LedgerError, match=r"path must be a ledger, got|is not a ledger, or is damaged"):
            use(path)
        assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_newer_version_is_refused(path: Path) -> None:
    small(path)
    path.write_bytes(path.read_bytes().replace(b"version 4", b"version 5", 1))
    with pytest.raises(LedgerError, match="must have version 4 or older, got 5; use a newer sparsedp"):
        Ledger.open(path)


def lines(path: Path) -> list[bytes]:
    return path.read_bytes()[journal.FIRST :].splitlines(keepends=True)


EDITS: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "the last line is gone": lambda lines: lines[:-1],
    "all debits are gone": lambda lines: lines[:2],
    "nothing is left": lambda lines: [],
    "a line is gone": lambda lines: [*lines[:3], *lines[4:]],
    "two lines change places": lambda lines: [lines[1], lines[0], *lines[2:]],
    "a line is there twice": lambda lines: [*lines[:3], *lines[2:]],
    "a total": lambda lines: [lines[0].replace(b'"1.0"', b'"9.0"'), *lines[1:]],
    "a debit": lambda lines: [line.replace(b'"0.5"', b'"0.4"') for line in lines],
    "a data set": lambda lines: [line.replace(b'"default"', b'"another"') for line in lines],
}


@pytest.mark.parametrize("edit", EDITS)
def test_lines_are_as_they_were_written(path: Path, edit: str) -> None:
    """Catches digests that do not depend on earlier lines, and marks that are not compared."""
    ledger = small(path)
    path.write_bytes(path.read_bytes()[: journal.FIRST] + b"".join(EDITS[edit](lines(path))))
    before = path.read_bytes()
    for use in (lambda: Ledger.open(path), lambda: ledger.spend(epsilon=0.01), ledger.datasets, ledger.entries):
        with pytest.raises(
            LedgerError, match="is not a ledger, or is damaged; restore it, and count every release since"
        ):
            use()
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "changes",
    [
        [["budget", "default", "9.0", "0.0", ""]],
        [["budget", "new", 9.0, "0.0", ""]],
        [["debit", 1, "default", "0.5", "0.0", "", "", ""]],
        [["debit", 5, "default", "0.5", "0.0", "", "", ""]],
        [["debit", 4, "none", "0.5", "0.0", "", "", ""]],
        [["released", 1, "again"]],
        [["released", 4, "nothing"]],
        [["refund", 1]],
        {"budget": 1},
        3,
    ],
    ids=str,
)
def test_a_line_that_says_what_no_ledger_says_is_refused(path: Path, changes: Any) -> None:
    small(path)
    content = path.read_bytes()
    line, _ = journal.line_of(checked(path).ends[-1], changes)
    path.write_bytes(content + line)
    with pytest.raises(LedgerError, match="is not a ledger, or is damaged"):
        Ledger.open(path)


def test_a_truncated_file_is_refused_or_has_every_debit(path: Path) -> None:
    """Catches a file without marks: a debit that is cut off would look like one that was never
    finished.
    """
    small(path)
    whole = state(path)
    for length in range(path.stat().st_size - 1, -1, -1):
        os.truncate(path, length)
        with suppress(LedgerError):
            assert state(path) == whole


def test_a_damaged_byte_is_refused_or_means_nothing(path: Path) -> None:
    """Catches a damaged mark that is mistaken for a torn one, so that a line is lost."""
    small(path)
    whole = state(path)
    intact = path.read_bytes()
    refused = 0
    used = [at for at, byte in enumerate(intact) if byte] + list(range(0, len(intact), 97))
    for at in used:
        for bit in (1 << at % 8, 1 << (at + 3) % 8):
            path.write_bytes(intact[:at] + bytes([intact[at] ^ bit]) + intact[at + 1 :])
            try:
                assert state(path) == whole
            except LedgerError:
                refused += 1
    assert refused > len(used)


@pytest.mark.parametrize("offset", range(0, 100, 7))
def test_lost_pages_are_refused(path: Path, offset: int) -> None:
    """Pages of a larger ledger become zeros, or copies of another page: there are never fewer
    debits.
    """
    ledger = Ledger.create(path, epsilon=100.0)
    with store.transaction(path, 1.0, write=True) as book:  # a hundred debits in one commit
        row = ("default", "0.5", "0.0", "laplace", "note " * 20, "2026-01-01T00:00:00.000000+00:00")
        for id in range(1, 101):
            book.change("debit", id, *row)
    assert ledger.datasets()[0].left_epsilon == 50
    content = path.read_bytes()
    pages = [content[at : at + 4096] for at in range(0, len(content), 4096)]
    lost = offset % len(pages)
    for other in (bytes(4096), pages[lost - 1]):
        path.write_bytes(b"".join([*pages[:lost], other, *pages[lost + 1 :]]))
        with pytest.raises(LedgerError):
            Ledger.open(path)


def test_a_locked_file_is_waited_for_and_then_named(path: Path) -> None:
    small(path)
    ledger = Ledger.open(path, timeout=0.05)
    with path.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_SH)
        with pytest.raises(LedgerError, match=r"stayed locked for 0\.05 s; try again"):
            ledger.spend(epsilon=0.1)
        assert len(ledger.entries()) == 3  # readers need not wait for each other
        fcntl.flock(other, fcntl.LOCK_EX)
        for use in (ledger.datasets, lambda: Ledger.open(path, timeout=0)):
            with pytest.raises(LedgerError, match="stayed locked"):
                use()
    assert ledger.spend(epsilon=0.1).id == 4


@contextmanager
def as_somebody() -> Iterator[Path]:
    """A directory that this process can read but not write, even if root runs the tests."""
    directory = Path(tempfile.mkdtemp())
    root = os.geteuid() == 0
    try:
        small(directory / "ledger.db")
        os.chmod(directory / "ledger.db", 0o444)
        os.chmod(directory, 0o555)
        if root:
            os.seteuid(65534)
        yield directory
    finally:
        if root:
            os.seteuid(0)
        os.chmod(directory, 0o700)
        shutil.rmtree(directory)


def test_what_cannot_be_written_can_be_read(path: Path) -> None:
    with as_somebody() as directory:
        ledger = Ledger.open(directory / "ledger.db")
        assert len(ledger.entries()) == 3
        with pytest.raises(LedgerError, match="cannot be written; make the file and its directory writable"):
            ledger.spend(epsilon=0.1)
        with pytest.raises(LedgerError, match="cannot be written"):
            Ledger.create(directory / "ledger.db", epsilon=1, dataset="new")
        with pytest.raises(LedgerError, match="cannot be created; use a writable directory"):
            Ledger.create(directory / "new.db", epsilon=1)
        if os.geteuid() != os.getuid():
            os.seteuid(0)
        os.chmod(directory / "ledger.db", 0o666)  # the file alone is enough: there is no journal
        if os.getuid() == 0:
            os.seteuid(65534)
        assert ledger.spend(epsilon=0.1).id == 4
        if os.getuid() == 0:
            os.seteuid(0)
        os.chmod(directory / "ledger.db", 0)
        if os.getuid() == 0:
            os.seteuid(65534)
        with pytest.raises(LedgerError, match="cannot be read; make the file readable"):
            Ledger.open(directory / "ledger.db")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.EIO, "I/O error")])
def test_a_failed_commit_spends_nothing(path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Catches a line that stays although it could not be synced."""
    ledger = small(path)
    before = path.read_bytes()

    def failing(_: int) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing)
        with pytest.raises((KeyboardInterrupt, LedgerError)):
            ledger.spend(epsilon=0.1)
    assert path.read_bytes() == before
    assert ledger.spend(epsilon=0.1).id == 4


def test_a_debit_whose_mark_fails_stays(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a line that is taken back although its mark may be on the disk: the file would be
    refused.
    """
    ledger = small(path)
    real, calls = os.fsync, []

    def failing(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 2:
            raise OSError(errno.EIO, "I/O error")
        real(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing)
        with pytest.raises(LedgerError, match="cannot be read or written; check its disk"):
            ledger.spend(epsilon=0.125)
    assert [entry.epsilon for entry in ledger.entries()] == [0.5, 0.25, 0.25, 0.125]
    assert ledger.spend(epsilon=0.125).id == 5


@pytest.mark.parametrize("debits", [3, 4])  # so that either mark is the newer one
def test_after_a_power_cut_there_is_all_of_a_debit_or_nothing(path: Path, debits: int) -> None:
    """What may be on the disk: a part of the line and the old mark, or, as the line is synced
    first, all of it and any part of the mark. Catches a torn mark that makes the file unusable, or
    that is not written again.
    """
    ledger = Ledger.create(path, epsilon=100)
    for _ in range(debits):
        ledger.spend(epsilon=1)
    before = path.read_bytes()
    ledger.spend(epsilon=1)
    after = path.read_bytes()
    at = 512 * (1 + (debits + 2) % 2)
    assert before[at : at + 512] != after[at : at + 512]
    states = {before + after[len(before) : cut]: debits for cut in range(len(before), len(after), 7)}
    states[before + bytes(len(after) - len(before))] = debits  # the size was synced, and nothing else
    line = before + after[len(before) :]
    for mark in [after[at : at + 512][:cut] for cut in range(0, 512, 13)]:
        states[line[:at] + mark + line[at + len(mark) :]] = debits + 1
    states[line[:at] + bytes(512) + line[at + 512 :]] = debits + 1
    assert len(states) > 20
    for content, expected in states.items():
        path.write_bytes(content)
        assert len(ledger.entries()) == expected
        assert ledger.spend(epsilon=1).id == expected + 1
        assert len(ledger.entries()) == expected + 1
        whole = path.read_bytes()
        path.write_bytes(whole[:-1])  # noticed again
        with pytest.raises(LedgerError):
            ledger.entries()


@pytest.mark.parametrize("wrong", [None, 5, b"a.db", "", "a\0b", "\ud800"], ids=repr)
def test_what_names_no_file_is_refused(wrong: Any) -> None:
    with pytest.raises(ParameterError, match=r"^ledger must "):
        Ledger.open(wrong)
    with pytest.raises(ParameterError, match=r"^ledger must "):
        Ledger.create(wrong, epsilon=1)


@pytest.mark.parametrize("kind", [str, Path])
def test_a_ledger_is_a_file_of_this_machine(kind: Callable[[str], Any]) -> None:
    with pytest.raises(ParameterError, match=r"^a ledger must be a file of this machine, got s3://bucket/a\.db; name"):
        Ledger.create(kind("s3://bucket/a.db"), epsilon=1)


@pytest.mark.parametrize("wrong", [None, 1, "entry 1"])
def test_only_a_receipt_is_finished(path: Path, wrong: Any) -> None:
    with pytest.raises(ParameterError, match=r"^receipt must be what spend\(\) gave, got "):
        Ledger.create(path, epsilon=1).finish(wrong, "a.sparsedp")
