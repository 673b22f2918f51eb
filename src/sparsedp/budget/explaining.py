"""What went wrong with the file of a ledger, in words that say the fix."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import LedgerError
from .book import DamageError


@contextmanager
def explained(path: Path, timeout: float, write: bool) -> Iterator[None]:
    """Turn errors of the operating system and of SQLite into `LedgerError`."""
    damaged = "is not a ledger, or is damaged; restore it, and count every release since then as spent"
    locked = f"stayed locked for {timeout:g} s; try again when other processes are done with it"
    access = "written; make the file and its directory writable" if write else "read; make the file readable"
    full = "cannot grow; make room on its disk"
    broken = "cannot be read or written; check its disk"
    try:
        yield
    except OSError as error:
        if error.errno is None:  # our own message
            raise
        numbers = {
            **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), f"cannot be {access}"),
            **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), full),
            **dict.fromkeys((errno.EAGAIN, errno.EWOULDBLOCK), locked),
            errno.EBUSY: "cannot be replaced, which a change of format needs; mount its directory, not the file alone",
        }
        raise LedgerError(f"{path} {numbers.get(error.errno, broken)} ({error.strerror})") from error
    except (sqlite3.Error, UnicodeDecodeError) as error:  # SQLite quotes damaged names in its messages
        opening = "cannot be opened, or has no journal; make the file and its directory writable"
        signs = {"locked": locked, "readonly": f"cannot be {access}", "unable to open": opening, "is full": full}
        fixes = [fix for sign, fix in {**signs, "I/O": broken, "": damaged}.items() if sign in str(error)]
        raise LedgerError(f"{path} {fixes[0]} ({error})") from error
    except DamageError as damage:
        raise LedgerError(f"{path} {damaged} ({damage})") from damage
