"""Writers that are killed, interrupted or terminated at every call that touches a file: all or
nothing.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest

import sparsedp
from faults import at_call, ending_of_child, stop, wait_until
from releases import make
from sparsedp import FormatError, Release
from sparsedp.budget.ledger import Ledger
from sparsedp.counting import tables
from sparsedp.privacy.randomness import reproducible_for_tests

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning"),
    # If an interrupt comes between opening a file and assigning it, the file is closed late.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory if there is one: hundreds of writes need not wait for a disk."""
    memory = "/dev/shm"
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as name:
        yield Path(name)


COUNTS = {key: 1 + key % 9 for key in range(60)}


def save_file(folder: Path, release: Release) -> None:
    release.save(folder / "a")


def build_file(folder: Path, _: Release, parts: int = 1) -> None:
    with reproducible_for_tests(1):  # so that each try has the same calls
        sparsedp.release(COUNTS, epsilon=1, nonzero=60, parts=parts, path=folder / "a", ledger=folder / "ledger.db")


def build_parts(folder: Path, release: Release) -> None:
    build_file(folder, release, parts=2)


WRITERS: dict[str, tuple[Callable[[Path, Release], None], str]] = {
    "save of a file": (save_file, "tight-alp"),
    "save of parts": (save_file, "tight-alp-parts"),
    "release to a file": (build_file, "tight-alp"),
    "release to parts": (build_parts, "tight-alp"),
}


def is_whole(path: Path) -> bool:
    """Whether a file is a release; it must not be one that opens but is wrong."""
    try:
        sparsedp.load(path, allow_reproducible=True)
    except FormatError:
        return False
    sparsedp.verify(path)
    return True


class Stage:
    """A new folder for each try, with a ledger and the earlier contents, and what must hold
    afterwards.
    """

    def __init__(self, folder: Path, writer: str) -> None:
        self.write, kind = WRITERS[writer]
        self.release = make(kind)
        self.folder = folder
        self.tries = 0
        self.old = None
        if "parts" not in writer:
            make("threshold").save(folder / "old")
            self.old = folder / "old"
        Ledger.create(folder / "ledger.db", epsilon=1)
        self.endings: set[tuple[str, int]] = set()

    def prepare(self) -> Path:
        self.tries += 1
        here = self.folder / str(self.tries)
        here.mkdir()
        if self.old is not None:
            shutil.copy(self.old, here / "a")
        shutil.copy(self.folder / "ledger.db", here)
        return here

    def check(self, here: Path, leftovers: bool) -> None:
        names = set(os.listdir(here)) - {"ledger.db"}
        debits = len(Ledger.open(here / "ledger.db").entries())
        assert debits in (0, 1)
        state = "nothing"
        if "a" in names:
            assert is_whole(here / "a")
            state = "old" if sparsedp.load(here / "a", allow_reproducible=True).mechanism == "threshold" else "new"
        assert state != "nothing" or self.old is None
        if self.write is not save_file and state == "new":
            assert debits == 1  # nothing is published that was not debited
        for name in names - {"a"}:
            assert leftovers, name
            assert name.startswith(".a.")
            assert name.endswith(".tmp")
            is_whole(here / name)
        self.endings.add((state, debits))

    def moments(self) -> range:
        """The moments to try: every one of a short writer, about twenty-five of a long one."""
        for _ in range(2):  # the first time modules are imported, which opens files too
            here = self.prepare()
            last = at_call(0, lambda: None, partial(self.write, here, self.release))
        return range(1, last + 1, 1 + last // 50 * 2)


@pytest.mark.parametrize("writer", WRITERS)
def test_a_writer_that_is_killed_leaves_the_old_or_the_new(writer: str, folder: Path) -> None:
    """Catches a file that is written in place, a header of parts written first, and a debit that
    comes too late.
    """
    stage = Stage(folder, writer)
    for moment in stage.moments():
        here = stage.prepare()
        die = partial(at_call, moment, stop(signal.SIGKILL), partial(stage.write, here, stage.release))
        assert ending_of_child(die) == -signal.SIGKILL
        stage.check(here, leftovers=True)
    assert {state for state, _ in stage.endings} == {"old" if stage.old else "nothing", "new"}


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("writer", WRITERS)
def test_a_writer_that_is_interrupted_cleans_up(writer: str, folder: Path) -> None:
    """Catches a temporary file that is created before, and not inside, the block that removes it."""
    stage = Stage(folder, writer)
    for moment in stage.moments():
        here = stage.prepare()
        with pytest.raises(KeyboardInterrupt):
            at_call(moment, stop(signal.SIGINT), partial(stage.write, here, stage.release))
        stage.check(here, leftovers=False)
    assert {state for state, _ in stage.endings} == {"old" if stage.old else "nothing", "new"}


def test_a_command_that_is_told_to_end_removes_the_counts_that_it_spilled(tmp_path: Path) -> None:
    """Catches a command that dies of SIGTERM as if of SIGKILL: counts would stay behind in its
    folder.
    """
    generator = np.random.default_rng(1)
    rows = 2_000_000
    pd.DataFrame({"user": generator.integers(0, rows, rows), "url": generator.integers(0, rows, rows)}).to_parquet(
        tmp_path / "visits.parquet"
    )
    spilled = tmp_path / "spilled"
    spilled.mkdir()
    options = ["--key", "url", "--user", "user", "--max-keys-per-user", "2", "--epsilon", "1", "-o", "v.sparsedp"]
    spilling = ["--memory-limit", "60MB"]
    with subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from sparsedp.cli import main; main()",
            "release",
            "visits.parquet",
            *options,
            *spilling,
        ],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(spilled), "SPARSEDP_THREADS": "1"},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        # Not for any file: Python tries the folder with one of its own, before anything is counted.
        wait_until(lambda: any(spilled.glob("sparsedp-*/*.tmp")) or process.poll() is not None)
        process.send_signal(signal.SIGTERM)
        _, words = process.communicate()
    assert process.returncode in (128 + signal.SIGTERM, 0)  # it has seconds to react, and may have finished first
    assert "Traceback" not in words
    assert [left for left in spilled.rglob("*") if left.is_file()] == []
    if process.returncode:
        assert sorted(os.listdir(tmp_path)) == ["spilled", "visits.parquet"]


def test_a_command_whose_exit_a_library_swallowed_ends_all_the_same(tmp_path: Path) -> None:
    """Catches a traceback, or another exit code, when DuckDB makes an error of its own of the exit."""
    program = (
        "import os, signal, sparsedp.counting.local as local\n"
        "def ended(*_):\n"
        "    try:\n"
        f"        os.kill(os.getpid(), {int(signal.SIGTERM)})\n"
        "    except SystemExit:\n"
        "        raise RuntimeError('Query interrupted') from None\n"
        "local.count_table = ended\n"
        "from sparsedp.cli import main\nmain()"
    )
    options = ["release", "t.csv", "--key", "k", "--epsilon", "1", "-o", "v.sparsedp", "--quiet"]
    done = subprocess.run([sys.executable, "-c", program, *options], cwd=tmp_path, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (128 + signal.SIGTERM, b"")


def test_an_interrupt_that_duckdb_swallowed_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches its RuntimeError in place of KeyboardInterrupt."""

    def interrupted(*_: object) -> None:
        raise RuntimeError("Query interrupted")

    monkeypatch.setattr("sparsedp.counting.scans.described", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sparsedp.count(pd.DataFrame({"k": ["a"]}), key="k")


def test_a_connection_that_is_still_busy_is_closed_later() -> None:
    """Catches the error of `close` in place of the interrupt: the last query may still be ending."""
    calls = []

    class Busy:
        def close(self) -> None:
            calls.append(1)
            if len(calls) < 3:
                raise duckdb.Error("connection is busy with another call")

    tables._close(duckdb, Busy())
    assert len(calls) == 3
