"""Faults on demand: a full disk, a process that is stopped at a chosen call, a child that must not
hang.
"""

from __future__ import annotations

import errno
import os
import pickle
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

Result = TypeVar("Result")

PAGE = 4096
HANGS = 600.0  # seconds after which something counts as hanging; only a failing test waits that long


@contextmanager
def limited(kind: int, most: int) -> Iterator[None]:
    """A limit of this process, for a while."""
    before, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(kind, (before, hard))


@dataclass(frozen=True)
class Disk:
    """A folder, and a way to limit the room in it to a number of bytes."""

    folder: Path
    with_room: Callable[[int], AbstractContextManager[None]]
    error: int
    shared: bool  # whether the limit is for all files together, or for each


@pytest.fixture(params=["limit", "small disk"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    """Files that may not grow, which works everywhere; and a real full disk, if root may mount one."""
    if request.param == "limit":  # Python ignores the signal that comes with it
        yield Disk(tmp_path, lambda room: limited(resource.RLIMIT_FSIZE, room), errno.EFBIG, shared=False)
        return
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root can mount a small disk; the limit on files stands for it")
    try:
        yield Disk(folder, lambda room: _filled(folder / ".filler", room), errno.ENOSPC, shared=True)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextmanager
def _filled(filler: Path, room: int) -> Iterator[None]:
    with filler.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(PAGE)):
                pass
        except OSError:
            file.truncate(max(0, file.tell() - room))
    try:
        yield
    finally:
        filler.unlink()


CHANGES = {"open", "mkdir", "write", "pwrite", "flush", "fsync", "truncate", "close", "link", "replace", "rename"}
CHANGES |= {"unlink", "rmdir", "execute"}


def _changes_files(function: Any) -> bool:
    """Whether a built-in function of the operating system, of a file or of SQLite changes
    something.
    """
    if function.__name__ not in CHANGES:  # first, because this is asked at every call
        return False
    owner = getattr(function, "__self__", None)
    module = getattr(owner, "__name__", None) or type(owner).__module__
    return module in ("posix", "io", "_io", "sqlite3")


def at_call(number: int, act: Callable[[], object], work: Callable[[], object]) -> int:
    """Do the work, but act right before or after a call that changes a file: at the given one of 2n
    moments.

    Returns the number of moments. Every one can be tried, so no test waits for a lucky one.
    """
    seen = 0

    def watch(frame: object, event: str, function: object) -> None:
        nonlocal seen
        if event in ("c_call", "c_return") and _changes_files(function):
            seen += 1
            if seen == number:
                act()

    sys.setprofile(watch)
    try:
        work()
    finally:
        sys.setprofile(None)
    return seen


def stop(kind: int) -> Callable[[], None]:
    """Send this process a signal."""
    return lambda: os.kill(os.getpid(), kind)


def in_child(work: Callable[[], Result]) -> Result:
    """The result of the work in a forked child, which must not hang; an exception is raised again
    here.
    """
    ended, result = _fork(work)
    if ended != 0:
        raise ChildProcessError(f"the child ended with {ended}")
    done, value = pickle.loads(result)
    if not done:
        raise value
    return value  # type: ignore[no-any-return]


def ending_of_child(work: Callable[[], object]) -> int:
    """How a forked child that does the work ends: 0, or minus the number of a signal."""
    return _fork(work)[0]


def _fork(work: Callable[[], object]) -> tuple[int, bytes]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            try:
                answer = pickle.dumps((True, work()))
            except BaseException as error:
                error.__cause__ = error.__context__ = None
                answer = pickle.dumps((False, error))
            os.write(writing, answer)
        finally:
            os._exit(0)
    os.close(writing)
    ready, _, _ = select.select([reading], [], [], HANGS)
    if not ready:
        os.kill(child, signal.SIGKILL)
    with open(reading, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    if not ready:
        pytest.fail(f"a forked child hung for {HANGS} s")
    return os.waitstatus_to_exitcode(status), answer


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for something to become true."""
    end = time.monotonic() + HANGS
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.002)
