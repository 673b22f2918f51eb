"""A full disk, or a place that cannot be written to: nothing is half written, and nothing is spent
in vain.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import sparsedp
from faults import Disk, disk
from releases import answers, make
from sparsedp import LedgerError, Release, SpentError
from sparsedp.budget.ledger import Ledger
from sparsedp.budget.spending import Account
from sparsedp.format import container
from sparsedp.releasing import building

__all__ = ["disk"]  # a fixture

ROOMS = (0, 4096, 40_960)
KEYS = 40_000  # a release of about 185 kB, and of 60 kB in each of three parts


@pytest.fixture(scope="module")
def large() -> Release:
    return sparsedp.release((np.arange(KEYS), np.ones(KEYS, int)), epsilon=1, nonzero=KEYS)


@pytest.fixture(scope="module")
def large_parts() -> Release:
    return sparsedp.release((np.arange(KEYS), np.ones(KEYS, int)), epsilon=1, nonzero=KEYS, parts=3)


def names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir() if entry.name != ".filler"}


@pytest.mark.parametrize("room", ROOMS)
def test_a_file_that_finds_no_room_leaves_the_old_one(room: int, disk: Disk, large: Release) -> None:
    path = disk.folder / "a.sparsedp"
    make("threshold").save(path)
    before = path.read_bytes()
    with disk.with_room(room):
        with pytest.raises(OSError, match=r"a\.sparsedp") as caught:
            large.save(path)
        assert names(disk.folder) == {"a.sparsedp"}
    assert (caught.value.errno, caught.value.filename) == (disk.error, str(path))
    assert path.read_bytes() == before
    large.save(path)
    sparsedp.verify(path)


@pytest.mark.parametrize("room", ROOMS)
def test_a_directory_that_finds_no_room_is_not_there(room: int, disk: Disk, large_parts: Release) -> None:
    path = disk.folder / "a"
    with disk.with_room(2 * room if disk.shared else room):  # the most room is enough for one part
        with pytest.raises(OSError, match="/a'") as caught:
            large_parts.save(path)
        assert names(disk.folder) == set()
    assert (caught.value.errno, caught.value.filename) == (disk.error, str(path))
    large_parts.save(path)
    sparsedp.verify(path)


@pytest.mark.parametrize("parts", [1, 3])
def test_a_release_that_cannot_be_written_is_debited_and_says_so(
    parts: int, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger.create(disk.folder / "ledger.db", epsilon=3)
    path = disk.folder / "a.sparsedp"
    monkeypatch.setattr(building, "check_room", lambda plan, path: None)  # as if others filled the disk later
    with disk.with_room(49_152):
        with pytest.raises(SpentError, match=r"stay debited.*a\.sparsedp"):
            sparsedp.release({"a": 1}, epsilon=1, nonzero=KEYS, path=path, parts=parts, ledger=ledger)
        with pytest.raises(OSError, match=r"a\.sparsedp"):
            sparsedp.release({"a": 1}, epsilon=1, nonzero=KEYS, path=path, parts=parts)
        assert names(disk.folder) == {"ledger.db"}
    assert [(entry.epsilon, entry.released) for entry in ledger.entries()] == [(1.0, None)]


def test_a_debit_that_finds_no_room_is_no_debit_and_no_release(disk: Disk) -> None:
    """Catches a release that is built although its debit was not written."""
    ledger = Ledger.create(disk.folder / "ledger.db", epsilon=1)
    before = ledger.path.read_bytes()
    path = disk.folder / "a.sparsedp"
    with disk.with_room(0):
        with pytest.raises(
            LedgerError, match=r"ledger\.db cannot (grow; make room|be read or written; check its disk)"
        ):
            # With a note that is longer than the rest of the last block, which needs no room.
            sparsedp.release({"a": 1}, epsilon=1, path=path, ledger=Account(ledger, note="note " * 2000))
        assert not path.exists()
    assert ledger.entries() == []
    assert ledger.path.read_bytes() == before
    sparsedp.release({"a": 1}, epsilon=1, path=path, ledger=ledger)
    assert ledger.datasets()[0].left_epsilon == 0


def test_a_new_ledger_that_finds_no_room_is_not_there(disk: Disk) -> None:
    with disk.with_room(0):
        with pytest.raises(LedgerError, match=r"ledger\.db|\.ledger\."):
            Ledger.create(disk.folder / "ledger.db", epsilon=1)
        assert names(disk.folder) == set()


def test_a_paid_release_is_not_lost_when_the_ledger_cannot_say_that_it_was_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches an error instead of a warning: the budget would be gone, and the release with it."""
    ledger = Ledger.create(tmp_path / "ledger.db", epsilon=1)

    def full(*_: object) -> None:
        raise LedgerError("ledger.db cannot grow")

    monkeypatch.setattr(Ledger, "finish", full)
    with pytest.warns(UserWarning, match=r"built and debited, but entry 1 does not record .* cannot grow"):
        release = sparsedp.release({"a": 1}, epsilon=1, ledger=ledger)
    assert release["a"] == release.lookup(["a"])[0]
    assert [entry.released for entry in ledger.entries()] == [None]


def test_the_command_line_names_what_could_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("key\n" + "x\n" * 100)
    sparsedp.release({"a": 1}, epsilon=1, path=tmp_path / "old.sparsedp")
    old = (tmp_path / "old.sparsedp").read_bytes()
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))"
    options = ["--key", "key", "--epsilon", "1", "--nonzero", "1e6", "--force", "-o", "old.sparsedp"]
    done = subprocess.run(
        [sys.executable, "-c", f"{limit}; from sparsedp.cli import main; main()", "release", "a.csv", *options, "-q"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (1, "sparsedp: File too large: old.sparsedp\n")
    assert (tmp_path / "old.sparsedp").read_bytes() == old
    assert names(tmp_path) == {"a.csv", "old.sparsedp"}


@contextmanager
def without_permission(folder: Path) -> Iterator[None]:
    """A folder that this process can read but not write, even if root runs the tests."""
    root = os.geteuid() == 0
    os.chmod(folder, 0o555)
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        os.chmod(folder, 0o755)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody can access, unlike those of pytest."""
    folder = Path(tempfile.mkdtemp())
    os.chmod(folder, 0o755)
    yield folder
    shutil.rmtree(folder)


PLACES: dict[str, Callable[[Path], Path]] = {
    "a folder without permission": lambda folder: folder / "a.sparsedp",
    "a folder of the system": lambda folder: Path("/proc/a.sparsedp"),
    "a file as a folder": lambda folder: folder / "file" / "a.sparsedp",
    "a missing folder": lambda folder: folder / "missing" / "a.sparsedp",
    "a name that is too long": lambda folder: folder / ("a.sparsedp" * 30),
}


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("place", PLACES)
def test_a_place_that_cannot_be_written_is_named_and_costs_nothing(place: str, parts: int, open_folder: Path) -> None:
    """Catches a check of the place that comes after the debit, or that checks only permissions:
    /proc grants them.
    """
    (open_folder / "file").write_text("a file")
    (open_folder / "budget").mkdir()
    os.chmod(open_folder / "budget", 0o777)
    path = PLACES[place](open_folder)
    built = make("tight-alp-parts" if parts > 1 else "tight-alp")
    with without_permission(open_folder):
        ledger = Ledger.create(open_folder / "budget" / "ledger.db", epsilon=1)
        with pytest.raises(OSError, match=r"a\.sparsedp"):
            built.save(path)
        with pytest.raises(OSError, match=r"a\.sparsedp"):
            sparsedp.release({"a": 1}, epsilon=1, nonzero=9, path=path, parts=parts, ledger=ledger)
        assert ledger.entries() == []
    assert names(open_folder) == {"file", "budget"}


@pytest.mark.parametrize("disk", ["small disk"], indirect=True)
def test_a_read_only_disk_can_be_read_and_costs_nothing(disk: Disk, tmp_path: Path) -> None:
    path = disk.folder / "a.sparsedp"
    make("tight-alp").save(path)
    ledger = Ledger.create(tmp_path / "ledger.db", epsilon=1)
    subprocess.run(["mount", "-o", "remount,ro", str(disk.folder)], check=True)
    assert answers(sparsedp.load(path, allow_reproducible=True)) == answers(make("tight-alp"))
    with pytest.raises(OSError, match=r"Read-only file system: .*/a\.sparsedp"):
        sparsedp.release({"a": 1}, epsilon=1, path=path, ledger=ledger)
    assert ledger.entries() == []


def test_an_error_of_two_names_is_told_with_the_one_that_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches a second name that is None, which Python shows: 'a' -> None."""
    make("threshold").save(tmp_path / "a")
    monkeypatch.setattr(container, "check_replaceable", lambda path: None)  # as if the directory came later
    (tmp_path / "taken" / "inside").mkdir(parents=True)
    with pytest.raises(OSError, match=r"/taken'$") as caught:
        sparsedp.load(tmp_path / "a", allow_reproducible=True).save(tmp_path / "taken")
    assert (caught.value.filename, caught.value.filename2) == (str(tmp_path / "taken"), None)
    assert "None" not in str(caught.value)


def test_a_file_that_may_not_be_read_is_named(open_folder: Path) -> None:
    for name, release in (("a", make("tight-alp")), ("b", make("tight-alp-parts"))):
        release.save(open_folder / name)
    hidden = open_folder / "b" / "part-00001.sparsedp"
    os.chmod(open_folder / "a", 0)
    os.chmod(hidden, 0)
    with without_permission(open_folder):
        for use in (sparsedp.load, sparsedp.verify):
            for path, named in ((open_folder / "a", open_folder / "a"), (open_folder / "b", hidden)):
                with pytest.raises(PermissionError) as caught:
                    use(path)
                assert caught.value.filename == str(named)
