"""Ledgers under other names, and ledgers of version 1: whatever was reported as debited stays
debited.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
from functools import partial
from io import FileIO
from pathlib import Path

import pytest

from faults import at_call, ending_of_child, in_child, stop
from ledgers import spend_in_version_1, version_1
from sparsedp.budget import store
from sparsedp.budget.ledger import Ledger, Receipt
from sparsedp.errors import BudgetError, LedgerError

ONE_NAME = r"must have one name, got a file with 2 \(hard links\); remove the other names, .* nothing was spent"


@pytest.mark.parametrize("version", [1, 2])
def test_a_file_with_two_names_is_refused_under_both(version: int, path: Path) -> None:
    """Catches a check of the path alone, and one that comes after the debit."""
    if version == 1:
        version_1(path, debits=0)
    else:
        Ledger.create(path, epsilon=1)
    ledger = Ledger.open(path)
    if version == 2:
        ledger.spend(epsilon=0.25)
    other = path.with_name("other.db")
    os.link(path, other)
    before = path.read_bytes()
    for name in (path, other):
        for use in (
            lambda name=name: Ledger.open(name),
            lambda name=name: Ledger.create(name, epsilon=1, dataset="new"),
            lambda name=name: Ledger(name, 1.0).spend(epsilon=0.25),
            ledger.datasets,
            ledger.entries,
            lambda: ledger.finish(Receipt(1, "default", 0.25, 0.0, "", "", ""), "x"),
        ):
            with pytest.raises(LedgerError, match=ONE_NAME):
                use()
    assert path.read_bytes() == before
    path.unlink()
    assert Ledger.open(other).spend(epsilon=0.25).id == version


def test_the_file_that_is_checked_is_the_one_that_is_opened(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches stat of a path that is replaced before it is opened."""
    ledger = Ledger.create(path, epsilon=1)
    linked = path.with_name("linked.db")
    shutil.copy(path, linked)
    os.link(linked, path.with_name("other.db"))

    def replacing(name: Path, mode: str) -> FileIO:
        os.replace(linked, path)
        return FileIO(name, mode)

    monkeypatch.setattr(store, "FileIO", replacing)
    with pytest.raises(LedgerError, match=ONE_NAME):
        ledger.spend(epsilon=0.25)


def test_a_file_that_is_replaced_while_it_is_waited_for_is_opened_anew(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches a debit in a file that no longer has a name."""
    ledger = Ledger.create(path, epsilon=1)
    other = path.with_name("other.db")
    Ledger.create(other, epsilon=1).spend(epsilon=0.25)

    def replaced_after(name: Path, mode: str) -> FileIO:
        file = FileIO(name, mode)
        if other.exists():
            os.replace(other, path)
        return file

    monkeypatch.setattr(store, "FileIO", replaced_after)
    assert ledger.spend(epsilon=0.5).id == 2
    assert ledger.datasets()[0].left_epsilon == 0.25


def spend_until(moment: int, path: Path) -> int:
    return at_call(moment, stop(signal.SIGKILL), partial(Ledger(path, 1.0).spend, epsilon=0.25))


def spend_beyond(size: int, path: Path) -> None:
    """A debit that the kernel kills in mid-write when a file, whatever its name, would grow beyond
    a size.
    """
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    Ledger(path, 1.0).spend(epsilon=0.25, note="note " * 100)


def check_that_no_debit_comes_back(first: Path, second: Path) -> int:
    """A crash under one name, a debit under another, then the first name again; returns the debits
    after the crash.
    """
    first.rename(second)
    ledger = Ledger.open(second)
    entries = len(ledger.entries())
    assert entries in (1, 2)
    ledger.spend(epsilon=0.25)
    second.rename(first)
    ledger = Ledger.open(first)
    assert len(ledger.entries()) == entries + 1
    ledger.spend(epsilon=ledger.datasets()[0].left_epsilon)
    with pytest.raises(BudgetError):
        ledger.spend(epsilon=0.01)
    assert sorted(os.listdir(first.parent)) == ["a"]
    return entries


def folder_of_one_debit(folder: Path) -> Path:
    folder.mkdir()
    Ledger.create(folder / "a", epsilon=1).spend(epsilon=0.25)
    return folder / "a"


def test_killed_at_any_call_and_renamed_no_debit_comes_back(tmp_path: Path) -> None:
    counted = folder_of_one_debit(tmp_path / "counted")
    seen = set()
    for moment in range(1, in_child(partial(spend_until, 0, counted)) + 1):
        path = folder_of_one_debit(tmp_path / str(moment))
        assert ending_of_child(partial(spend_until, moment, path)) == -signal.SIGKILL
        seen.add(check_that_no_debit_comes_back(path, path.with_name("b")))
    assert seen == {1, 2}


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_at_any_call_lets_the_lock_go(path: Path) -> None:
    """Catches a descriptor that is lost before it is closed: its lock would last as long as the
    process.
    """
    ledger = Ledger.create(path, epsilon=100)
    spend = partial(ledger.spend, epsilon=0.25)
    made = 0
    for moment in range(1, at_call(0, lambda: None, spend) + 1):
        before = len(ledger.entries())
        with pytest.raises(KeyboardInterrupt):
            at_call(moment, stop(signal.SIGINT), spend)
        entries = len(Ledger.open(path, timeout=0).entries())
        assert entries - before in (0, 1)
        made += entries - before
        assert Ledger(path, 0.0).spend(epsilon=0.25).id == entries + 1
    assert made > 0


def test_killed_within_a_write_and_renamed_no_debit_comes_back(tmp_path: Path) -> None:
    """Catches a journal, which is not found under the second name, and takes the debits back under
    the first.
    """
    size = folder_of_one_debit(tmp_path / "measured").stat().st_size
    killed = 0
    for most in (*range(0, 4 * size, 512), *range(size, size + 100, 9)):
        path = folder_of_one_debit(tmp_path / str(most))
        ending = ending_of_child(partial(spend_beyond, most, path))
        killed += ending == -signal.SIGXFSZ
        entries = check_that_no_debit_comes_back(path, path.with_name("b"))
        assert entries == 1 + (ending == 0)
    assert killed > 5


def test_a_ledger_is_one_under_a_mount_of_the_file_alone(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere" / "mounted.db"
    other.parent.mkdir()
    other.touch()
    Ledger.create(path, epsilon=100)
    if os.geteuid() != 0 or subprocess.run(["mount", "--bind", path, other], capture_output=True).returncode:
        pytest.skip("only root can mount")
    try:
        for size in range(0, 20_000, 512):
            ending_of_child(partial(spend_beyond, size, path))
            spent = len(Ledger.open(other).entries())
            Ledger.open(other).spend(epsilon=0.25)
            assert len(Ledger.open(path).entries()) == spent + 1
        assert os.listdir(other.parent) == ["mounted.db"]
    finally:
        subprocess.run(["umount", "-l", other], check=True)


@pytest.mark.parametrize("version", [1, 2])
def test_a_symbolic_link_leads_to_the_one_ledger(version: int, path: Path, tmp_path: Path) -> None:
    """Catches a link that is replaced by a separate ledger when the format changes, and a journal
    beside the link.
    """
    if version == 1:
        version_1(path, debits=1)
    else:
        Ledger.create(path, epsilon=1).spend(epsilon=0.25)
    link = tmp_path / "elsewhere" / "link.db"
    link.parent.mkdir()
    link.symlink_to(path)
    if version == 1:  # a crash under the real name is seen under the link: the journal is where the file is
        assert ending_of_child(partial(spend_in_version_1, path, die=True)) == -signal.SIGKILL
        assert path.with_name("ledger.db-journal").exists()
    assert Ledger.open(link).spend(epsilon=0.25).id == 2
    assert Ledger.open(path).spend(epsilon=0.25).id == 3
    assert len(Ledger.open(link).entries()) == 3
    assert link.is_symlink()
    assert os.listdir(link.parent) == ["link.db"]


def create_until(moment: int, path: Path) -> int:
    return at_call(moment, stop(signal.SIGKILL), lambda: Ledger.create(path, epsilon=1))


def test_who_is_killed_while_making_a_ledger_leaves_none_or_one_that_works(tmp_path: Path) -> None:
    """Catches a file that keeps the name under which it was made, and is therefore always refused."""
    made = 0
    for moment in range(1, in_child(partial(create_until, 0, tmp_path / "counted")) + 1):
        folder = tmp_path / str(moment)
        folder.mkdir()
        assert ending_of_child(partial(create_until, moment, folder / "l")) == -signal.SIGKILL
        if (folder / "l").exists():
            made += 1
            assert Ledger.open(folder / "l").spend(epsilon=1).id == 1
            assert os.listdir(folder) == ["l"]
        else:
            Ledger.create(folder / "l", epsilon=1)
    assert made > 1
