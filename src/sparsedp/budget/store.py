"""The file of a ledger: its own journal, private, durable, and refused if any byte is not as it was
written.

A database finds its journal by the name of its file. Under another name (a hard link, a rename
after a crash, a mount of the file alone) the journal is not seen, or is applied later and takes
back debits whose releases are out. So there is no second file: a commit is one line at the end, and
the lock is on the file itself, whatever its name.

    head    512 bytes that never change
    marks   two of 512 bytes, used in turn: the number of lines, where the last one ends, its digest,
            and a checksum
    lines   SHA-256 of the previous line and of this one, and the changes of one commit as JSON; every
            now and then, the first of them is a summary of all lines before, with their SHA-256

- Durable: a line is written and synced, then its mark, synced too, and only then is the debit
  reported. If the process is killed before that, the file ends with a whole line, which counts, or
  with a torn one, which does not and is cut off by the next commit: it has no mark, so it was not
  reported.
- Undamaged: each line carries the digest of all lines before it, and the marks state how many lines
  there must be, so a truncated or damaged file is refused instead of granting a budget twice. A
  mark torn by a power cut differs from a damaged one by its line, which was synced before. This is
  not a signature: an older copy in the file's place passes.
- One name: anything that replaces a file by its name (editors, backups, our own change of format)
  turns a file with two names into two ledgers, each with the remaining budget. So a file with
  several hard links is refused; symbolic links are followed.
- Local: locks keep processes apart, and network file systems often only pretend to lock.

Every use checks every byte; `journal.py` says how.

Ledgers of version 1 are SQLite files. They are read unchanged, by SQLite, and converted to this
format, all or nothing, before the first change, so no SQLite journal can take back a debit that was
made here. Files of version 2 stay as they are until something is added that only version 3 has, and
files of version 3, which have no summaries, until they are upgraded.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path

from ..errors import LedgerError
from ..format.container import sync_directory
from .book import OLDEST, VERSION, Book, Change
from .explaining import explained
from .journal import BLOCK, HEAD, HEADS, STARTS, Checked, Mark, check, due_summary, line_of
from .version1 import SQLITE, of_sqlite

# One thread at a time uses ledgers, and a fork waits for it: a child would share the lock on the
# file, and would wait forever for SQLite's own locks if another thread held them at that moment.
_in_use = threading.RLock()
os.register_at_fork(before=_in_use.acquire, after_in_parent=_in_use.release, after_in_child=_in_use.release)


# Ledgers that this process has used, by their paths.
_checked: dict[Path, Checked] = {}
_MOST_CHECKED = 8


def make(path: Path, timeout: float, changes: list[Change]) -> bool:
    """Create a file with its first data set, whole or not at all; False if a file of that name
    exists by now.
    """
    with _alone(path, timeout):
        try:
            with _hidden(path, changes) as (temporary, _):
                os.link(temporary, path)  # a link never replaces a file
                temporary.unlink()
                sync_directory(path.parent)
        except FileExistsError:
            return False
        except OSError as error:
            raise LedgerError(
                f"{path} cannot be created; use a writable directory on a local disk ({error.strerror})"
            ) from error
    return True


@contextmanager
def _hidden(path: Path, changes: list[Change]) -> Iterator[tuple[Path, FileIO]]:
    """A new, synced, locked file beside a path; a process that finds it under its final name waits
    for the lock.
    """
    temporary = path.with_name(f".ledger.{secrets.token_hex(8)}.tmp")
    try:
        with FileIO(temporary, "x+", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            line, mark = line_of(STARTS[VERSION], changes)
            _write(file, HEAD + STARTS[VERSION].written() + mark.written() + line, 0)
            _sync(file)
            yield temporary, file
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def transaction(
    path: Path, timeout: float, *, write: bool, renew: int = OLDEST, since: int | None = None
) -> Iterator[Book]:
    """The checked file, locked against changes by others; committed if the block ends without an
    exception. Files of versions before `renew` are converted first. The book has all entries from the
    debit `since` on; without it, perhaps only the last ones.
    """
    with _alone(path, timeout), _opened(path, timeout, write, renew) as (file, is_sqlite):
        if is_sqlite:
            yield of_sqlite(path, timeout)
            return
        checked, is_clean = check(file, path, _checked.pop(path, None), since)
        book, mark = checked.book, checked.ends[-1]
        summary = due_summary(checked) if write else []
        try:
            yield book
        except BaseException:
            if not book.changes:
                _keep(path, checked)
            raise
        if book.changes:
            line, new = line_of(mark, summary + book.changes)
            _commit(file, mark, is_clean, line, new)
            checked.append(line, new, bool(summary))
            book.changes.clear()
        _keep(path, checked)


def _keep(path: Path, checked: Checked) -> None:
    del checked.ends[:-2]  # no mark is older
    while len(_checked) >= _MOST_CHECKED:
        _checked.pop(next(iter(_checked)))
    _checked[path] = checked


def _commit(file: FileIO, last: Mark, is_clean: bool, line: bytes, mark: Mark) -> None:
    try:
        if not is_clean:  # a process was stopped here: a torn line, or a line without its mark
            file.truncate(last.end)
            _write(file, last.written(), last.place())
        _write(file, line, last.end)
        _sync(file)
    except BaseException:
        with suppress(OSError):  # the first error is the one to report; a torn line does not count
            file.truncate(last.end)
        raise
    # From here on the debit stays, whatever happens: a mark that may be on the disk must have its
    # line.
    _write(file, mark.written(), mark.place())
    _sync(file)


@contextmanager
def _alone(path: Path, timeout: float) -> Iterator[None]:
    if not _in_use.acquire(timeout=timeout):
        raise LedgerError(f"waited {timeout:g} s for {path}; try again when other threads are done with ledgers")
    try:
        yield
    finally:
        _in_use.release()


@contextmanager
def _opened(path: Path, timeout: float, write: bool, renew: int) -> Iterator[tuple[FileIO, bool]]:
    """An existing file, locked, with this name and no other, and whether it is of version 1, which is
    only for reading.
    """
    end = time.monotonic() + timeout
    with explained(path, timeout, write):
        while True:
            try:
                _check_kind(path, os.stat(path))  # opening a pipe would wait for its other end
                file = FileIO(path, "r+" if write else "r")
            except (FileNotFoundError, NotADirectoryError):
                raise _missing(path) from None
            # A file object, not a descriptor: even if Ctrl-C comes at a bad moment, it is closed
            # and the lock released.
            with file:
                _lock(file, write, end)
                if not _is_at(path, file):  # replaced while we waited for it
                    continue
                _check_names(path, file)
                start = file.read(BLOCK)
                is_sqlite = start.startswith(SQLITE)
                is_old = is_sqlite or any(start == head for version, head in HEADS.items() if version < renew)
                if not (write and is_old):
                    yield file, is_sqlite
                    return
                _convert(path, file, is_sqlite, timeout)


def _missing(path: Path) -> FileNotFoundError:
    return FileNotFoundError(f"path must be a ledger, got {path}, which does not exist; create it with Ledger.create")


def _lock(file: FileIO, write: bool, end: float) -> None:
    pause = 0.0005
    while True:
        try:
            return fcntl.flock(file, (fcntl.LOCK_EX if write else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                raise
        time.sleep(min(pause, max(0.0, end - time.monotonic())))
        pause = min(2 * pause, 0.02)


def _is_at(path: Path, file: FileIO) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(file.fileno()))
    except FileNotFoundError:
        raise _missing(path) from None


def _check_kind(path: Path, about: os.stat_result) -> None:
    if not stat.S_ISREG(about.st_mode):
        raise LedgerError(f"{path} cannot be opened: a ledger must be a regular file")


def _check_names(path: Path, file: FileIO) -> None:
    about = os.fstat(file.fileno())
    _check_kind(path, about)
    if about.st_nlink > 1:
        # A process killed while creating a ledger leaves its first name. None is creating it now:
        # it would be locked.
        for leftover in path.resolve().parent.glob(".ledger.*.tmp"):
            with suppress(OSError):
                if os.path.samestat(leftover.lstat(), about):
                    leftover.unlink()
        if (names := os.fstat(file.fileno()).st_nlink) > 1:
            raise LedgerError(
                f"{path} must have one name, got a file with {names} (hard links); remove the other names, which "
                f"`find -samefile` lists, or copy it and remove all of them; nothing was spent"
            )


def _write(file: FileIO, content: bytes, at: int) -> None:
    while content:
        written = os.pwrite(file.fileno(), content, at)
        content, at = content[written:], at + written


# On macOS a plain sync stops at the drive's cache.
_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)


def _sync(file: FileIO) -> None:
    if _FULL_SYNC is None:
        os.fsync(file.fileno())
    else:
        fcntl.fcntl(file, _FULL_SYNC)


def _convert(path: Path, file: FileIO, is_sqlite: bool, timeout: float) -> None:
    """Replace a locked file of an older version by a file of the newest."""
    book = of_sqlite(path, timeout, close=True) if is_sqlite else check(file, path)[0].book
    about, real = os.fstat(file.fileno()), path.resolve()
    with _hidden(real, list(book.all_changes())) as (temporary, new):
        try:
            os.fchown(new.fileno(), about.st_uid, about.st_gid)
        except PermissionError as error:
            raise LedgerError(
                f"{path} has version {1 if is_sqlite else book.version} and belongs to another user, who must make the "
                "next change, which converts it"
            ) from error
        os.fchmod(new.fileno(), stat.S_IMODE(about.st_mode))
        _sync(new)
        if _is_at(path, file):
            os.replace(temporary, real)
            sync_directory(real.parent)
